"""What the workers have to do with a task that waits: for each of them everything that stands
against it, and for all of them together the reasons that follow."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from shlex import quote
from typing import Final

from msgspec import Struct

from holdfast.core.ids import NEVER, Instant
from holdfast.core.placing import REQUIRED, WORKER, Constraint, constraint_text
from holdfast.core.shape import Shape
from holdfast.scheduler.claims import distance
from holdfast.scheduler.fit import short_of, unmet
from holdfast.scheduler.reasons import Reason, listed, quantity, span
from holdfast.scheduler.seats import Seat

OPEN: Final = "open"
CORDONED: Final = "cordoned"
DRAINING: Final = "draining"
SILENT: Final = "silent"

AVOIDED: Final = "avoided"
NOBODY: Final[frozenset[str]] = frozenset()
SLOTS: Final = "slots"


class Desk(Struct, frozen=True):
    """A worker: whether it takes work, and its seat. `frees_ms` is about how long it takes until
    something there ends, as far as that can be guessed. `slots` is how many it has: more than its
    seat shows while nobody knows what is in them."""

    seat: Seat
    standing: str = OPEN
    frees_ms: int | None = None
    slots: int = 0

    @property
    def name(self) -> str:
        return self.seat.worker


class Obstacles(Struct, frozen=True):
    """Everything that stands against one task on one worker: constraints that do not hold, what it
    does not have at all, how it stands to work, and what is not free now."""

    desk: Desk
    constraints: tuple[Constraint, ...]
    lacking: Mapping[str, tuple[int, int]]
    standing: str
    busy: Mapping[str, tuple[int, int]]

    @property
    def is_suited(self) -> bool:
        return not self.constraints and not self.lacking

    @property
    def has_room(self) -> bool:
        return self.is_suited and self.standing == OPEN and not self.busy


def obstacles(desk: Desk, shape: Shape, avoid: frozenset[str] = NOBODY) -> Obstacles:
    seat = desk.seat
    lacking = short_of(seat.total, shape)
    if not seat.slots and not desk.slots:
        lacking[SLOTS] = (1, 0)
    busy = {name: pair for name, pair in short_of(seat.free, shape).items() if name not in lacking}
    if not seat.open_slots and SLOTS not in lacking:
        busy[SLOTS] = (1, 0)
    standing = desk.standing
    if standing == OPEN and desk.name in avoid:
        standing = AVOIDED
    return Obstacles(desk, tuple(unmet(seat.attributes, shape)), lacking, standing, busy)


def against(found: Obstacles) -> tuple[str, ...]:
    """Everything that stands against it here, in words; nothing where there is room."""
    told = [f"{constraint_text(wish)} does not hold" for wish in found.constraints]
    for name, (wanted, had) in found.lacking.items():
        has = "it has no slot" if name == SLOTS else f"it has {quantity(name, had)}"
        told.append(has if name == SLOTS else f"{has}, not {quantity(name, wanted)}")
    for name, (wanted, had) in found.busy.items():
        left = f"it needs {quantity(name, wanted)}, and {quantity(name, max(0, had))} is free"
        told.append("no slot is free" if name == SLOTS else left)
    if found.standing != OPEN:
        told.append(next(text for standing, _, text in STANDINGS if standing == found.standing))
    return tuple(told)


STANDINGS: Final = (
    (CORDONED, "workers_cordoned", "cordoned"),
    (DRAINING, "workers_draining", "draining"),
    (SILENT, "workers_silent", "silent"),
    (AVOIDED, "workers_avoided", "avoided, since it failed there"),
)


def reasons(
    desks: Sequence[Desk], shape: Shape, wall: Instant, avoid: frozenset[str] = NOBODY
) -> Iterator[Reason]:
    """Every reason that lies with the workers. None where one of them has room."""
    if not desks:
        yield Reason(
            code="no_worker",
            sentence="No worker is connected.",
            command="holdfast worker start",
        )
        return
    if not first_code(desks, shape, avoid):
        return
    found = [obstacles(desk, shape, avoid) for desk in desks]
    suited = [each for each in found if each.is_suited]
    if not suited:
        yield from _unsuited(found)
        return
    open_ones = [each for each in suited if each.standing == OPEN]
    if open_ones:
        yield _busy(open_ones, shape, wall)
    for standing, code, told in STANDINGS:
        those = [each for each in suited if each.standing == standing]
        if those:
            names = tuple(sorted(each.desk.name for each in those))
            yield Reason(
                code=code,
                sentence=f"{_those(names, 'that it fits on')} {told}.",
                command=_remedy(names, standing),
                counts=((standing, len(names)),),
                workers=names,
            )


def first_code(
    desks: Sequence[Desk], shape: Shape, avoid: frozenset[str] = NOBODY
) -> str:
    """The code that `reasons` begins with, empty where there is none: found without putting
    anything into words, since there may be very many workers."""
    if not desks:
        return "no_worker"
    standings: set[str] = set()
    is_unmet = False
    for desk in desks:
        seat = desk.seat
        if shape.constraints and unmet(seat.attributes, shape):
            is_unmet = True
        elif (seat.slots or desk.slots) and seat.total.covers(shape):
            standing = desk.standing
            if standing == OPEN and desk.name in avoid:
                standing = AVOIDED
            if standing == OPEN and seat.open_slots and seat.free.covers(shape):
                return ""
            standings.add(standing)
    if not standings:
        return "constraint_unmet" if is_unmet else "too_large"
    if OPEN in standings:
        return "workers_busy"
    return next(code for standing, code, _ in STANDINGS if standing in standings)


def _unsuited(found: Sequence[Obstacles]) -> Iterator[Reason]:
    """It fits nowhere, even if nothing else were there: what fails where, on its own and all of
    it together."""
    everyone = len(found)
    unmet_by: Counter[Constraint] = Counter(wish for each in found for wish in each.constraints)
    if unmet_by:
        wishes = [(constraint_text(wish), count) for wish, count in unmet_by.most_common()]
        told = "; ".join(f"{text} on {count} of {everyone}" for text, count in wishes)
        yield Reason(
            code="constraint_unmet",
            sentence=f"What it requires does not hold: {told}.",
            command="holdfast worker list -o wide",
            counts=tuple(wishes),
            workers=_names(each for each in found if each.constraints),
        )
    lacking: Counter[str] = Counter(name for each in found for name in each.lacking)
    if lacking:
        needs = [_need(name, found, count) for name, count in lacking.most_common()]
        yield Reason(
            code="too_large",
            sentence=f"It fits on no worker: {'; '.join(needs)}.",
            command="holdfast worker list",
            counts=tuple(lacking.most_common()),
            workers=_names(each for each in found if each.lacking),
        )


def _need(name: str, found: Sequence[Obstacles], count: int) -> str:
    wanted = next(each.lacking[name][0] for each in found if name in each.lacking)
    if name == SLOTS:
        return f"{count} of them have no slot"
    if count < len(found):
        return f"{count} of {len(found)} have less than {quantity(name, wanted)}"
    most = max(each.lacking[name][1] for each in found)
    return f"it needs {quantity(name, wanted)}, and the most is {quantity(name, most)}"


def _busy(found: Sequence[Obstacles], shape: Shape, wall: Instant) -> Reason:
    """Those that would take it have no room: of what, the nearest of them, and when it has."""
    counts: Counter[str] = Counter(name for each in found for name in each.busy)
    names = _names(found)
    nearest = min(found, key=lambda each: (distance(each.desk.seat, shape), each.desk.name))
    missing = [
        "a slot" if name == SLOTS else quantity(name, wanted - had)
        for name, (wanted, had) in nearest.busy.items()
    ]
    frees = nearest.desk.frees_ms
    when = "" if frees is None else f", where something ends in about {span(frees)}"
    told = f"{_those(names, 'that it fits on')} busy; the nearest is {nearest.desk.name}"
    if is_bound(shape):
        told = f"It may run on {nearest.desk.name} only, which is busy"
    return Reason(
        code="workers_busy",
        sentence=f"{told}, short of {' and '.join(missing)}{when}.",
        command=f"holdfast worker show {quote(nearest.desk.name)}",
        until=NEVER if frees is None else Instant(wall + frees),
        counts=tuple(counts.most_common()),
        workers=names,
    )


def is_bound(shape: Shape) -> bool:
    """Whether there is one worker, by its name, and no other that it may run on."""
    return any(
        wish.attribute == WORKER and wish.operator == "eq" and wish.weight == REQUIRED
        for wish in shape.constraints
    )


def _names(found: Iterable[Obstacles]) -> tuple[str, ...]:
    return tuple(sorted(each.desk.name for each in found))


def _remedy(names: Sequence[str], standing: str) -> str:
    if standing == CORDONED and len(names) == 1:
        return f"holdfast worker uncordon {quote(names[0])}"
    return "holdfast worker list"


def _those(names: Sequence[str], which: str) -> str:
    """`One worker that it fits on (w1) is`, `2 workers that it fits on (w1, w2) are`."""
    one = len(names) == 1
    many = "One worker" if one else f"{len(names)} workers"
    return f"{many} {which} ({listed(names)}) {'is' if one else 'are'}"
