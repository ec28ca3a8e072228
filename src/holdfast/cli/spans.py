"""Lengths of time and sizes, short enough for a table."""


def age(ms: int) -> str:
    """`850ms`, `12s`, `3m`, `5h`, `8d`: the coarsest unit that still says something."""
    if ms < 1_000:
        return f"{max(0, ms)}ms"
    for limit, unit in ((60, "s"), (60, "m"), (48, "h")):
        ms_in_unit = {"s": 1_000, "m": 60_000, "h": 3_600_000}[unit]
        if ms < limit * ms_in_unit:
            return f"{ms // ms_in_unit}{unit}"
    return f"{ms // 86_400_000}d"


def span(ms: int) -> str:
    """`250ms`, `1.5s`, `90s`, `1h30m`: exact enough to be read back as a setting."""
    if ms < 1_000:
        return f"{ms}ms"
    if ms < 120_000:
        return f"{ms / 1_000:g}s"
    minutes, rest = divmod(ms // 1_000, 60)
    hours, minutes = divmod(minutes, 60)
    parts = [(hours, "h"), (minutes, "m"), (rest, "s")]
    return "".join(f"{value}{unit}" for value, unit in parts if value)


def clock(time: str | None) -> str | None:
    """`11-15 10:57:15.565`: a time of RFC 3339 for a column where everybody knows the year."""
    return None if time is None else time[5:23].replace("T", " ")


def size(count: int) -> str:
    """`512 B`, `1.4 KiB`, `38.0 MiB`."""
    if count < 1_024:
        return f"{count} B"
    value = float(count)
    for unit in ("KiB", "MiB", "GiB"):
        value /= 1_024
        if value < 1_024:
            return f"{value:.1f} {unit}"
    return f"{value / 1_024:.1f} TiB"
