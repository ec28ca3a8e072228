"""How facts about schedules are told."""

from collections.abc import Iterator
from typing import Final

from holdfast.core import events as e
from holdfast.core.action import Action, Details, Renderer
from holdfast.core.record import Record


def _set(event: e.ScheduleSet, record: Record) -> Iterator[Action]:
    timing = event.definition.timing
    when = f"{timing.cron} {timing.zone}" if timing.cron else f"every {timing.every_ms} ms"
    yield Action("schedule_set", event.name, {"when": when, "next_wall": event.next_wall})


def _removed(event: e.ScheduleRemoved, record: Record) -> Iterator[Action]:
    yield Action("schedule_removed", event.name, {})


def _paused(event: e.SchedulePaused, record: Record) -> Iterator[Action]:
    yield Action("schedule_paused", event.name, {"reason": event.reason})


def _resumed(event: e.ScheduleResumed, record: Record) -> Iterator[Action]:
    yield Action("schedule_resumed", event.name, {"next_wall": event.next_wall})


def _fired(event: e.ScheduleFired, record: Record) -> Iterator[Action]:
    run: Details = {"job_id": event.job_id, "at_wall": event.at_wall, "cause": event.cause}
    yield Action("schedule_fired", event.name, run)


def _skipped(event: e.ScheduleSkipped, record: Record) -> Iterator[Action]:
    left: Details = {"from_wall": event.from_wall, "count": event.count, "why": event.why}
    yield Action("schedule_skipped", event.name, left)


SCHEDULES: Final[dict[type[e.Event], Renderer]] = {
    e.ScheduleSet: _set,
    e.ScheduleRemoved: _removed,
    e.SchedulePaused: _paused,
    e.ScheduleResumed: _resumed,
    e.ScheduleFired: _fired,
    e.ScheduleSkipped: _skipped,
}
