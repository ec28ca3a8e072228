"""The passing of time, and the rounds that follow every change: hooks on the engine's thread."""

from heapq import heappop, heappush

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.exchanges import Exchanges
from holdfast.coordinator.feeders import Feeders
from holdfast.coordinator.unplaced import Unplaced
from holdfast.core import commands as c
from holdfast.core.decide.circuits import next_half_open
from holdfast.core.decide.tick import still_due
from holdfast.core.ids import NEVER, Instant, JobId

CALENDAR_MS = 1_000
"""How often the wall clock is looked at while something waits for it; it may jump either way."""

FORGET_MS = 60_000

PRESENCES_A_TERM = 8
"""How often in a term the coordinator takes a turn while leases may run out."""


class Rounds:
    """Places work whenever something changed. Wakes by itself when a delayed task comes due."""

    def __init__(self, coordinator: Coordinator, exchanges: Exchanges) -> None:
        self._coordinator = coordinator
        self._exchanges = exchanges
        self._prune_at = Instant(0)

    def step(self, now: Instant) -> None:
        if now >= self._prune_at:
            self._exchanges.prune(now)
            self._prune_at = Instant(now + FORGET_MS)
        self._exchanges.round()

    def next_due(self) -> Instant:
        dues = (
            self._coordinator.state.ready.next_wake(),
            self._exchanges.placement.next_due(),
            self._exchanges.deliveries.next_due(),
        )
        return min((due for due in dues if due != NEVER), default=NEVER)


class Ticker:
    """Executes the tick when something may have come due, and keeps the timers lean. Without
    `feeders` open jobs are fed by this very process, and end with it. `unplaced` knows why a job
    was given no worker in time."""

    def __init__(
        self,
        coordinator: Coordinator,
        *,
        keep_finished: int,
        feeders: Feeders | None = None,
        unplaced: Unplaced | None = None,
    ) -> None:
        self._unplaced = unplaced
        self._coordinator = coordinator
        self.keep_finished = keep_finished
        self._feeders = feeders
        self._next = Instant(0)

    def step(self, now: Instant) -> None:
        if now < self._next:
            soonest = self._soonest()
            if not soonest or now < soonest:
                return
        coordinator = self._coordinator
        tick = c.Tick(
            wall=coordinator.clock.wall(),
            held=coordinator.watchers.held(),
            keep_finished=self.keep_finished,
            silent=self._feeders.silent(now) if self._feeders is not None else (),
            reasons=self._unplaced.reasons(now) if self._unplaced is not None else (),
        )
        coordinator.execute(tick, actor="clock")
        for holder in coordinator.state.holders.values():
            # What was due has ended; a bound left behind by it would call the tick for ever.
            if NEVER != holder.soonest <= now:
                holder.find_soonest()
        for timers, limit in (
            (coordinator.state.timers, now),
            (coordinator.state.wall_timers, tick.wall),
        ):
            self._prune(timers, limit, tick, now)
        self._next = self.next_due()

    def next_due(self) -> Instant:
        soonest = self._soonest()
        limit = Instant(self._coordinator.now() + FORGET_MS)
        return min(soonest, limit) if soonest else limit

    def _soonest(self) -> Instant:
        """When the state itself expects something, by either clock; zero for never."""
        state, now = self._coordinator.state, self._coordinator.now()
        dues = [holder.soonest for holder in state.holders.values() if holder.soonest != NEVER]
        if dues and self._coordinator.term_ms:
            # Being there often enough is what tells an absence from an idle hour.
            dues.append(Instant(now + self._coordinator.term_ms // PRESENCES_A_TERM))
        if state.timers:
            dues.append(state.timers[0][0])
        half_opens = next_half_open(state)
        if half_opens != NEVER:
            dues.append(half_opens)
        if self._feeders is not None:
            dues.append(self._feeders.next_due())
        if state.wall_timers:
            ahead = state.wall_timers[0][0] - self._coordinator.clock.wall()
            dues.append(Instant(now + max(0, min(ahead, CALENDAR_MS))))
        return min(dues, default=NEVER)

    def _prune(
        self, timers: list[tuple[Instant, JobId]], limit: Instant, tick: c.Tick, now: Instant
    ) -> None:
        """Timers that have done their work go; one whose job has more to come stays."""
        kept: list[tuple[Instant, JobId]] = []
        while timers and timers[0][0] <= limit:
            entry = heappop(timers)
            job = self._coordinator.state.jobs.get(entry[1])
            if job is not None and still_due(job, tick, now):
                kept.append(entry)
        for entry in kept:
            heappush(timers, entry)
