"""From a timing and a moment to the instants that follow: cron expressions in time zones, and
intervals.

Pure: the same timing and moment give the same instants, as long as the rules of the zone stay the
same. An expression names times of day, or it is about the passing of time:

- Where minute and hour are both named (`30 2 * * *`), a time of day that a change of the clocks
  leaves out takes place right after the gap, and one that comes twice takes place the first time.
- Where minute or hour begins with a star (`*/20 * * * *`), it goes by what the clock on the wall
  shows, minute by minute: it neither stops nor doubles because the clocks were changed.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from holdfast.core.ids import Instant
from holdfast.core.schedule import CRON_CHARACTERS_MAX, SHORTEST_MS, Timing

NAMED: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
FIELDS: Final = "minute, hour, day of month, month, day of week"
FIELD_COUNT: Final = 5
LAST_MS: Final = 253_370_764_800_000
"""The year 9999: no calendar goes further."""


SECOND: Final = timedelta(seconds=1)
DAY: Final = timedelta(days=1)


class Mistimed(ValueError):
    """A timing that names no instant, and why."""


def check_timing(timing: Timing) -> None:
    """Raises `Mistimed` where the timing is not one that can be kept."""
    if bool(timing.cron) == bool(timing.every_ms):
        raise Mistimed("a schedule has either a cron expression or an interval")
    _zone(timing.zone)
    if timing.cron:
        _simulation(timing.cron, datetime(2000, 1, 1, tzinfo=UTC))
    elif timing.every_ms < SHORTEST_MS:
        raise Mistimed(too_short(timing.every_ms))


def too_short(every_ms: int) -> str:
    told = f"an interval of {every_ms / 1_000:g} s"
    return f"{told}; the shortest is {SHORTEST_MS / 1_000:g} s"


def first_instant(timing: Timing, after: Instant, base: Instant) -> Instant:
    """The first instant after a moment; `Mistimed` where there will be none."""
    check_timing(timing)
    for instant in instants(timing, after, base):
        return instant
    raise Mistimed(f"{timing.cron!r} never comes: there is no such day")


def instants(timing: Timing, after: Instant, base: Instant) -> Iterator[Instant]:
    """The instants after a moment, in their order, without end unless there are no more. Those of
    an interval lie whole intervals before or after `base`."""
    if timing.every_ms:
        every = timing.every_ms
        instant = base + ((after - base) // every + 1) * every
        while instant <= LAST_MS:
            yield Instant(instant)
            instant += every
        return
    last = after
    for found in _moments(timing, datetime.fromtimestamp(after // 1_000, UTC)):
        instant = round(found.timestamp()) * 1_000
        if instant > LAST_MS:
            return
        # Inside the hour that comes twice the first of the two may be told once more.
        if instant > last:
            last = Instant(instant)
            yield last


def _moments(timing: Timing, after: datetime) -> Iterator[datetime]:
    zone = _zone(timing.zone)
    minute, hour, *_ = _fields(timing.cron)
    if zone is UTC or not (minute.startswith("*") or hour.startswith("*")):
        return _simulation(timing.cron, after.astimezone(zone))
    return _by_the_wall(timing.cron, zone, after)


def _by_the_wall(cron: str, zone: tzinfo, after: datetime) -> Iterator[datetime]:
    """Whatever the clock on the wall shows is taken as often as it shows it: stretch by stretch,
    each of one offset, since a calendar that steps over a change of half an hour loses count."""
    while True:
        offset = _offset(zone, after + SECOND)
        looked, change = after + SECOND, None
        for local in _simulation(cron, (after + offset).replace(tzinfo=None)):
            found = (local - offset).replace(tzinfo=UTC)
            change = _first_change(zone, looked, found)
            if change is not None:
                break
            looked = found
            yield found
        if change is None:
            return
        after = change - SECOND


def _first_change(zone: tzinfo, start: datetime, end: datetime) -> datetime | None:
    """When the clocks are changed after `start` and not after `end`; nothing where they are not.
    No zone changes its clocks twice within a day."""
    offset = _offset(zone, start)
    while start < end:
        later = min(start + DAY, end)
        if _offset(zone, later) != offset:
            break
        start = later
    else:
        return None
    while later - start > SECOND:
        middle = start + (later - start) // 2
        middle = middle.replace(microsecond=0)
        if _offset(zone, middle) == offset:
            start = middle
        else:
            later = middle
    return later


def _offset(zone: tzinfo, moment: datetime) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta(0)


def _fields(cron: str) -> list[str]:
    fields = NAMED.get(cron.strip().lower(), cron).split()
    if len(fields) != FIELD_COUNT or len(cron) > CRON_CHARACTERS_MAX:
        known = ", ".join(NAMED)
        raise Mistimed(f"{cron[:80]!r} is no cron expression: write {FIELDS}, or one of {known}")
    return fields


def _simulation(cron: str, moment: datetime) -> CronSim:
    expression = " ".join(_fields(cron))
    try:
        return CronSim(expression, moment)
    except (CronSimError, ValueError, AssertionError) as error:
        told = str(error).lower() or "it makes no sense"
        raise Mistimed(f"{cron!r} never comes, or is no cron expression: {told}") from None


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError, TypeError):
        told = "write one such as Europe/Berlin, America/New_York or UTC"
        raise Mistimed(f"there is no time zone {name[:80]!r}: {told}") from None
