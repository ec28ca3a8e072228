"""The history of schedules, watched: instants are taken in their order, each once, and a fire has
its run in the same record."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec import Struct

from holdfast.core import events as e
from holdfast.core.ids import NEVER, Instant
from holdfast.core.violation import Finding


class SeenSchedule(Struct):
    """A schedule as its events tell it."""

    next_wall: Instant
    last_wall: Instant = NEVER
    paused: bool = False


def _set(watch: Any, event: e.ScheduleSet, at: Instant) -> Iterator[Finding]:
    seen = watch.schedules.setdefault(event.name, SeenSchedule(event.next_wall))
    yield from _expected(seen, event)


def _removed(watch: Any, event: e.ScheduleRemoved, at: Instant) -> Iterator[Finding]:
    del watch.schedules[event.name]
    yield from ()


def _paused(watch: Any, event: e.SchedulePaused, at: Instant) -> Iterator[Finding]:
    watch.schedules[event.name].paused = True
    yield from ()


def _resumed(watch: Any, event: e.ScheduleResumed, at: Instant) -> Iterator[Finding]:
    seen = watch.schedules[event.name]
    seen.paused = False
    yield from _expected(seen, event)


def _expected(seen: SeenSchedule, event: Any) -> Iterator[Finding]:
    """T2: what comes next lies after everything that came."""
    if NEVER < event.next_wall <= seen.last_wall:
        yield f"schedule {event.name}", f"T2 {event.next_wall} comes after {seen.last_wall}"
    seen.next_wall = event.next_wall


def _fired(watch: Any, event: e.ScheduleFired, at: Instant) -> Iterator[Finding]:
    """T3: the clock fires an instant once, in its turn. T4: the run is submitted with it."""
    seen = watch.schedules[event.name]
    if event.job_id not in watch.jobs:
        yield f"schedule {event.name}", f"T4 it fired and there is no job {event.job_id}"
    if event.cause in ("by_hand", "backfill"):
        if event.next_wall != seen.next_wall:
            yield f"schedule {event.name}", "T3 a run by hand moved the clock"
        return
    yield from _taken(seen, event, event.at_wall, event.at_wall)


def _skipped(watch: Any, event: e.ScheduleSkipped, at: Instant) -> Iterator[Finding]:
    yield from _taken(watch.schedules[event.name], event, event.from_wall, event.until_wall)


def _taken(seen: SeenSchedule, event: Any, first: Instant, last: Instant) -> Iterator[Finding]:
    if first != seen.next_wall or first <= seen.last_wall or last < first or seen.paused:
        yield f"schedule {event.name}", f"T3 {first} was taken and {seen.next_wall} was next"
    seen.last_wall = last
    yield from _expected(seen, event)


SCHEDULE_JUDGES: Final[dict[type[e.Event], Callable[[Any, Any, Instant], Iterator[Finding]]]] = {
    e.ScheduleSet: _set,
    e.ScheduleRemoved: _removed,
    e.SchedulePaused: _paused,
    e.ScheduleResumed: _resumed,
    e.ScheduleFired: _fired,
    e.ScheduleSkipped: _skipped,
}
