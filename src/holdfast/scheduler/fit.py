"""Whether a worker is one that a task may run on at all, and what stands against it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from typing import Final

from holdfast.core.ids import WorkerId
from holdfast.core.placing import REQUIRED, Constraint
from holdfast.core.shape import Shape
from holdfast.scheduler.seats import Amounts, Seat

Compare = Callable[[str, tuple[str, ...]], bool]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _ordered(judge: Callable[[float, float], bool]) -> Compare:
    """Compares numbers; whatever is none meets no such wish."""

    def compare(have: str, wanted: tuple[str, ...]) -> bool:
        left, right = _number(have), _number(wanted[0])
        return left is not None and right is not None and judge(left, right)

    return compare


def _same(have: str, wanted: tuple[str, ...]) -> bool:
    """Equal as text, or as numbers: a worker's `8` is the `8.0` that was asked for."""
    if have in wanted:
        return True
    number = _number(have)
    return number is not None and any(_number(text) == number for text in wanted)


JUDGES: Final[Mapping[str, Compare]] = {
    "eq": _same,
    "in": _same,
    "ne": lambda have, wanted: not _same(have, wanted),
    "exists": lambda have, wanted: True,
    "gt": _ordered(lambda have, wanted: have > wanted),
    "ge": _ordered(lambda have, wanted: have >= wanted),
    "lt": _ordered(lambda have, wanted: have < wanted),
    "le": _ordered(lambda have, wanted: have <= wanted),
}


def meets(attributes: Mapping[str, str], wish: Constraint) -> bool:
    have = attributes.get(wish.attribute)
    if have is None:
        return wish.operator == "ne"
    return JUDGES[wish.operator](have, wish.values)


def unmet(attributes: Mapping[str, str], shape: Shape) -> list[Constraint]:
    """The wishes that must hold and do not hold here."""
    return [
        wish
        for wish in shape.constraints
        if wish.weight == REQUIRED and not meets(attributes, wish)
    ]


def liking(attributes: Mapping[str, str], shape: Shape) -> int:
    """How much of what is preferred a worker has."""
    return sum(wish.weight for wish in shape.constraints if meets(attributes, wish))


def suits(seat: Seat, shape: Shape) -> bool:
    """Whether the task could run here if nothing else did."""
    if not seat.slots or not seat.total.covers(shape):
        return False
    if not shape.constraints:
        return True
    # What somebody unknown is like is not known: that it lacks an attribute least of all.
    return seat.is_known and not unmet(seat.attributes, shape)


def suits_elsewhere(
    seats: Iterable[Seat], shape: Shape, shunned: frozenset[WorkerId]
) -> bool:
    """Whether the task could run on another worker than these."""
    return any(seat.worker not in shunned and suits(seat, shape) for seat in seats)


class Choice:
    """Many seats to choose from. Most workers of a cluster are like others: one of each kind is
    looked at for all that have as much of everything."""

    def __init__(self, seats: Sequence[Seat]) -> None:
        self._seats = [seat for seat in seats if seat.slots]
        kinds: dict[tuple[object, ...], int] = {}
        self._totals: list[Amounts] = []
        self._kind_of: list[int] = []
        for seat in self._seats:
            total = seat.total
            named = tuple(sorted(total.named.items())) if total.named else ()
            key = (total.cpus_milli, total.memory_bytes, total.gpus, named)
            kind = kinds.setdefault(key, len(kinds))
            if kind == len(self._totals):
                self._totals.append(total)
            self._kind_of.append(kind)

    def suited(self, shape: Shape) -> list[Seat]:
        """Those that suit the shape, in the order they were given in."""
        covers = [total.covers(shape) for total in self._totals]
        if all(covers):
            found = self._seats
        else:
            found = list(compress(self._seats, map(covers.__getitem__, self._kind_of)))
        if shape.constraints:
            return [seat for seat in found if seat.is_known and not unmet(seat.attributes, shape)]
        return found


def short_of(have: Amounts, shape: Shape) -> dict[str, tuple[int, int]]:
    """What there is not enough of for one task, by name: wanted and had."""
    pairs = {
        "cpus": (shape.cpus_milli, have.cpus_milli),
        "memory": (shape.memory_bytes, have.memory_bytes),
        "gpus": (shape.gpus, have.gpus),
        **{name: (amount, have.named.get(name, 0)) for name, amount in shape.resources},
    }
    return {name: (wanted, had) for name, (wanted, had) in pairs.items() if wanted > had}
