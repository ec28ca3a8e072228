"""How often something may start, as people write it: `10/1m` is ten in any minute."""

from holdfast.wire.amounts import duration_ms

_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000))


def rate_of(text: str) -> tuple[int, int]:
    """Starts, and the milliseconds they are counted in; empty is no bound. The span may be a unit
    alone: `10/m`."""
    if not text:
        return 0, 0
    starts, slash, span = text.strip().partition("/")
    if not slash or not (starts.isascii() and starts.isdigit() and len(starts) <= 15):
        raise ValueError(f"rate={text[:40]!r} is not of the form 10/1m: so many in a span")
    per_ms = duration_ms(span if span[:1].isdigit() else f"1{span}", "rate")
    if not int(starts) or not per_ms:
        raise ValueError(f"rate={text[:40]!r} would let nothing start; pause a queue instead")
    return int(starts), per_ms


def guard_of(text: str, name: str, example: str) -> tuple[int, int]:
    """A count and milliseconds, as guards are written: `100/1m` retries, `5/30s` of a circuit;
    empty is none."""
    try:
        return rate_of(text)
    except ValueError:
        told = f"{name}={text[:40]!r} is not of the form {example}: so many, and a span of time"
        raise ValueError(told) from None


def rate_text(starts: int, per_ms: int) -> str:
    """The same, as people write it."""
    for unit, size in _UNITS:
        if per_ms % size == 0:
            return f"{starts}/{per_ms // size}{unit}"
    return f"{starts}/{per_ms}ms"
