"""A reason, and the words that all reasons share."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from holdfast.core.errors import BrokenInvariant
from holdfast.core.ids import NEVER, Instant
from holdfast.scheduler.codes import CODES

SHOWN: Final = 3
MOST_AHEAD: Final = 10_000
"""So many that go before a task are counted, and whether there are more is not asked."""

_UNITS: Final = ((1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"))


class Reason(Struct, frozen=True, kw_only=True):
    """One thing that is so: a code that stays, a sentence for people, and a command where somebody
    can do something about it.

    `until`: when the wall clock will show that it is over, where that is known or can be guessed.
    `tasks` is how many of a job it is about, and `example` one of them. `counts` says of how many
    workers it is true in which respect, `workers` names them, `jobs` those that stand in the way.
    `resource` is what a bound counts, where that is not tasks.
    """

    code: str
    sentence: str
    command: str = ""
    until: Instant = NEVER
    tasks: int = 0
    example: str = ""
    counts: tuple[tuple[str, int], ...] = ()
    workers: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    resource: str = ""

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise BrokenInvariant(f"there is no reason {self.code}: add it to the table")

    @property
    def cure(self) -> str:
        """What would make it run."""
        return CODES[self.code].cure


def sentence(said: str) -> str:
    """What is quoted at its end may be a sentence already."""
    return f"{said[0].upper()}{said[1:].removesuffix('.')}."


def listed(names: Sequence[str]) -> str:
    """`a, b, c and 4 more`."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more}"


def amount(count: int) -> str:
    """`512Mi`, as it is written when a job is submitted."""
    for unit, name in _UNITS:
        if count >= unit:
            return f"{count / unit:.4g}{name}"
    return f"{count} bytes"


def quantity(name: str, count: int) -> str:
    """`2.5 cpus`, `1 cpu`, `4Gi of memory`, `3 licence`: so much of what is counted."""
    if name == "memory":
        return f"{amount(count)} of memory"
    told = f"{count if name == 'gpus' else count / 1_000:g}"
    is_one = told == "1" and name in ("cpus", "gpus")
    return f"{told} {name.removesuffix('s') if is_one else name}"


def span(ms: int) -> str:
    """`250ms`, `3.2s`, `2m 5s`, `3h 10m`, `2d 4h`: exact enough to decide whether to wait."""
    ms = max(0, ms)
    if ms < 1_000:
        return f"{ms}ms"
    seconds = ms // 1_000
    if seconds < 60:
        return f"{ms / 1_000:.1f}s"
    minutes, hours, days = seconds // 60, seconds // 3_600, seconds // 86_400
    if minutes < 60:
        return f"{minutes}m {seconds % 60}s"
    return f"{hours}h {minutes % 60}m" if hours < 24 else f"{days}d {hours % 24}h"
