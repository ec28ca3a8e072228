"""Who reads the log as it becomes durable, and judges every record and every state.

The log is the witness order of everything that happened. What clients and workers were told is held
against it elsewhere; here it is held against itself, and against true time, which no machine in the
cluster knows.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from typing import Final

from holdfast.core import events as e
from holdfast.core.apply import replay
from holdfast.core.attempt import EndReason
from holdfast.core.errors import BrokenInvariant
from holdfast.core.freeze import fingerprint
from holdfast.core.ids import NEVER, Position
from holdfast.core.invariants import Watch, check
from holdfast.core.record import Record, decode_record
from holdfast.core.seen import MOVES, WAITING
from holdfast.core.state import State
from holdfast.testing.sim.agenda import MILLI
from holdfast.testing.sim.declared import Declared
from holdfast.testing.sim.server import Server
from holdfast.testing.sim.timetable import Timetable

LEAST_PART: Final = 0.999
"""A term of a coordinator whose clock runs fast may be so much shorter in true time."""
REPLAYED_EVERY: Final = 4
"""After so many openings the whole log is replayed and compared: it takes as long as all else."""
KEEP_REQUESTS_MS: Final = 900_000
ROUNDING_US: Final = 5 * MILLI

Tally = dict[str, int]
Place = tuple[int, str, int, int]
"""Of an effect in the line of its key: by commits, and by name among those of one record."""


class Auditor:
    """`tallies` has for each job how its tasks stood, from which position on; `asked` the positions
    of the records of each request; `moves` counts the transitions of tasks. `lines` has for each
    sink and key what is owed; `confirmed` what is said to have arrived; `undelivered` the leases
    that never reached their workers; `opened_at` the positions at which a server began."""

    def __init__(self, term_ms: int, trace: Callable[[bytes], None]) -> None:
        self.troubles: list[str] = []
        self._trace = trace
        self.watch = Watch()
        self.moves: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()
        self.events: Counter[str] = Counter()
        self.asked: dict[str, list[int]] = {}
        self.tallies: dict[str, list[tuple[int, Tally]]] = {}
        self.committed: dict[tuple[str, int], tuple[int, int, bytes]] = {}
        self.promised: dict[str, int] = {}
        self.lines: dict[tuple[str, str], list[Place]] = {}
        self.discarded: set[str] = set()
        self.confirmed: list[str] = []
        self.undelivered: set[int] = set()
        self.forgotten: set[str] = set()
        self.opened_at: list[int] = []
        self.declared = Declared()
        self.timetable = Timetable()
        self.records = 0
        self._term_us = term_ms * MILLI
        self._decided_us: dict[int, int] = {}
        self._renewed_us: dict[int, int] = {}
        self._chain = b""
        self._back_us = [0]
        self._checked: tuple[int, int] = (0, 0)
        self._noted = 0
        self._requested: dict[str, int] = {}

    # While a server lives.

    def decided(self, server: Server, now_us: int) -> None:
        """Memory may have moved: note when, and judge the state it is in."""
        state = server.coordinator.state
        if state.position == self._noted:
            return
        for position in range(self._noted + 1, state.position + 1):
            self._decided_us[position] = now_us
        self._noted = state.position

    def came_back(self, now_us: int, away_us: int) -> None:
        """The coordinator was frozen for so long and goes on."""
        if away_us * 3 > self._term_us:
            self._back_us.append(now_us)

    def check(self, server: Server) -> None:
        """Everything that must hold of a state, if it is another one than the last time."""
        state = server.coordinator.state
        here = (server.log.epoch, state.position)
        if here != self._checked and server.coordinator.failure is None:
            self._checked = here
            self.troubles.extend(f"at {state.position}: {found}" for found in check(state))

    def read(self, server: Server) -> None:
        """More of the log is durable: read it from the log itself."""
        log = server.log
        first = self.watch.position + 1
        if log.durable < first:
            return
        for frame in log.read(first):
            for position, content in enumerate(frame.records, start=frame.first):
                if first <= position <= log.durable:
                    self._trace(content)
                    self._feed(Position(position), decode_record(content))
        self._chain = log.chain_after(log.durable) or b""

    def opened(self, server: Server, before: State | None) -> None:
        """A server has taken the folder: nothing durable is gone or changed, and the state is the
        one that the log tells."""
        log, position = server.log, self.watch.position
        if log.last < position:
            self.troubles.append(f"L3: {position} records were durable and {log.last} are left")
            return
        if position and log.chain_after(position) != self._chain and position >= log.oldest - 1:
            self.troubles.append(f"L6: the record at {position} is not the one that was durable")
        self._noted = min(self._noted, log.last - 1)
        self._decided_us = {k: v for k, v in self._decided_us.items() if k < log.last}
        if before is not None and before.position == log.last - 1:
            # The one that died knew exactly what was written: its memory is what replay must find.
            self.troubles.extend(self._same(server, before))

    def _same(self, server: Server, before: State) -> list[str]:
        """Without any snapshot, where the log goes back to its beginning; and as it was found, by
        way of a snapshot where there is one."""
        from holdfast.coordinator.recovery import recover  # noqa: PLC0415 - only here

        until, troubles = int(before.position), []
        if server.log.oldest == 1 and server.log.epoch % REPLAYED_EVERY == 0:
            try:
                again = recover(server.log, None, until=until)
            except BrokenInvariant as error:
                return [f"L4: the log up to {until} cannot be replayed: {error}"]
            if fingerprint(again) != fingerprint(before):
                troubles.append(f"L4: replay up to {until} gives another state than was there")
        last, found = Position(server.log.last), server.coordinator.state
        if found.position != last:
            return [*troubles, f"L4: the log ends at {last} and the state at {found.position}"]
        try:
            replay(before, ((last, server.taken.recent(last)),))
        except BrokenInvariant as error:
            return [*troubles, f"L4: the one that died could not go on with {last}: {error}"]
        if fingerprint(found) != fingerprint(before):
            troubles.append(f"L4: at {until} another state was found than the one that died")
        return troubles

    # Records.

    def _feed(self, position: Position, record: Record) -> None:
        self.records += 1
        at_us = self._decided_us.get(int(position), 0)
        if record.request_id and record.actor == "client":
            self.asked.setdefault(record.request_id, []).append(int(position))
        touched: dict[str, None] = {}
        for event in record.events:
            self.events[type(event).__name__] += 1
            touched[getattr(event, "job_id", "")] = None
            self._expired_in_time(event, at_us)
            self._note_requests(event, record.at)
            if isinstance(event, e.LogOpened):
                self.opened_at.append(int(position))
        held = dict(self.watch.held)
        going_on = self.timetable.going_on(self.watch.jobs)
        states = {job: self._states(job) for job in touched if job}
        self.troubles.extend(map(str, self.watch.feed(position, record)))
        told = self.declared.feed(int(position), record, self.watch.jobs)
        self.troubles.extend(told)
        told = self.timetable.feed(int(position), record, going_on)
        self.troubles.extend(told)
        for job, before in states.items():
            self._note_moves(job, before, int(position))
        for event in record.events:
            self._note_leases(event, at_us)
            self._note_commits(event, int(position))
        for lease in held.keys() - self.watch.held.keys():
            self._renewed_us.pop(lease, None)

    def _states(self, job_id: str) -> dict[int, str]:
        job = self.watch.jobs.get(job_id)
        return {} if job is None else {index: seen.state for index, seen in job.tasks.items()}

    def _note_moves(self, job_id: str, before: dict[int, str], position: int) -> None:
        job = self.watch.jobs.get(job_id)
        if job is None:
            return
        tally: Tally = {WAITING: job.count - len(job.tasks)}
        for index, seen in job.tasks.items():
            tally[seen.state] = tally.get(seen.state, 0) + 1
            was = before.get(index, WAITING)
            if was != seen.state:
                self.moves[f"{was} -> {seen.state}"] += 1
        known = self.tallies.setdefault(job_id, [])
        shown = {state: number for state, number in tally.items() if number}
        if not known or known[-1][1] != shown:
            known.append((position, shown))

    def _note_leases(self, event: e.AnyEvent, at_us: int) -> None:
        """When each lease was given its last term, in true time."""
        if isinstance(event, e.LeasesGranted):
            self._renewed_us.update(dict.fromkeys(e.lease_ids(event), at_us))
        elif isinstance(event, e.LeasesExtended):
            holder = (event.worker, event.incarnation)
            for lease, seen in self.watch.held.items():
                if seen.holder == holder and lease not in event.exceptions:
                    self._renewed_us[lease] = at_us
        elif isinstance(event, e.LeasesRearmed):
            self._renewed_us.update(dict.fromkeys(self.watch.held, at_us))

    def _expired_in_time(self, event: e.AnyEvent, at_us: int) -> None:
        if not isinstance(event, e.AttemptsReturned | e.TasksQuarantined | e.TasksKilled):
            return
        for end in event.ends:
            self.ends[end.reason] += 1
            if end.reason == EndReason.UNDELIVERED:
                self.undelivered.add(int(end.lease_id))
            since = self._renewed_us.get(end.lease_id)
            if end.reason != "lease_expired" or since is None or not at_us:
                continue
            # Nobody could renew while the coordinator was away: that starts the term anew.
            back_us = self._back_us[bisect_right(self._back_us, at_us) - 1]
            lived = at_us - max(since, back_us)
            if lived < self._term_us * LEAST_PART - ROUNDING_US:
                self.troubles.append(
                    f"S7: lease {end.lease_id} of {event.job_id}/{end.index} ended "
                    f"{lived // MILLI} ms after its last term began"
                )

    def _note_requests(self, event: e.AnyEvent, at: int) -> None:
        """A request is known for its quarter of an hour, by the clock of the log: a machine whose
        wall clock is ahead takes that ahead when it takes the log."""
        if isinstance(event, e.RequestNoted):
            self._requested[event.key] = at
        elif isinstance(event, e.RequestsForgotten):
            early = [key for key in event.keys if at - self._requested[key] < KEEP_REQUESTS_MS]
            self.troubles.extend(f"request {key} was forgotten early" for key in early)
            self.forgotten.update(event.keys)

    def _note_commits(self, event: e.AnyEvent, position: int) -> None:
        if isinstance(event, e.TasksCompleted):
            commits = event.commits
        elif isinstance(event, e.TaskCommitted):
            commits = (event.commit,)
            for number, entry in enumerate(event.owed):
                self.promised[f"{event.job_id}/{event.commit.index}:{number}"] = position
                if entry.key:
                    place = (position, str(event.job_id), int(event.commit.index), number)
                    self.lines.setdefault((entry.place, entry.key), []).append(place)
        else:
            if isinstance(event, e.EffectsDelivered):
                self.confirmed += [f"{event.job_id}/{s.index}:{s.number}" for s in event.settled]
            elif isinstance(event, e.EffectsDiscarded):
                self.discarded |= {f"{event.job_id}/{s.index}:{s.number}" for s in event.settled}
            return
        for commit in commits:
            task = (str(event.job_id), int(commit.index))
            if task in self.committed:
                self.troubles.append(f"C1: {task} committed twice")
            self.committed[task] = (int(commit.lease_id), position, commit.result)

    # After the storm.

    def overdue(self, now_us: int) -> list[str]:
        """V1: leases that nobody has renewed for two terms."""
        return [
            f"V1: lease {lease} lives on {(now_us - since) // MILLI} ms after its last term began"
            for lease, since in self._renewed_us.items()
            if lease in self.watch.held
            and self.watch.held[lease].expires_at != NEVER
            and now_us - since > 2 * self._term_us + 2_000 * MILLI
        ]


def all_moves() -> set[str]:
    """Every transition of a task that the watch knows."""
    return {
        f"{source} -> {target}"
        for sources, target in MOVES.values()
        for source in sources
        if source != target
    }
