"""Keeping room for a row that cannot be placed yet, on the workers where it will fit soonest."""

from collections.abc import Iterable, Sequence
from heapq import nsmallest

from holdfast.core.shape import Shape
from holdfast.scheduler.fit import suits
from holdfast.scheduler.gangs import groups
from holdfast.scheduler.line import Line
from holdfast.scheduler.seats import Claim, Seat
from holdfast.scheduler.shares import Shares


def claim_one(line: Line, seats: Iterable[Seat], shares: Shares) -> None:
    """Among equals: room for one task, from namespaces that hold more."""
    shape = line.shape
    near = min(
        (seat for seat in seats if suits(seat, shape)),
        key=lambda seat: distance(seat, shape),
        default=None,
    )
    if near is not None:
        share = shares.of(shape.namespace) + shares.of_one(shape)
        near.claims.append(Claim(line.asker.rank, shape, 1, share))


def claim_all(line: Line, seats: Sequence[Seat]) -> None:
    """Against everything less urgent: room for all that waits, taken out of the seats for good,
    and no slot there is given more of what is less urgent."""
    shape, wanted = line.shape, line.waiting
    # Where all is kept already, for something more urgent still, there is nothing to claim.
    able = [seat for seat in seats if seat.open_slots or not seat.is_barred]
    suited = _where(line, [seat for seat in able if suits(seat, shape)])
    if wanted < len(suited):
        suited = nsmallest(wanted, suited, key=lambda seat: distance(seat, shape))
    for seat in suited:
        count = min(wanted, seat.total.room(shape, len(seat.slots)))
        seat.free.take(shape, count)
        del seat.open_slots[: min(count, len(seat.open_slots))]
        seat.is_barred = True
        wanted -= count
        if wanted <= 0:
            return


def _where(line: Line, suited: list[Seat]) -> list[Seat]:
    """All of them, or for a gang that must stay together the group with most room."""
    job = line.row.head
    if job is None or not job.spec.placing.gang_by:
        return suited
    return max(
        groups(suited, job.spec.placing.gang_by),
        key=lambda group: sum(seat.free.room(line.shape, len(seat.slots)) for seat in group),
        default=[],
    )


def distance(seat: Seat, shape: Shape) -> float:
    """How far a worker is from having room: the largest part of anything that is missing, and
    whether a slot is."""
    free, total = seat.free, seat.total
    missing = max(
        _part(shape.cpus_milli - free.cpus_milli, total.cpus_milli),
        _part(shape.memory_bytes - free.memory_bytes, total.memory_bytes),
        _part(shape.gpus - free.gpus, total.gpus),
    )
    for name, amount in shape.resources:
        have = free.named.get(name, 0)
        missing = max(missing, _part(amount - have, total.named.get(name, 0)))
    return missing + (0.0 if seat.open_slots else 1.0 / len(seat.slots))


def _part(missing: int, total: int) -> float:
    return missing / total if missing > 0 and total else 0.0
