"""Facts about schedules. They carry the instant that comes next, so that replay asks no calendar.
"""

from holdfast.core.event import Event
from holdfast.core.ids import Instant, JobId
from holdfast.core.schedule import Definition


class ScheduleSet(Event, frozen=True, kw_only=True):
    """A schedule was made, or given another definition. Its next instant is `next_wall`."""

    name: str
    definition: Definition
    next_wall: Instant


class ScheduleRemoved(Event, frozen=True, kw_only=True):
    """Nothing more is begun under this name."""

    name: str


class SchedulePaused(Event, frozen=True, kw_only=True):
    """The clock begins nothing more of it."""

    name: str
    reason: str


class ScheduleResumed(Event, frozen=True, kw_only=True):
    """The clock goes on with `next_wall`; what came between is not made up for."""

    name: str
    next_wall: Instant


class ScheduleFired(Event, frozen=True, kw_only=True):
    """The run for an instant was submitted, in this same record. `next_wall` is what comes next
    now, the same as before where the clock was not the cause."""

    name: str
    at_wall: Instant
    next_wall: Instant
    job_id: JobId
    cause: str


class ScheduleSkipped(Event, frozen=True, kw_only=True):
    """So many instants, the first and the last named, had no run and will have none."""

    name: str
    from_wall: Instant
    until_wall: Instant
    count: int
    why: str
    next_wall: Instant
