"""What a job comes after, as reasons why its tasks wait."""

from collections.abc import Iterator

from msgspec import Struct

from holdfast.core.placing import WAIT
from holdfast.scheduler.reasons import Reason, listed


class Tie(Struct, frozen=True):
    """Something a job comes after that has not come true. `is_dead`: it cannot any more; but for a
    retry of the job `cure`, where that would send it back."""

    name: str
    condition: str
    is_dead: bool = False
    cure: str = ""


def tie_reasons(job_id: str, ties: tuple[Tie, ...], fate: str) -> Iterator[Reason]:
    """Those of a job with these ties, which waits or ends where one of them is dead."""
    dead = [tie for tie in ties if tie.is_dead]
    open_ties = [tie for tie in ties if not tie.is_dead]
    if open_ties:
        told = listed([f"the {tie.condition} of {tie.name}" for tie in open_ties])
        yield Reason(
            code="dependency",
            sentence=f"It comes after {told}.",
            command=f"holdfast job explain {open_ties[0].name.partition('/')[0]}",
            jobs=tuple(tie.name for tie in open_ties),
        )
    if dead:
        told = listed([f"the {tie.condition} of {tie.name}" for tie in dead])
        stays = ", and it waits all the same" if fate == WAIT else ""
        # A retry of one helps only where none is left that cannot be sent back.
        is_curable = all(tie.cure for tie in dead)
        yield Reason(
            code="dependency_failed",
            sentence=f"What it comes after did not come true: {told}{stays}.",
            command=f"holdfast job {f'retry {dead[0].cure}' if is_curable else f'cancel {job_id}'}",
            jobs=tuple(tie.name for tie in dead),
        )
