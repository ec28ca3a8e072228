"""What would become of a call, told before it is submitted."""

from msgspec import Struct


class Why(Struct, frozen=True, kw_only=True):
    """One reason why tasks would not start, or `next`: see docs/reasons.md for the codes."""

    code: str
    sentence: str
    cure: str
    tasks: int
    command: str | None = None
    until: str | None = None


class Foreseen(Struct, frozen=True, kw_only=True):
    """How many of how many tasks would start now, and everything that stands in the way of the
    others. `existing` is the job that would be found instead of a new one; `workers` counts those
    that there are (`all`), that it fits on (`fitting`), and that have room for it (`free`)."""

    tasks: int
    starting: int
    reasons: tuple[Why, ...]
    workers: dict[str, int] | None = None
    existing: str | None = None
