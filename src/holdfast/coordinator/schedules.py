"""What people ask of schedules, with the calendar asked first: commands for the core, and views.

The instants of an interval count from the one that is recorded as next.
"""

from itertools import islice
from typing import Final

from holdfast.coordinator.views import View, Wall, rfc3339, spec_view
from holdfast.core import commands_schedules as s
from holdfast.core.ids import NEVER, NOWHERE, Instant, Position
from holdfast.core.job import job_state
from holdfast.core.schedule import BACKFILL_MAX, BY_HAND, Definition, Schedule
from holdfast.core.state import State
from holdfast.scheduler.calendar import Mistimed, first_instant, instants, too_short

SHOWN: Final = 5
NEXT_MOST: Final = 1_000

__all__ = ["Mistimed", "backfilling", "coming", "resuming", "running", "setting", "too_short"]


def setting(
    state: State,
    wall: Instant,
    name: str,
    definition: Definition,
    *,
    start: Instant = NEVER,
    replace: bool = False,
    revision: Position = NOWHERE,
) -> s.SetSchedule:
    """The command that makes or replaces a schedule. `start`: no instant lies before it; those of
    an interval count from there. `Mistimed` says why there is no instant."""
    after = max(_after(state, wall, name), Instant(start - 1))
    first = first_instant(definition.timing, after, start or after)
    return s.SetSchedule(
        name=name, definition=definition, next_wall=first, replace=replace, revision=revision
    )


def resuming(state: State, wall: Instant, name: str) -> s.ResumeSchedule:
    """The command that lets a schedule go on with the next instant from now."""
    known = state.schedules.get(name)
    coming = _coming(known, _after(state, wall, name), 1) if known is not None else []
    return s.ResumeSchedule(name=name, next_wall=coming[0] if coming else NEVER)


def running(wall: Instant, name: str) -> s.FireSchedule:
    """The command that runs a schedule's job now, whatever its clock says."""
    stamp = rfc3339(wall).encode()
    return s.FireSchedule(name=name, at_wall=wall, next_wall=NEVER, cause=BY_HAND, stamp=stamp)


def backfilling(
    state: State, wall: Instant, name: str, first: Instant, last: Instant
) -> s.BackfillSchedule:
    """The command that runs the instants from `first` to `last`, which lie in the past. One more
    than may be run at once is named where there are more, so that they are refused."""
    known = state.schedules.get(name)
    if known is None:
        return s.BackfillSchedule(name=name, moments=())
    if not 0 < first <= last:
        raise Mistimed("a backfill goes from a time to one that is not before it")
    if last > wall:
        raise Mistimed(f"a backfill is of the past, and {rfc3339(last)} lies ahead")
    found: list[Instant] = []
    for instant in instants(known.definition.timing, Instant(first - 1), known.next_wall):
        if instant > last or len(found) > BACKFILL_MAX:
            break
        found.append(instant)
    moments = tuple(s.Moment(instant, rfc3339(instant).encode()) for instant in found)
    return s.BackfillSchedule(name=name, moments=moments)


def coming(schedule: Schedule, wall: Instant, count: int) -> list[Instant]:
    """The next instants, whether or not it is paused."""
    if schedule.next_wall > wall and not schedule.paused:
        rest = _coming(schedule, schedule.next_wall, count - 1) if count > 1 else []
        return [schedule.next_wall, *rest][:count]
    return _coming(schedule, max(wall, schedule.last_wall), count)


def schedule_view(state: State, schedule: Schedule, wall: Wall, now: Instant) -> View:
    """A schedule at a glance."""
    timing = schedule.definition.timing
    last = state.jobs.get(schedule.last_job)
    return {
        "name": schedule.name,
        "state": "PAUSED" if schedule.paused else "ACTIVE",
        "reason": schedule.reason or None,
        "cron": timing.cron or None,
        "every_ms": timing.every_ms or None,
        "zone": timing.zone if timing.cron else None,
        "missed": schedule.definition.missed,
        "overlap": schedule.definition.overlap,
        "namespace": schedule.definition.spec.namespace,
        "next_at": _shown(NEVER if schedule.paused else schedule.next_wall),
        "last_at": _shown(schedule.last_wall),
        "last_job": schedule.last_job or None,
        "last_state": job_state(last).value if last is not None else None,
        "runs": schedule.runs,
        "skipped": schedule.skipped,
        "revision": int(schedule.revision),
        "created_at": rfc3339(wall(schedule.created_at)),
        "updated_at": rfc3339(wall(schedule.updated_at)),
    }


def schedule_detail(state: State, schedule: Schedule, wall: Wall, now: Instant) -> View:
    """The same, with what it runs and the instants that come."""
    definition = schedule.definition
    soon = [] if schedule.paused else coming(schedule, now, SHOWN)
    return {
        **schedule_view(state, schedule, wall, now),
        "coming": [rfc3339(instant) for instant in soon],
        "job": {
            "name": definition.spec.name,
            "tasks": len(definition.items) or definition.count,
            "spec": spec_view(definition.spec),
        },
    }


def _after(state: State, wall: Instant, name: str) -> Instant:
    """The moment after which the next instant lies: now, and after all that was taken."""
    known = state.schedules.get(name)
    return max(wall, known.last_wall) if known is not None else wall


def _coming(schedule: Schedule, after: Instant, count: int) -> list[Instant]:
    timing = schedule.definition.timing
    return list(islice(instants(timing, after, schedule.next_wall), count))


def _shown(wall: Instant) -> str | None:
    return None if wall == NEVER else rfc3339(wall)
