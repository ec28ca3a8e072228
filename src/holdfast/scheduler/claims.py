"""Keeping room for a row that cannot be placed yet, on the workers where it will fit soonest."""

from collections.abc import Sequence

from holdfast.core.shape import Shape
from holdfast.scheduler.gangs import groups
from holdfast.scheduler.line import COUNTED, Line
from holdfast.scheduler.seats import Claim, Seat
from holdfast.scheduler.shares import Shares


def claim_one(line: Line, seats: Sequence[Seat], shares: Shares) -> bool:
    """Among equals: room for one task on the nearest of these seats, from namespaces that hold
    more; whether there is one."""
    shape = line.shape
    if not seats:
        return False
    away = distances(seats, shape)
    near = seats[away.index(min(away))]
    share = shares.of(shape.namespace) + shares.of_one(shape)
    near.claims.append(Claim(line.asker.rank, shape, 1, share))
    return True


def claim_all(shape: Shape, wanted: int, seats: Sequence[Seat]) -> int:
    """Against everything less urgent: room for so many tasks on the nearest of these seats, which
    suit the shape. For how many there will be some."""
    # Where all is kept already, for something more urgent still, there is nothing to claim.
    able = [seat for seat in seats if seat.open_slots or not seat.is_barred]
    if wanted < max(len(able), COUNTED):
        away = distances(able, shape)
        order = sorted(range(len(able)), key=away.__getitem__)
        able = [able[place] for place in order[:wanted]]
    claimed = 0
    for seat in able:
        most = min(wanted - claimed, seat.total.room(shape, len(seat.slots)))
        claimed += claim(seat, shape, most)
        if claimed >= wanted:
            break
    return claimed


def claim(seat: Seat, shape: Shape, count: int) -> int:
    """Keep room for so many tasks, taken out of the seat for good; no slot of it is given more of
    what is less urgent."""
    if count > 0:
        seat.free.take(shape, count)
        del seat.open_slots[: min(count, len(seat.open_slots))]
        seat.is_barred = True
    return count


def gang_group(line: Line, count: int, suited: list[Seat]) -> list[Seat]:
    """The workers that a gang waits for: of the groups where all of it could ever be at once, the
    one with most room now. One that could be nowhere waits for nobody, or it would wait, and keep
    everybody else waiting, for ever."""
    job = line.job
    shape = line.shape
    found = groups(suited, job.spec.placing.gang_by if job is not None else "")
    return max(
        (
            group
            for group in found
            if sum(seat.total.room(shape, len(seat.slots)) for seat in group) >= count
        ),
        key=lambda group: sum(seat.free.room(shape, len(seat.open_slots)) for seat in group),
        default=[],
    )


def distance(seat: Seat, shape: Shape) -> float:
    return distances((seat,), shape)[0]


def distances(seats: Sequence[Seat], shape: Shape) -> list[float]:
    """How far each worker is from having room: the largest part of anything that is missing, and
    whether a slot is. Every row that waits looks at every worker: one loop, and no calls in it."""
    cpus, memory, gpus = shape.cpus_milli, shape.memory_bytes, shape.gpus
    resources = shape.resources
    found: list[float] = []
    for seat in seats:
        free, total = seat.free, seat.total
        away = 0.0
        if cpus > free.cpus_milli and total.cpus_milli:
            away = (cpus - free.cpus_milli) / total.cpus_milli
        if memory > free.memory_bytes and total.memory_bytes:
            part = (memory - free.memory_bytes) / total.memory_bytes
            away = part if part > away else away
        if gpus > free.gpus and total.gpus:
            part = (gpus - free.gpus) / total.gpus
            away = part if part > away else away
        for name, amount in resources:
            missing, all_of_it = amount - free.named.get(name, 0), total.named.get(name, 0)
            if missing > 0 and all_of_it:
                away = max(away, missing / all_of_it)
        found.append(away if seat.open_slots else away + 1.0 / len(seat.slots))
    return found
