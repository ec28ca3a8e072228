"""The same cluster, and work that comes again: cron expressions and intervals of every policy,
people who pause, run, backfill, change and remove them, outages, and a wall clock that is set.
"""

from functools import partial
from typing import Final

from holdfast.coordinator.schedules import backfilling, resuming, running, setting
from holdfast.core import commands as c
from holdfast.core import commands_schedules as s
from holdfast.core import events as e
from holdfast.core.decision import Accepted, Decision, Reason, Refused
from holdfast.core.ids import Index, Instant, JobId
from holdfast.core.job import is_finished
from holdfast.core.schedule import MISSED, OVERLAPS, SCHEDULED_AT, Definition, Timing
from holdfast.core.spec import STOP, JobSpec, RetryPolicy
from holdfast.testing.member import ASK_AGAIN_MS, Action
from holdfast.testing.placed_cluster import PlacedCluster
from holdfast.testing.placed_judge import Judge, Site
from holdfast.testing.scheduled_judge import CLOSING, GRIDS, MINUTE, ScheduledJudge

SCHEDULES: Final = 5
INTERVALS_MS: Final = (7_000, 10_000, 45_000)
ZONES: Final = ("UTC", "Asia/Kolkata")
OUTAGES_MS: Final = (61_000, 150_000)
JUMPS_MS: Final = (-5 * MINUTE, -MINUTE, -4_000, 4_000, MINUTE, 8 * MINUTE)
SPINS: Final = 1_000


class ScheduledCluster(PlacedCluster):
    """`promised` are the runs that somebody was told of. `walls` has what the wall clock was ahead
    of log time, from each moment on at which it was set."""

    wild_ms = 6 * MINUTE
    start = Instant(1_800_000_000_000)

    def __init__(self, seed: int, *, workers: int = 3, jobs: int = 3) -> None:
        self.promised: set[str] = set()
        self.walls: list[tuple[int, int]] = [(0, 0)]
        self._is_closed = False
        self._items: dict[str, tuple[bytes, ...]] = {}
        super().__init__(seed, workers=workers, jobs=jobs)
        self.names = [f"s{number}" for number in range(SCHEDULES)]
        for name in self.names:
            self.after(self.dice.randrange(20_000), partial(self._make, name))
        self.after(self.wild_ms, self._close)

    # --- what users do --------------------------------------------------------------------------

    def _definition(self) -> Definition:
        every_ms = self.dice.choice((*INTERVALS_MS, *2 * (0,)))
        timing = Timing(every_ms=every_ms) if every_ms else self._cron()
        # What must not outlive its lease takes long here: such runs overlap.
        spec = JobSpec(
            name="work", kind="function", target="work", retries=3, max_losses=1_000,
            retry=RetryPolicy(kind="fixed", delay_ms=500, jitter=0.5),
            on_disconnect=self.dice.choice(("", STOP, STOP)),
        )  # fmt: skip
        items = tuple(f"{n}:{SCHEDULED_AT}".encode() for n in range(self.dice.choice((1, 1, 3))))
        return Definition(
            timing=timing, spec=spec, items=items, missed=self.dice.choice(MISSED),
            overlap=self.dice.choice(OVERLAPS),
        )  # fmt: skip

    def _cron(self) -> Timing:
        return Timing(cron=self.dice.choice(list(GRIDS)), zone=self.dice.choice(ZONES))

    def _make(self, name: str) -> None:
        self._ask_for(name, self._definition())

    def _ask_for(self, name: str, definition: Definition) -> None:
        """Ask until told yes: the same definition again changes nothing."""
        if self._is_closed:
            return
        told: list[Decision] = []
        state, wall = self.service.coordinator.state, self.clock.wall()
        self.service.ask(setting(state, wall, name, definition, replace=True), told.append)

        def again() -> None:
            if told and isinstance(told[0], Refused):
                self.troubles.append(f"schedule {name} was refused: {told[0]}")
            if not told:
                self.faults["asked again for a schedule"] += 1
                self._ask_for(name, definition)

        self.after(ASK_AGAIN_MS, again)

    def _do(self, command: c.Command, *, is_promise: bool = False) -> None:
        def note(decision: Decision) -> None:
            if isinstance(decision, Accepted) and is_promise:
                answer = decision.answer
                self.promised.update(answer if isinstance(answer, tuple) else (str(answer),))

        decision = self.service.ask(command, note)
        if isinstance(decision, Accepted):
            self.faults[type(command).__name__] += 1
        elif decision.code is not Reason.NOT_FOUND:
            self.troubles.append(f"{command} was refused: {decision}")

    def _pause(self) -> None:
        self._do(s.PauseSchedule(name=self.dice.choice(self.names)))

    def _resume(self) -> None:
        state, name = self.service.coordinator.state, self.dice.choice(self.names)
        paused = [one.name for one in state.schedules.values() if one.paused]
        for known in paused or [name]:
            self._do(resuming(state, self.clock.wall(), known))

    def _run_now(self) -> None:
        self._do(running(self.clock.wall(), self.dice.choice(self.names)), is_promise=True)

    def _backfill(self) -> None:
        state, wall = self.service.coordinator.state, self.clock.wall()
        first = Instant(wall - self.dice.randrange(1, 3 * MINUTE))
        name = self.dice.choice(self.names)
        self._do(backfilling(state, wall, name, first, wall), is_promise=True)

    def _change(self) -> None:
        self._make(self.dice.choice(self.names))

    def _renew(self) -> None:
        """Removed and made again under the same name; perhaps because the clock was wrong, so that
        instants come again that had their runs."""
        name = self.dice.choice(self.names)
        known = self.service.coordinator.state.schedules.get(name)
        if known is not None:
            self._do(s.RemoveSchedule(name=name))
            if self.dice.random() < 0.5:
                self._set_clock(-2 * MINUTE)
            again = partial(self._ask_for, name, known.definition)
            self.after(self.dice.randrange(2_000), again)

    def _cancel_run(self) -> None:
        runs = self._unfinished_runs()
        if runs:
            self._do(c.KillJob(job_id=self.dice.choice(runs)))

    # --- what goes wrong ------------------------------------------------------------------------

    def _stay_away(self) -> None:
        """The coordinator is down for so long that instants are missed."""
        self._lose_power()
        self.faults["away"] += 1
        self.clock.advance(self.dice.choice(OUTAGES_MS))

    def _set_clock(self, jump_ms: int = 0) -> None:
        jump = jump_ms or self.dice.choice(JUMPS_MS)
        self.faults["clock set back" if jump < 0 else "clock set ahead"] += 1
        self.clock.move_wall(jump)
        self.walls.append((self.clock.now(), self.clock.wall() - self.clock.now()))

    def blows(self) -> list[Action]:
        more: list[Action] = [
            self._pause, self._resume, self._resume, self._run_now, self._backfill, self._change,
            self._renew, self._cancel_run, self._stay_away, self._set_clock, self._lose_power,
        ]  # fmt: skip
        return [*super().blows(), *2 * more]

    # --- judging --------------------------------------------------------------------------------

    def _close(self) -> None:
        """Everything that is due happens; then no more is wanted."""
        self._is_closed = True
        for _ in range(SPINS):
            if self.service.turn() or self.service.writing:
                self.service.synced()
            elif self.service.next_due() > self.clock.now():
                break
        for name in tuple(self.service.coordinator.state.schedules):
            self.service.do(s.PauseSchedule(name=name, reason=CLOSING))

    def _unfinished_runs(self) -> list[JobId]:
        jobs = self.service.coordinator.state.jobs.values()
        runs = [job for job in jobs if "schedule" in dict(job.spec.labels)]
        return [job.job_id for job in runs if not is_finished(job)]

    def unsettled(self) -> list[str]:
        return [*super().unsettled(), *self._unfinished_runs()]

    def payload_of(self, keys: dict[JobId, str], job_id: JobId, index: Index) -> bytes:
        if job_id in keys:
            return super().payload_of(keys, job_id, index)
        if not self._items:
            events = [event for record in self.service.records() for event in record.events]
            submitted = [event for event in events if isinstance(event, e.JobSubmitted)]
            self._items = {event.job_id: event.items for event in submitted}
        return self._items[job_id][index]

    def a_judge(self, sites: dict[str, Site]) -> Judge:
        return ScheduledJudge(sites, self.walls)

    def _look_at_ends(self, log: Judge) -> None:
        super()._look_at_ends(log)
        if isinstance(log, ScheduledJudge):
            lost = self.promised - log.fired
            if lost:
                self.troubles.append(f"runs were promised and are nowhere: {sorted(lost)}")
