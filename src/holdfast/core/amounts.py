"""Durations and sizes as people write them, read without asking anybody: `1h30m`, `512Mi`."""

import re
from typing import Final

_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZES: Final = {
    "": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12,
    "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40,
}  # fmt: skip
_MOST: Final = 2.0**62
"""Beyond whatever anybody takes: a number with too many digits is too large, and no error."""
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?", re.IGNORECASE)


def parsed_ms(text: str) -> int | None:
    """Milliseconds of a written duration; None where the text is none."""
    plain = text.strip().lower()
    parts = _PART.findall(plain)
    if not parts or "".join(_PART.split(plain)[::3]).strip():
        return None
    return round(min(_MOST, sum(float(number) * _UNITS_MS[unit] for number, unit in parts)))


def parsed_bytes(text: str) -> int | None:
    """Bytes of a written size; None where the text is none."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        return None
    return int(min(_MOST, float(found[1]) * _SIZES[(found[2] or "").lower()]))


def spelled_ms(span_ms: int) -> str:
    """A duration in its largest unit that leaves nothing over: reading it gives it back."""
    for unit in ("d", "h", "m", "s"):
        if span_ms and span_ms % _UNITS_MS[unit] == 0:
            return f"{span_ms // _UNITS_MS[unit]}{unit}"
    return f"{span_ms}ms" if span_ms else "0s"


def spelled_bytes(size: int) -> str:
    """A size in its largest binary unit that leaves nothing over: reading it gives it back."""
    for unit in ("Ti", "Gi", "Mi", "Ki"):
        if size and size % _SIZES[unit.lower()] == 0:
            return f"{size // _SIZES[unit.lower()]}{unit}"
    return str(size)
