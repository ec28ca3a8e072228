"""Schedules as they are asked for over HTTP."""

from holdfast.wire.bodies import Body, Submit


class Timetable(Body):
    """A job that comes again: `cron`, five fields read in `zone`, or `every`, an interval.

    `missed` is `skip`, `one` or `all`; `overlap` is `allow`, `skip` or `replace`. No instant lies
    before `start`, and those of an interval count from there.
    """

    job: Submit
    cron: str = ""
    every: str = ""
    zone: str = "UTC"
    missed: str = "one"
    overlap: str = "skip"
    start: str = ""


class NewSchedule(Timetable, kw_only=True):
    """The same under a name that is not in use."""

    name: str


class Range(Body):
    """A stretch of the past, both ends included."""

    first: str
    last: str = ""
