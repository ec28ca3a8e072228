"""What a plan is made from."""

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from holdfast.core.ids import Instant, WorkerId
from holdfast.core.job import Job
from holdfast.core.ready import Row
from holdfast.core.shape import Shape
from holdfast.core.spec import JobSpec
from holdfast.scheduler.ledger import UNBOUNDED, Ledger
from holdfast.scheduler.line import Line
from holdfast.scheduler.seats import Seat
from holdfast.scheduler.shares import Shares

Pace = Callable[[JobSpec], int]
"""How many tasks of this spec make a run."""


class Outlook(Struct):
    """All that a plan is made from. `seats` are the workers that may be given work; `rank_of`
    gives a row its priority and what waiting has added to it, `held` how many slots are held for a
    shape by anybody. `others` may be given work, too, and cannot be told so at this moment. After
    `most_picks` proposals, or a few more, the plan is cut. `shunned` tells of a job the workers
    that it goes to only if there is no other; None where there are no such."""

    rows: list[Row]
    seats: list[Seat]
    now: Instant
    pace: Pace
    ledger: Ledger
    shares: Callable[[], Shares]
    rank_of: Callable[[Row], int]
    held: Callable[[], Mapping[Shape, int]] = dict
    others: Callable[[], Iterable[Seat]] = tuple
    most_picks: int = UNBOUNDED
    shunned: Callable[[Job], frozenset[WorkerId]] | None = None


def allowed(look: Outlook, line: Line, job: Job) -> int:
    """How many tasks may start, as far as bounds are concerned."""
    most = job.spec.max_parallel
    own = UNBOUNDED
    if most:
        # What was ended and still runs somewhere counts, too.
        running = max(job.active, look.held().get(line.shape, 0))
        own = most - running - line.started
    if not look.ledger.is_bounded(line.shape):
        return own
    return min(own, look.ledger.room(line.shape))
