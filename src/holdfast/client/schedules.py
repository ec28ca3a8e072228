"""Work that comes again, as a program asks for it."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from holdfast.client.backend import Schedules, View
from holdfast.client.handles import Job
from holdfast.core.schedule import MISSED, OVERLAPS, SHORTEST_MS, Timing
from holdfast.wire.amounts import Duration, duration_ms, text, wall_ms, whole


class Schedule:
    """A schedule by its name. It lives where the coordinator does, with or without this handle."""

    def __init__(self, schedules: Schedules, name: str, find: Callable[[str], Job[Any]]) -> None:
        self.name = name
        self._schedules = schedules
        self._find = find

    def show(self) -> View:
        """What it is, how far it has come and what it runs."""
        return self._schedules.show(self.name)

    def next(self, count: int = 5) -> list[datetime]:
        """The next instants, whether or not it is paused."""
        told = self._schedules.coming(self.name, whole(count, "count"))
        return [datetime.fromisoformat(each).astimezone(UTC) for each in told]

    def pause(self, reason: str = "") -> None:
        """Begin nothing more by the clock; what runs goes on."""
        self._schedules.pause(self.name, text(reason, "reason"))

    def resume(self) -> None:
        """Go on with the next instant from now; what came meanwhile is not made up for."""
        self._schedules.resume(self.name)

    def run(self) -> Job[Any]:
        """Run it now, whatever its clock says."""
        return self._find(self._schedules.run(self.name))

    def backfill(self, first: datetime, last: datetime | None = None) -> list[Job[Any]]:
        """Run the instants of a stretch of the past, both ends included, by default until now. An
        instant whose run is known has none again."""
        ids = self._schedules.backfill(
            self.name, wall_ms(first, "first"), wall_ms(last, "last")
        )
        return [self._find(job_id) for job_id in ids]

    def delete(self) -> None:
        """Remove it; the runs it began go on."""
        self._schedules.delete(self.name)

    def __repr__(self) -> str:
        return f"<schedule {self.name}>"


def timing_of(cron: str | None, every: Duration | None, zone: str) -> Timing:
    """When, as it was written in a call; a mistake shows where it was made."""
    if (cron is None) == (every is None):
        raise ValueError("a schedule has either cron=… or every=…")
    every_ms = duration_ms(every, "every")
    if every is not None and every_ms < SHORTEST_MS:
        raise ValueError(f"every={every!r} is too short; the shortest is {SHORTEST_MS // 1_000}s")
    return Timing(cron=text(cron, "cron").strip(), every_ms=every_ms, zone=text(zone, "zone"))


def check_policies(missed: str, overlap: str) -> None:
    for name, value, known in (("missed", missed, MISSED), ("overlap", overlap, OVERLAPS)):
        if value not in known:
            raise ValueError(f"{name}={value!r} must be one of {', '.join(known)}")
