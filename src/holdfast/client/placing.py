"""The words of a program about where its tasks may run, and beside which."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from holdfast.core.decide.wishes import placing_problem
from holdfast.core.placing import REQUIRED, Constraint, Placing
from holdfast.wire.amounts import text, whole
from holdfast.wire.wishes import LIKED, amounts_of, constraint_of

PLACING_WORDS: Final = (
    "resources", "require", "prefer", "spread", "gang", "gang_by", "preempt", "concurrency",
)  # fmt: skip

Texts = str | Iterable[str]


def constraints_from(require: Texts, prefer: Texts) -> tuple[Constraint, ...]:
    """What must hold, then what is liked; each is written as `zone == eu`."""
    required = [constraint_of(each) for each in _texts(require, "require")]
    weighed = [wish.attribute for wish in required if wish.weight != REQUIRED]
    if weighed:
        raise ValueError(f"what is required has no weight; {weighed[0]!r} has one")
    preferred = [constraint_of(each, otherwise=LIKED) for each in _texts(prefer, "prefer")]
    idle = [wish.attribute for wish in preferred if wish.weight == REQUIRED]
    if idle:
        raise ValueError(f"a preference of weight 0 prefers nothing: {idle[0]!r}")
    return (*required, *preferred)


def _texts(told: Texts, name: str) -> list[str]:
    found = [told] if isinstance(told, str) else list(told)
    for each in found:
        if not isinstance(each, str):
            raise TypeError(f"{name}={each!r} must be text such as 'zone == eu'")
    return found


def placing_from(words: Mapping[str, Any]) -> Placing:
    """The wishes that these words make; a mistake is a `ValueError` where it was made."""
    told = words["concurrency"].items()
    keys = {name: whole(most, f"concurrency of {name}") for name, most in told}
    placing = Placing(
        resources=amounts_of(words["resources"]),
        constraints=constraints_from(words["require"], words["prefer"]),
        keys=tuple(sorted(keys.items())),
        spread=text(words["spread"], "spread"),
        gang=bool(words["gang"]),
        gang_by=text(words["gang_by"], "gang_by"),
        preempts=bool(words["preempt"]),
    )
    problem = placing_problem(placing)
    if problem:
        raise ValueError(problem)
    return placing
