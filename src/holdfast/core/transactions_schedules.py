"""What schedules did, as actions of a transaction: (action, entity, details)."""

from collections.abc import Callable
from typing import Any, Final

from holdfast.core import events as e

Details = dict[str, str | int | bool | None]
Told = tuple[str, str, Details]


def _set(event: e.ScheduleSet) -> Told:
    timing = event.definition.timing
    when = f"{timing.cron} {timing.zone}" if timing.cron else f"every {timing.every_ms} ms"
    return "schedule_set", event.name, {"when": when, "next_wall": event.next_wall}


def _removed(event: e.ScheduleRemoved) -> Told:
    return "schedule_removed", event.name, {}


def _paused(event: e.SchedulePaused) -> Told:
    return "schedule_paused", event.name, {"reason": event.reason}


def _resumed(event: e.ScheduleResumed) -> Told:
    return "schedule_resumed", event.name, {"next_wall": event.next_wall}


def _fired(event: e.ScheduleFired) -> Told:
    details: Details = {"job_id": event.job_id, "at_wall": event.at_wall, "cause": event.cause}
    return "schedule_fired", event.name, details


def _skipped(event: e.ScheduleSkipped) -> Told:
    details: Details = {
        "from_wall": event.from_wall,
        "count": event.count,
        "why": event.why,
    }
    return "schedule_skipped", event.name, details


TELLERS: Final[dict[type[e.Event], Callable[[Any], Told]]] = {
    e.ScheduleSet: _set,
    e.ScheduleRemoved: _removed,
    e.SchedulePaused: _paused,
    e.ScheduleResumed: _resumed,
    e.ScheduleFired: _fired,
    e.ScheduleSkipped: _skipped,
}
