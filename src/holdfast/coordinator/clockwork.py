"""Schedules kept by the wall clock: a hook of the engine.

What is due is found on a heap. The calendar says which instants have passed and which comes next;
the core records the outcome, one instant a record. Whatever is remembered here is safe to lose:
after a crash the recorded next instant is where the clockwork goes on.
"""

from collections import deque
from collections.abc import Iterator
from heapq import heappop
from itertools import chain
from typing import Final

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.ticker import CALENDAR_MS
from holdfast.coordinator.views import rfc3339
from holdfast.core import commands_schedules as s
from holdfast.core.decision import Refused
from holdfast.core.ids import NEVER, Instant
from holdfast.core.schedule import ALL, DUE, MADE_UP, SKIP, Schedule
from holdfast.scheduler.calendar import instants

LATE_MS: Final = 60_000
"""An instant that is looked at within a minute is on time; later, it was missed."""

MADE_UP_MOST: Final = 1_000
"""Of the instants that were missed so many are made up for at most: the latest."""

LOOKS_A_TURN: Final = 500
LOOKS_A_FIRE: Final = 10
WORK_A_TURN: Final = 100
"""How much is done before others have their turn: so many fires, or ten times as many looks into
the calendar. What is left is due at once."""

ACTOR: Final = "clock"


class Behind:
    """One schedule whose instant has come: those that passed, from the first to the one that is
    still ahead. An outage of a year at a run a minute is gone through in parts."""

    def __init__(self, schedule: Schedule, wall: Instant) -> None:
        self.definition = schedule.definition
        self.first = schedule.next_wall
        self.wall = wall
        self.passed = 0
        self.upcoming: Instant = NEVER
        self.is_whole = False
        most = MADE_UP_MOST if schedule.definition.missed == ALL else 1
        self.kept: deque[Instant] = deque(maxlen=most)
        self.last_dropped: Instant = NEVER
        self._coming = self._from(schedule, most)

    def is_about(self, schedule: Schedule) -> bool:
        """Whether the schedule still stands where it was looked at."""
        is_same = schedule.definition is self.definition
        return is_same and schedule.next_wall == self.first

    def look(self) -> bool:
        """Go through some more of what has passed; whether that was all."""
        for _ in range(LOOKS_A_TURN):
            instant = next(self._coming, NEVER)
            if instant == NEVER or instant > self.wall:
                self.upcoming, self.is_whole = instant, True
                break
            self.passed += 1
            if len(self.kept) == self.kept.maxlen:
                self.last_dropped = self.kept[0]
            self.kept.append(instant)
        return self.is_whole

    def _from(self, schedule: Schedule, most: int) -> Iterator[Instant]:
        timing, first = schedule.definition.timing, self.first
        if timing.every_ms:
            # An interval needs no counting: all but the last few are passed over at once.
            over = max(0, (self.wall - first) // timing.every_ms + 1 - most)
            self.passed = over
            if over:
                self.last_dropped = Instant(first + (over - 1) * timing.every_ms)
            first = Instant(first + over * timing.every_ms)
        return chain((first,), instants(timing, first, first))


class Clockwork:
    """Fires what is due. A timer stays until its instant was taken."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._behind: dict[str, Behind] = {}

    def step(self, now: Instant) -> None:
        state = self._coordinator.state
        timers = state.schedule_timers
        if not timers or state.suspended:
            return
        wall = self._coordinator.clock.wall()
        if timers[0][0] > wall or self._coordinator.guard(s.FireSchedule) is not None:
            # What comes due while there is no room for it is made up for when there is.
            return
        again: dict[str, Schedule] = {}
        left = WORK_A_TURN
        while left > 0 and timers and timers[0][0] <= wall:
            at_wall, name = heappop(timers)
            schedule = state.schedules.get(name)
            if schedule is not None and schedule.next_wall == at_wall and not schedule.paused:
                left -= self._catch_up(schedule, wall, left)
                if schedule.next_wall == at_wall:
                    again[name] = schedule
        for schedule in again.values():
            state.set_schedule_timer(schedule)
        if not timers or timers[0][0] > wall:
            # Nothing is due, so nothing is under way.
            self._behind.clear()

    def next_due(self) -> Instant:
        timers = self._coordinator.state.schedule_timers
        if not timers or self._coordinator.state.suspended:
            return NEVER
        ahead = timers[0][0] - self._coordinator.clock.wall()
        # The wall clock may be set at any time, so it is looked at again and again.
        return Instant(self._coordinator.now() + max(0, min(ahead, CALENDAR_MS)))

    def _catch_up(self, schedule: Schedule, wall: Instant, most: int) -> int:
        """Take some steps for a schedule that is due; how many fires that was worth."""
        behind = self._behind.get(schedule.name)
        if behind is None or not behind.is_about(schedule):
            behind = self._behind[schedule.name] = Behind(schedule, wall)
        spent = 1
        if not behind.is_whole:
            before = behind.passed
            is_whole = behind.look()
            spent += (behind.passed - before) // LOOKS_A_FIRE
            if not is_whole:
                return spent
            self._pass_over(schedule, behind)
        for _ in range(min(most, len(behind.kept))):
            self._fire(schedule, behind)
            spent += 1
        if not behind.kept:
            del self._behind[schedule.name]
        return spent

    def _pass_over(self, schedule: Schedule, behind: Behind) -> None:
        """Record what is not made up for: all but the latest, and that too where it is late and
        nothing shall be made up."""
        is_late = behind.wall - behind.kept[-1] >= LATE_MS
        if schedule.definition.missed == SKIP and is_late:
            behind.last_dropped = behind.kept[-1]
            behind.kept.clear()
        count = behind.passed - len(behind.kept)
        if count:
            following = behind.kept[0] if behind.kept else behind.upcoming
            self._skip(schedule, behind, count, behind.last_dropped, following, "missed")

    def _fire(self, schedule: Schedule, behind: Behind) -> None:
        at_wall = behind.kept.popleft()
        following = behind.kept[0] if behind.kept else behind.upcoming
        was_missed = behind.passed > 1 or behind.wall - at_wall >= LATE_MS
        decision = self._coordinator.execute(
            s.FireSchedule(
                name=schedule.name,
                at_wall=at_wall,
                next_wall=following,
                cause=MADE_UP if was_missed else DUE,
                stamp=rfc3339(at_wall).encode(),
            ),
            actor=ACTOR,
        )
        if isinstance(decision, Refused):
            # A run that cannot be submitted must not be tried for ever.
            self._skip(schedule, behind, 1, at_wall, following, f"refused: {decision.message}")
        behind.first = following

    def _skip(
        self,
        schedule: Schedule,
        behind: Behind,
        count: int,
        until: Instant,
        following: Instant,
        why: str,
    ) -> None:
        self._coordinator.execute(
            s.SkipInstants(
                name=schedule.name,
                from_wall=behind.first,
                until_wall=until,
                count=count,
                next_wall=following,
                why=why,
            ),
            actor=ACTOR,
        )
        behind.first = following
