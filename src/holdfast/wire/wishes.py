"""Where a job may run, beside which and after what: as people write it, and as it is recorded.

A constraint is written `zone == eu`, `cores >= 8`, `zone in eu, us` or `gpu exists`; a preference
may have its weight before it, `50 zone == eu`. What a job comes after is written `12`, `12/3` or
`12/3:failure`. A `ValueError` says what is wrong with a text.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from holdfast.core.ids import JobId, parse_task_name
from holdfast.core.placing import (
    ALL_TASKS,
    CONDITIONS,
    FATES,
    SUCCESS,
    After,
    Constraint,
    Placing,
    constraint_of,
)
from holdfast.wire import bodies
from holdfast.wire.amounts import duration_ms

LIKED: Final = 1
"""What a preference weighs of which nothing else is said."""

MILLI: Final = 1_000
MOST_AMOUNT: Final = 10**9


def milli(amount: float, name: str) -> int:
    """An amount of a named resource in thousandths: nothing finer can be counted."""
    if isinstance(amount, bool) or not isinstance(amount, int | float):
        raise ValueError(f"{name}={amount!r} is not a number")
    # Written so that "not a number" is refused too.
    if not 0 <= amount <= MOST_AMOUNT:
        raise ValueError(f"{name}={amount!r} must lie between 0 and {MOST_AMOUNT}")
    told = round(amount * MILLI)
    if abs(told - amount * MILLI) > 1e-6:
        raise ValueError(f"{name}={amount!r} is finer than a thousandth")
    return told


def amounts_of(amounts: Mapping[str, float]) -> tuple[tuple[str, int], ...]:
    """Named resources in thousandths, by name, so that the same ones are one value."""
    return tuple(sorted((name, milli(amount, name)) for name, amount in amounts.items()))


def amounts_told(amounts: Iterable[tuple[str, int]]) -> dict[str, float]:
    return {name: amount / MILLI for name, amount in amounts}


def placing_of(body: bodies.Submit) -> Placing:
    """What a body asks for. Keys are sorted, so that the same wishes are one value."""
    return Placing(
        resources=amounts_of(body.resources),
        constraints=tuple(map(_constraint, body.constraints)),
        keys=tuple(sorted(body.keys.items())),
        spread=body.spread,
        gang=body.gang,
        gang_by=body.gang_by,
        preempts=body.preempt,
    )


def _constraint(told: bodies.Constraint | str) -> Constraint:
    if isinstance(told, str):
        return constraint_of(told)
    return Constraint(told.attribute, told.operator, tuple(told.values), told.weight)


def placing_told(placing: Placing) -> dict[str, Any]:
    """The fields of a body that ask for this."""
    return {
        "resources": amounts_told(placing.resources),
        "constraints": [
            bodies.Constraint(
                attribute=wish.attribute,
                operator=wish.operator,
                values=list(wish.values),
                weight=wish.weight,
            )
            for wish in placing.constraints
        ],
        "keys": dict(placing.keys),
        "spread": placing.spread,
        "gang": placing.gang,
        "gang_by": placing.gang_by,
        "preempt": placing.preempts,
    }


def after_of(text: str) -> After:
    """`JOB`, `JOB/TASK`, either with `:success`, `:finish` or `:failure` behind it."""
    name, colon, condition = text.strip().rpartition(":")
    if not colon:
        name, condition = condition, SUCCESS
    if condition not in CONDITIONS:
        told = f"unknown condition {condition!r} in {text!r}; there are {', '.join(CONDITIONS)}"
        raise ValueError(told)
    if "/" in name:
        parsed = parse_task_name(name)
        if parsed is None:
            raise ValueError(f"{text!r} names no task; write JOB/INDEX, such as 12/0")
        return After(parsed[0], int(parsed[1]), condition)
    if not name:
        raise ValueError(f"{text!r} names no job; write JOB, JOB/INDEX or JOB:failure")
    return After(JobId(name), ALL_TASKS, condition)


def after_text(after: After) -> str:
    """The same, as people write it."""
    return after.name if after.condition == SUCCESS else f"{after.name}:{after.condition}"


def ties_of(body: bodies.Submit) -> dict[str, Any]:
    """What a body ties its job to, as fields of the command."""
    after = []
    for told in body.after:
        if not told.job:
            raise ValueError("after: it names no job")
        if told.task is not None and told.task < 0:
            raise ValueError(f"after: task {told.task} of job {told.job}")
        index = ALL_TASKS if told.task is None else told.task
        after.append(After(JobId(told.job), index, told.condition))
    if body.on_failed_parent not in FATES:
        raise ValueError(
            f"on_failed_parent={body.on_failed_parent!r} must be one of {', '.join(FATES)}"
        )
    return {
        "after": tuple(after),
        "fate": body.on_failed_parent,
        "parent": JobId(body.parent),
        "detached": body.detached,
        "unique_for_ms": duration_ms(body.unique_for or None, "unique_for"),
        "existing": body.existing,
    }


def afters_told(afters: Iterable[After]) -> list[bodies.After]:
    return [
        bodies.After(
            job=after.job_id,
            task=None if after.index == ALL_TASKS else after.index,
            condition=after.condition,
        )
        for after in afters
    ]
