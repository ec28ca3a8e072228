"""Values of a manifest as people write them: `180s`, `512Mi`, `25%`.

Each is a whole number inside and its own spelling outside, so that one set of types reads what a
person wrote, is computed with, and is written down again as a person would write it.
"""

import math
from typing import Any, Final

from holdfast.core.amounts import parsed_bytes, parsed_ms, spelled_bytes, spelled_ms

WHOLE: Final = 100
LONGEST_MS: Final = 10**12
LARGEST_BYTES: Final = 2**60
LARGEST_CPU: Final = 10**6
FAR: Final = 10**30


class Span(int):
    """A duration in milliseconds, written `180s` or `5m`; a plain number is seconds."""


class Size(int):
    """An amount of memory in bytes, written `512Mi`."""


class Cpu(int):
    """Thousandths of a processor, written `0.5`, `2` or `500m`."""


class Share(int):
    """A share of a whole in percent, written `25%`."""


class Portion(int):
    """So many, or a share of all: `2` or `25%`. A share is kept below zero."""


def _span(value: object) -> Span:
    parsed = None
    if isinstance(value, str):
        parsed = parsed_ms(value)
    elif (number := _number(value)) is not None:
        parsed = round(number * 1_000)
    if parsed is None:
        raise ValueError(f"{value!r} is not a duration; write 90s, 5m or 1h30m")
    if not 0 <= parsed <= LONGEST_MS:
        raise ValueError(f"{value!r} is {'below zero' if parsed < 0 else 'too long'}")
    return Span(parsed)


def _size(value: object) -> Size:
    parsed = None
    if isinstance(value, str):
        parsed = parsed_bytes(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        parsed = value
    if parsed is None:
        raise ValueError(f"{value!r} is not a size; write 512Mi or 4G")
    if not 0 <= parsed <= LARGEST_BYTES:
        raise ValueError(f"{value!r} is {'below zero' if parsed < 0 else 'too large'}")
    return Size(parsed)


def _cpu(value: object) -> Cpu:
    amount: object = value
    if isinstance(value, str):
        thousandths = value.removesuffix("m")
        try:
            amount = float(thousandths) / (1_000 if thousandths != value else 1)
        except ValueError:
            amount = None
    number = _number(amount)
    if number is None:
        raise ValueError(f"{value!r} is not a number of processors; write 0.5, 2 or 500m")
    milli = number * 1_000
    if not 0 <= milli <= LARGEST_CPU * 1_000:
        raise ValueError(f"{value!r} is {'below zero' if milli < 0 else 'too many'}")
    return Cpu(round(milli))


def _share(value: object) -> Share:
    percent = _percent(value)
    if percent is None:
        raise ValueError(f"{value!r} is not a share; write 25%")
    if not 0 <= percent <= WHOLE:
        raise ValueError(f"{value!r} must lie between 0% and 100%")
    return Share(percent)


def _portion(value: object) -> Portion:
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            raise ValueError(f"{value!r} is below zero")
        return Portion(value)
    if _percent(value) is None:
        raise ValueError(f"{value!r} is neither a number nor a share; write 1 or 25%")
    return Portion(-_share(value) - 1)


def portion_of(portion: Portion, total: int, *, upwards: bool) -> int:
    """How many of `total` a portion is. Extra replicas round upwards, missing ones down, so that
    a share never takes away more than was allowed and never allows nothing extra."""
    if portion >= 0:
        return int(portion)
    percent = -portion - 1
    return -(-total * percent // WHOLE) if upwards else total * percent // WHOLE


def _percent(value: object) -> int | None:
    if not isinstance(value, str) or not value.strip().endswith("%"):
        return None
    number = value.strip()[:-1].strip()
    return int(number) if number.isascii() and number.isdigit() else None


def _number(value: object) -> float | None:
    """A number, None for whatever is none. What is far too much stays so and can be counted."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return float(max(-FAR, min(FAR, value)))


_READ: Final = {Span: _span, Size: _size, Cpu: _cpu, Share: _share, Portion: _portion}


def read(kind: type, value: Any) -> Any:
    """A value of one of these kinds from what was written; a ValueError says what is wrong."""
    return _READ[kind](value)


def spell(value: Any) -> str | int:
    """The same as people write it; reading that gives the value back."""
    match value:
        case Span():
            return spelled_ms(int(value))
        case Size():
            return spelled_bytes(int(value))
        case Cpu():
            return f"{int(value)}m" if value % 1_000 else str(int(value) // 1_000)
        case Share():
            return f"{int(value)}%"
        case Portion():
            return int(value) if value >= 0 else f"{-value - 1}%"
        case _:
            raise NotImplementedError(f"{type(value).__name__} has no spelling")
