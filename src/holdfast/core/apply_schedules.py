"""Folds of the events about schedules."""

from typing import Any

from holdfast.core import events as e
from holdfast.core.errors import BrokenInvariant, ImpossibleEvent
from holdfast.core.ids import NEVER, Instant, Position
from holdfast.core.schedule import BACKFILL, BY_HAND, Schedule
from holdfast.core.state import State


def schedule_set(state: State, event: e.ScheduleSet, position: Position, at: Instant) -> None:
    known = state.schedules.get(event.name)
    if known is None:
        known = state.schedules[event.name] = Schedule(
            name=event.name, definition=event.definition, created_at=at, updated_at=at
        )
    elif event.next_wall != NEVER and event.next_wall <= known.last_wall:
        raise ImpossibleEvent(f"schedule {event.name}", f"past {known.last_wall}", event)
    known.definition = event.definition
    known.revision = position
    known.updated_at = at
    _expect(state, known, event.next_wall)


def schedule_removed(
    state: State, event: e.ScheduleRemoved, position: Position, at: Instant
) -> None:
    del state.schedules[_known(state, event).name]


def schedule_paused(state: State, event: e.SchedulePaused, position: Position, at: Instant) -> None:
    schedule = _known(state, event)
    schedule.paused, schedule.reason = True, event.reason
    schedule.updated_at = at


def schedule_resumed(
    state: State, event: e.ScheduleResumed, position: Position, at: Instant
) -> None:
    schedule = _known(state, event)
    if not schedule.paused or NEVER < event.next_wall <= schedule.last_wall:
        raise ImpossibleEvent(f"schedule {event.name}", f"past {schedule.last_wall}", event)
    schedule.paused, schedule.reason = False, ""
    schedule.updated_at = at
    _expect(state, schedule, event.next_wall)


def schedule_fired(state: State, event: e.ScheduleFired, position: Position, at: Instant) -> None:
    schedule = _known(state, event)
    if event.cause not in (BY_HAND, BACKFILL):
        _pass(state, schedule, event.at_wall, event.at_wall, event)
    schedule.runs += 1
    if event.cause != BACKFILL:
        schedule.last_job = event.job_id
    schedule.updated_at = at


def schedule_skipped(
    state: State, event: e.ScheduleSkipped, position: Position, at: Instant
) -> None:
    schedule = _known(state, event)
    if event.count < 1:
        raise ImpossibleEvent(f"schedule {event.name}", "skipping nothing", event)
    _pass(state, schedule, event.from_wall, event.until_wall, event)
    schedule.skipped += event.count
    schedule.updated_at = at


def _pass(
    state: State,
    schedule: Schedule,
    first: Instant,
    last: Instant,
    event: e.ScheduleFired | e.ScheduleSkipped,
) -> None:
    """The clock takes instants in their order, each once."""
    in_turn = first == schedule.next_wall != NEVER and first <= last
    if not in_turn or NEVER < event.next_wall <= last or schedule.paused:
        raise ImpossibleEvent(f"schedule {schedule.name}", f"next {schedule.next_wall}", event)
    schedule.last_wall = last
    _expect(state, schedule, event.next_wall)


def _expect(state: State, schedule: Schedule, next_wall: Instant) -> None:
    schedule.next_wall = next_wall
    state.set_schedule_timer(schedule)


def _known(state: State, event: Any) -> Schedule:
    schedule = state.schedules.get(event.name)
    if schedule is None:
        raise BrokenInvariant(f"an event names schedule {event.name!r}, which does not exist")
    return schedule
