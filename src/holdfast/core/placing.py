"""Where a job's tasks may run, beside which, and after what: the user's wishes as values."""

import re
from typing import Final

from msgspec import Struct

from holdfast.core.ids import JobId, task_name

REQUIRED: Final = 0
"""The weight of a constraint that must hold; any other weight is a preference."""

PACK: Final = "pack"
SPREAD: Final = "spread"

WORKER: Final = "holdfast.worker"
"""The attribute that every worker has without saying so: its name."""

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

_WEIGHT: Final = re.compile(r"(\d{1,9})\s+(?=\S+\s*\S)(.*)", re.DOTALL)
_BY_SIGN: Final = re.compile(r"([^\s=!<>]+)\s*([=!<>~]+)\s*(.*)", re.DOTALL)
_BY_WORD: Final = re.compile(r"(\S+)\s+(\S+)(?:\s+(.*))?", re.DOTALL)


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


def constraint_of(text: str, *, otherwise: int = REQUIRED) -> Constraint:
    """The constraint that a text writes; `otherwise` is its weight where it names none."""
    weight, rest = otherwise, text.strip()
    weighed = _WEIGHT.fullmatch(rest)
    if weighed is not None and not _is_operator(weighed[2]):
        weight, rest = int(weighed[1]), weighed[2]
    found = _BY_SIGN.fullmatch(rest) or _BY_WORD.fullmatch(rest)
    if found is None:
        raise ValueError(
            f"{text!r} is no constraint; write `zone == eu`, `cores >= 8`, `zone in eu,us` or "
            "`gpu exists`"
        )
    attribute, sign, value = found[1], found[2], (found[3] or "").strip()
    operator = SIGNS.get(sign, sign)
    if operator not in OPERATORS:
        raise ValueError(
            f"unknown operator {sign!r} in {text!r}; there are {', '.join(WRITTEN.values())}, "
            "in and exists"
        )
    values = tuple(part.strip() for part in value.split(",")) if operator == "in" else (value,)
    if operator == "exists":
        if value:
            raise ValueError(f"{text!r}: exists takes no value")
        values = ()
    elif not all(values):
        raise ValueError(f"{text!r} lacks a value after {sign}")
    return Constraint(attribute, operator, values, weight)


def _is_operator(text: str) -> bool:
    """Whether this begins with an operator: the number before it is then an attribute's name."""
    first = text.split(None, 1)[0]
    return first[0] in "=!<>" or first in OPERATORS


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

    @property
    def name(self) -> str:
        """That of the job, or of the task."""
        return self.job_id if self.index == ALL_TASKS else task_name(self.job_id, self.index)
