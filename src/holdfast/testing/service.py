"""A coordinator over a log in memory, driven by hand: no thread, no disk, no clock of its own.

It does what the engine does, one turn at a time, and checks the state and the history as it goes.
A crash keeps what was durable and nothing else.
"""

from collections.abc import Callable, Mapping

from msgspec import structs

from holdfast.coordinator.clockwork import Clockwork
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.exchanges import Exchanges
from holdfast.coordinator.placement import MOST_PICKS
from holdfast.coordinator.ports import Clock, Dice
from holdfast.coordinator.reconciling.hook import Reconciling
from holdfast.coordinator.recovery import opening, recover
from holdfast.coordinator.results import Results
from holdfast.coordinator.settings import Settings
from holdfast.coordinator.stalls import Stalls
from holdfast.coordinator.ticker import PRESENCES_A_TERM, Rounds, Ticker
from holdfast.coordinator.turns import Hook
from holdfast.coordinator.unplaced import Unplaced
from holdfast.core import commands as c
from holdfast.core.decide.circuits import next_half_open
from holdfast.core.decision import Decision
from holdfast.core.errors import BrokenInvariant, LogFailed
from holdfast.core.freeze import fingerprint, freeze, thaw
from holdfast.core.ids import NEVER, Instant, Position
from holdfast.core.invariants import Watch, check
from holdfast.core.record import Record, decode_record
from holdfast.core.state import State
from holdfast.scheduler.seats import Seat
from holdfast.wal import MemoryLog
from holdfast.wire.sinks import AnySink

KEEP_FINISHED = 10_000


class Service:
    """`writing` is true between the append of a frame and `synced`, as it is for a real disk."""

    def __init__(
        self,
        clock: Clock,
        dice: Dice,
        *,
        term_ms: int = 0,
        keep_finished: int = KEEP_FINISHED,
        aging_ms: int = Settings().aging_ms,
        sinks: Mapping[str, AnySink] | None = None,
        most_picks: int = MOST_PICKS,
        results: Results | None = None,
        settings: Settings | None = None,
        runtimes: bool = False,
    ) -> None:
        self.clock = clock
        self.dice = dice
        self.term_ms = term_ms
        self.keep_finished = keep_finished
        self.aging_ms = aging_ms
        self.sinks = dict(sinks or {})
        self.most_picks = most_picks
        self.results = results
        self.settings = settings or Settings()
        self.runtimes = runtimes
        self.reconciling: Reconciling | None = None
        self.writing = False
        self.log = MemoryLog()
        self.watch = Watch()
        self.troubles: list[str] = []
        self._watched = 0
        self._begin(State())

    # --- turns ----------------------------------------------------------------------------------

    def turn(self) -> bool:
        """One turn of the engine; True where a frame was written and waits to be synced."""
        self.coordinator.excuse_absence()
        now = self.coordinator.now()
        for hook in self._hooks():
            hook.step(now)
        self.coordinator.settle()
        if self.writing:
            return False
        batch = self.coordinator.take_batch()
        if batch is None:
            return False
        self.log.append(batch.records, at=batch.at, wall=batch.wall)
        self.writing = True
        return True

    def synced(self) -> None:
        """The disk says that the frame is safe: whatever waited for it goes out."""
        self.log.sync()
        self.writing = False
        self._look_back()
        self.coordinator.became_durable(Position(self.log.durable))

    def settle(self) -> None:
        """Turn and sync until there is nothing left to write."""
        while self.turn():
            self.synced()

    def next_due(self) -> Instant:
        dues = [hook.next_due() for hook in self._hooks()]
        return min((due for due in dues if due), default=Instant(0))

    def next_event(self) -> Instant:
        """`next_due` for whoever alone moves the wall clock: it is not looked at in between."""
        state, now, wall = self.coordinator.state, self.clock.now(), self.clock.wall()
        calendars = (state.schedule_timers, state.wall_timers)
        dues = [now + max(timers[0][0] - wall, 1) for timers in calendars if timers]
        dues += [timers[0][0] for timers in (state.timers,) if timers]
        dues += [self._rounds.next_due(), self.stalls.next_due(), next_half_open(state)]
        leased = [holder.soonest for holder in state.holders.values() if holder.soonest != NEVER]
        if leased:
            dues += [min(leased), now + self.term_ms // PRESENCES_A_TERM]
        return Instant(min((due for due in dues if due != NEVER), default=NEVER))

    def _hooks(self) -> tuple[Hook, ...]:
        runtimes = () if self.reconciling is None else (self.reconciling,)
        return (self._ticker, self.stalls, self._clockwork, *runtimes, self._rounds)

    # --- asking ---------------------------------------------------------------------------------

    def do(self, command: c.Command, *, actor: str = "test") -> Decision:
        return self.coordinator.execute(command, actor=actor)

    def ask(self, command: c.Command, answer: Callable[[Decision], None]) -> Decision:
        """Execute, and hand the decision over once all it saw is durable."""
        decision = self.do(command)
        self.coordinator.answer(lambda: answer(decision), lambda error: None)
        return decision

    def set_sinks(self, sinks: Mapping[str, AnySink]) -> None:
        """These are the sinks from now on, after crashes too."""
        self.sinks = dict(sinks)
        settings = structs.replace(self.settings, aging_ms=self.aging_ms, sinks=self.sinks)
        self.exchanges.adjust(settings)

    def record(self, position: Position) -> Record:
        pending = self.coordinator.pending_record(position)
        return decode_record(self.log.record(position)[1] if pending is None else pending)

    def records(self) -> list[Record]:
        """Everything durable, in order."""
        return [
            decode_record(data)
            for frame in (self.log.read() if self.log.last else ())
            for data in frame.records
            if frame.last <= self.log.durable
        ]

    def check(self) -> None:
        """Judge the state as it is in memory; what is wrong is kept in `troubles`."""
        state = self.coordinator.state
        self.troubles.extend(map(str, check(state)))
        for worker in self.exchanges.workers.values():
            kept, anew = worker.kept_seat(state), worker.seat(state)
            if _timeless(kept) != _timeless(anew):
                self.troubles.append(f"{worker.worker} is seated as {kept} and is {anew}")
            if worker.tally(state) != structs.replace(worker, stand=None).tally(state):
                self.troubles.append(f"{worker.worker} is counted as {worker.tally(state)}")

    # --- crashes --------------------------------------------------------------------------------

    def crash(self, *, frame_survives: bool = False, by_snapshot: bool = False) -> None:
        """Lose memory and everything that was not durable, then open the log again.

        A frame under way may reach the disk although nobody was told: `frame_survives`.
        """
        if frame_survives and self.writing:
            self.log.sync()
            self._look_back()
        self.coordinator.fail(LogFailed("the power is gone"))
        self.log = self.log.reopen()
        self.writing = False
        state = recover(self.log, None)
        if by_snapshot:
            before = fingerprint(state)
            state = thaw(freeze(state))
            if fingerprint(state) != before:
                self.troubles.append("a snapshot came back as another state")
        self._begin(state)

    def _begin(self, state: State) -> None:
        self.coordinator = Coordinator(state, self.clock, self.dice, term_ms=self.term_ms)
        self.exchanges = Exchanges(
            self.coordinator, self.record, term_ms=self.term_ms, results=self.results
        )
        self.set_sinks(self.sinks)
        self.exchanges.placement.most_picks = self.most_picks
        unplaced = Unplaced(self.coordinator, self.exchanges)
        self._ticker = Ticker(
            self.coordinator, keep_finished=self.keep_finished, unplaced=unplaced
        )
        self.stalls = Stalls(self.coordinator, self.exchanges, self.settings)
        self._clockwork = Clockwork(self.coordinator)
        self._rounds = Rounds(self.coordinator, self.exchanges)
        if self.runtimes:
            self.reconciling = Reconciling(self.coordinator, self.exchanges, self.record)
        command = opening(self.log.log_id, self.log.epoch, 0, self.term_ms)
        self.do(command, actor="coordinator")
        batch = self.coordinator.take_batch()
        if batch is None:
            raise BrokenInvariant("the log could not be taken over")
        self.log.append(batch.records, at=batch.at, wall=batch.wall)
        self.synced()

    def _look_back(self) -> None:
        """Show the watch what has become durable since it looked last."""
        if self.log.durable == self._watched:
            return
        for frame in self.log.read(self._watched + 1):
            for place, data in enumerate(frame.records, start=frame.first):
                found = self.watch.feed(Position(place), decode_record(data))
                self.troubles.extend(map(str, found))
        self._watched = self.log.durable


def _timeless(seat: Seat) -> Seat:
    """A seat without since when its attempts run: who may be ended is looked at each time."""
    return structs.replace(seat, slots=[structs.replace(slot, since=NEVER) for slot in seat.slots])
