"""Whether anybody could run what is asked for, judged before it is recorded.

Only what a worker has counts, not what is free: who waits for room is told so by explain.
"""

from collections.abc import Iterable
from typing import Final

from holdfast.coordinator.seats import Worker, attributes_of
from holdfast.core.decision import Reason, Refused
from holdfast.core.placing import constraint_text
from holdfast.core.shape import Shape, spec_shape
from holdfast.core.spec import JobSpec
from holdfast.scheduler.fit import short_of, suits, unmet
from holdfast.scheduler.gangs import groups
from holdfast.scheduler.reasons import quantity
from holdfast.scheduler.seats import Amounts, Seat, Slot, seat_of

SHOWN: Final = 5


def blank_seat(worker: Worker) -> Seat:
    """A worker as if nothing ran there."""
    capacity = worker.capacity
    total = Amounts(
        capacity.cpus_milli, capacity.memory_bytes, capacity.gpus, dict(capacity.resources)
    )
    slots = [Slot(number, 0, None) for number in range(capacity.slots)]
    return seat_of(worker.worker, worker.incarnation, total, slots, attributes_of(worker))


def unknown_resource(spec: JobSpec, workers: Iterable[Worker]) -> Refused | None:
    """A resource that nobody offers is most likely misspelt. Where nobody is there, nobody can
    tell."""
    known = list(workers)
    offered = {name for worker in known for name, _ in worker.capacity.resources}
    strange = [name for name, _ in spec.placing.resources if name not in offered]
    if not known or not strange:
        return None
    told = f"they offer {', '.join(sorted(offered))}" if offered else "they offer none by name"
    return Refused(
        Reason.INVALID,
        f"no worker offers a resource {strange[0]!r}; {told}. A worker offers it when started with "
        f"`holdfast worker start --resource {strange[0]}=N`",
    )


def misfits(spec: JobSpec, count: int, seats: Iterable[Seat]) -> tuple[str, ...]:
    """Why none of these could run it, worker by worker; nothing where one could."""
    shape = spec_shape(spec)
    every = list(seats)
    able = [seat for seat in every if suits(seat, shape)]
    if not every:
        return ("no worker is there to take it",)
    if not able:
        told = [f"{seat.worker} {lacking(seat, shape)}" for seat in every[:SHOWN]]
        more = [f"and {len(every) - SHOWN} more workers"] if len(every) > SHOWN else []
        return (*told, *more)
    if not spec.placing.gang:
        return ()
    rooms = [
        sum(seat.total.room(shape, len(seat.slots)) for seat in group)
        for group in groups(able, spec.placing.gang_by)
    ]
    most = max(rooms, default=0)
    if most >= count:
        return ()
    where = f" that agree in {spec.placing.gang_by}" if spec.placing.gang_by else ""
    return (f"it is a gang of {count}, and the workers{where} have room for {most} at once",)


def lacking(seat: Seat, shape: Shape) -> str:
    """What one worker has too little of, in words."""
    told = [
        f"has {quantity(name, had)}, not {quantity(name, wanted)}"
        for name, (wanted, had) in short_of(seat.total, shape).items()
    ]
    told += [f"is not {constraint_text(wish)}" for wish in unmet(seat.attributes, shape)]
    return " and ".join(told) or "has no slot"
