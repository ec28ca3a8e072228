"""What would become of a call, told before it is submitted."""

from msgspec import Struct


class Why(Struct, frozen=True, kw_only=True):
    """One reason why tasks do not start, or would not: see docs/reasons.md for the codes. `tasks`
    is how many of a job it is about, and `example` one of them; `until` when it will be over, as
    far as anybody can say. `counts` tells of how many workers it is true in which respect."""

    code: str
    sentence: str
    cure: str
    tasks: int | None = None
    example: str | None = None
    command: str | None = None
    until: str | None = None
    counts: dict[str, int] = {}
    workers: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    resource: str | None = None


class Foreseen(Struct, frozen=True, kw_only=True):
    """How many of how many tasks would start now, and everything that stands in the way of the
    others. `existing` is the job that would be found instead of a new one; `workers` counts those
    that there are (`all`), that it fits on (`fitting`), and that have room for it (`free`)."""

    tasks: int
    starting: int
    reasons: tuple[Why, ...]
    workers: dict[str, int] | None = None
    existing: str | None = None
