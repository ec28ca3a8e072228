"""The words of a program about where its tasks may run, and beside which."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from holdfast.core.decide.wishes import placing_problem
from holdfast.core.placing import REQUIRED, Constraint, Placing, constraint_of
from holdfast.wire.amounts import text, whole
from holdfast.wire.wishes import LIKED, amounts_of

PLACING_WORDS: Final = (
    "resources", "require", "prefer", "spread", "gang", "gang_by", "preempt", "concurrency",
)  # fmt: skip

Texts = str | Iterable[str]

Keys = Texts | Mapping[str, int]
"""Keys that bound what runs at once: with the most of each, or named alone where a limit says."""


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


def _texts(told: Texts, name: str, example: str = "zone == eu") -> list[str]:
    if not isinstance(told, Iterable):
        raise TypeError(f"{name}={told!r} must be text such as {example!r}, or several")
    found = [told] if isinstance(told, str) else list(told)
    for each in found:
        if not isinstance(each, str):
            raise TypeError(f"{name}={each!r} must be text such as {example!r}")
    return found


def keys_from(told: Keys) -> dict[str, int]:
    """Each key with the most that may hold it; with none of its own (zero) where it is only
    named."""
    if isinstance(told, Mapping):
        return {name: whole(most, f"concurrency of {name}") for name, most in told.items()}
    return dict.fromkeys(_texts(told, "concurrency", "customer-42"), 0)


def placing_from(words: Mapping[str, Any]) -> Placing:
    """The wishes that these words make; a mistake is a `ValueError` where it was made."""
    keys, resources = keys_from(words["concurrency"]), words["resources"]
    if not isinstance(resources, Mapping):
        raise TypeError(f"resources={resources!r} must be a dict such as {{'licence': 1}}")
    placing = Placing(
        resources=amounts_of(resources),
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
