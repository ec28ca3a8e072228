"""Where a job's tasks may run, beside which, and after what: the user's wishes as values."""

from typing import Final

from msgspec import Struct

from holdfast.core.ids import JobId

REQUIRED: Final = 0
"""The weight of a constraint that must hold; any other weight is a preference."""

PACK: Final = "pack"
SPREAD: Final = "spread"

OPERATORS: Final = ("eq", "ne", "in", "exists", "gt", "ge", "lt", "le")

SIGNS: Final = {
    "==": "eq", "=": "eq", "!=": "ne", ">=": "ge", "<=": "le", ">": "gt", "<": "lt",
}  # fmt: skip
WRITTEN: Final = {operator: sign for sign, operator in SIGNS.items() if sign != "="}
"""Operators as people write them, and back."""

SUCCESS: Final = "success"
FINISH: Final = "finish"
FAILURE: Final = "failure"
CONDITIONS: Final = (SUCCESS, FINISH, FAILURE)

FAIL: Final = "fail"
WAIT: Final = "wait"
FATES: Final = (FAIL, WAIT)
"""What becomes of a job whose dependency can no longer come true: it fails with it, or it waits,
since a retry of the parent may still make it true."""

ALL_TASKS: Final = -1


class Constraint(
    Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True
):
    """What an attribute of a worker should be. `values` has one value, many for `in`, none for
    `exists`; `gt` and its like compare numbers. A worker without the attribute meets only `ne`.
    A preference adds its weight (1 to 100) to every worker that meets it."""

    attribute: str
    operator: str
    values: tuple[str, ...] = ()
    weight: int = REQUIRED


def constraint_text(constraint: Constraint) -> str:
    """A constraint as people write it: `zone == eu`, a preference with its weight in front."""
    told = [constraint.attribute, WRITTEN.get(constraint.operator, constraint.operator)]
    told += [", ".join(constraint.values)] if constraint.values else []
    return " ".join([*([str(constraint.weight)] if constraint.weight else []), *told])


class Placing(
    Struct, frozen=True, array_like=True, gc=False, cache_hash=True, forbid_unknown_fields=True
):
    """`resources` are named amounts in thousandths, as a worker offers them. `keys` are names that
    at most so many tasks hold at once, whatever their job; zero leaves the bound to a limit that
    an operator set. A gang is a job whose tasks start all together or not at all; with `gang_by`
    all of them on workers that agree in that attribute. `preempts`: room may be made by ending
    attempts of lower priority. `spread`: `PACK`, `SPREAD`, or empty for whoever has most room."""

    resources: tuple[tuple[str, int], ...] = ()
    constraints: tuple[Constraint, ...] = ()
    keys: tuple[tuple[str, int], ...] = ()
    spread: str = ""
    gang: bool = False
    gang_by: str = ""
    preempts: bool = False


ANYWHERE: Final = Placing()


class After(
    Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True
):
    """A job waits until another job, or one task of it, came to an end of this kind."""

    job_id: JobId
    index: int = ALL_TASKS
    condition: str = SUCCESS
