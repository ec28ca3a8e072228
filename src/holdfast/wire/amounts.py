"""Durations and sizes as people write them: `5m`, `90s`, `1.5`, `512Mi`."""

import math
from datetime import UTC, datetime, timedelta

from holdfast.core.amounts import parsed_bytes, parsed_ms

Duration = float | str | timedelta


def duration_ms(value: Duration | None, name: str) -> int:
    """Milliseconds of a duration: a number of seconds, `1h30m`, or a timedelta. None is 0."""
    if value is None:
        return 0
    if isinstance(value, timedelta):
        total = round(value.total_seconds() * 1_000)
    elif isinstance(value, str):
        parsed = parsed_ms(value)
        if parsed is None:
            raise ValueError(f"{name}={value!r} is not a duration; write 90s, 5m or 1h30m")
        total = parsed
    else:
        total = round(_finite(value, name) * 1_000)
    if total < 0:
        raise ValueError(f"{name}={value!r} cannot be negative")
    return total


def _finite(value: float, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name}={value!r} is not a duration; write 90s, 5m or a number of seconds")
    if not math.isfinite(value):
        raise ValueError(f"{name}={value!r} is not a duration; None stands for no limit")
    return value


def size_bytes(value: int | str | None, name: str) -> int:
    """Bytes of a size: a number, or `512Mi`, `4G`. None is 0."""
    if value is None:
        return 0
    if isinstance(value, int):
        total = value
    elif not isinstance(value, str):
        raise TypeError(f"{name}={value!r} is not a size; write 512Mi or a whole number of bytes")
    else:
        parsed = parsed_bytes(value)
        if parsed is None:
            raise ValueError(f"{name}={value!r} is not a size; write 512Mi or 4G")
        total = parsed
    if total < 0:
        raise ValueError(f"{name}={value!r} cannot be negative")
    return total


def wall_ms(value: datetime | None, name: str) -> int:
    """Milliseconds since 1970 of a calendar instant. One without a zone is refused, not guessed."""
    if value is None:
        return 0
    if not isinstance(value, datetime):
        raise TypeError(f"{name}={value!r} must be a datetime, such as datetime.now(UTC)")
    if value.tzinfo is None:
        raise ValueError(f"{name}={value!r} has no time zone; add one, such as datetime.UTC")
    return int(value.astimezone(UTC).timestamp() * 1_000)


def whole(value: int, name: str) -> int:
    """A whole number, or the mistake where it was made: what is recorded must be readable."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}={value!r} must be a whole number")
    return value


def number(value: float, name: str) -> float:
    """A number, or the mistake where it was made."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name}={value!r} must be a number")
    return value


def text(value: str | None, name: str) -> str:
    """Text, or nothing."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name}={value!r} must be text")
    return value or ""
