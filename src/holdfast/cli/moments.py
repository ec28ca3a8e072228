"""`--at`: a position, or a time as people write it."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from holdfast.coordinator.inspect import Moment
from holdfast.wire.amounts import duration_ms

FORMS: Final = "a position (412), a time (2026-03-01T12:00:00Z), 14:05 today, or 10m ago"

_CLOCK: Final = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,3}))?)?")
_AGO: Final = re.compile(r"-?((?:\d+(?:\.\d+)?\s*(?:ms|s|m|h|d))+)(?:\s+ago)?")


def parse_moment(text: str, now: datetime) -> Moment:
    """The moment meant by `text`; `now` is the local time, with its zone.

    ValueError with the forms there are where it is none of them, or lies ahead.
    """
    cleaned = text.strip()
    if cleaned.isascii() and cleaned.isdigit():
        return Moment(position=int(cleaned))
    try:
        when = _time(cleaned, now).astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{text!r} is before any calendar: write {FORMS}") from None
    if when > now:
        raise ValueError(f"{text!r} lies ahead: it is {now:%Y-%m-%dT%H:%M:%S%z} now")
    return Moment(wall=int(when.timestamp() * 1_000))


def _time(text: str, now: datetime) -> datetime:
    clock = _CLOCK.fullmatch(text)
    if clock is not None:
        hour, minute, second = int(clock[1]), int(clock[2]), int(clock[3] or 0)
        if hour > 23 or minute > 59 or second > 59:
            raise ValueError(f"{text!r} is no time of day")
        micros = int((clock[4] or "0").ljust(3, "0")) * 1_000
        return now.replace(hour=hour, minute=minute, second=second, microsecond=micros)
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return now - timedelta(milliseconds=duration_ms(ago[1], "at"))
    try:
        when = datetime.fromisoformat(text)
        # A date or a time without a zone is meant as the clock on the wall shows it here.
        return when if when.tzinfo is not None else when.astimezone()
    except ValueError:
        raise ValueError(f"{text!r} is not a moment: write {FORMS}") from None
