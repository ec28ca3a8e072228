"""Placing waiting tasks on slots. Pure: a snapshot of the seats goes in, a plan comes out.

A plan holds no authority: the coordinator turns each pick into a grant, and the grant is judged
like any command. First come, first served within a priority. A slot holds one running attempt and
a short run of leased ones of the same shape behind it, so that small tasks travel in batches.
"""

from collections.abc import Callable, Iterable

from msgspec import Struct

from holdfast.core.ids import Index, Instant, JobId, WorkerId
from holdfast.core.job import Job
from holdfast.core.ready import Shape, shape_of, take
from holdfast.core.spec import JobSpec

LONGEST_RUN = 128
ONE_CPU = 1_000
RUN_MS = 50
"""A run is about this much work, so that what waits in a slot never waits long."""


class Slot(Struct):
    """A place on a worker: how many leases it holds, and for what shape it is held."""

    number: int
    load: int
    shape: Shape | None
    alone: bool = False


class Seat(Struct):
    """A worker as the planner sees it: what is free, slot by slot."""

    worker: WorkerId
    incarnation: int
    cpus_milli: int
    memory_bytes: int
    gpus: int
    slots: list[Slot]


class Pick(Struct, frozen=True):
    """A proposal: these tasks of this job to this slot."""

    worker: WorkerId
    incarnation: int
    slot: int
    job_id: JobId
    indices: tuple[Index, ...]
    alone: bool


Pace = Callable[[JobSpec], int]
"""How many tasks of this spec make a run."""

Elsewhere = Callable[[Shape], int]
"""How many slots are held for this shape on workers that are no seats of this plan."""


def nowhere(shape: Shape) -> int:
    """Every worker has a seat."""
    return 0


def run_length(mean_us: int | None) -> int:
    """One task until the first has shown how long it takes; then about `RUN_MS` of work."""
    if mean_us is None:
        return 1
    return max(1, min(LONGEST_RUN, RUN_MS * 1_000 // max(mean_us, 1)))


def plan(
    jobs: Iterable[Job],
    seats: list[Seat],
    now: Instant,
    pace: Pace,
    closed: set[Shape] | None = None,
    elsewhere: Elsewhere = nowhere,
) -> list[Pick]:
    """What to lease now. The seats are used up as the plan grows, and a shape for which there is
    no room is closed, so that whoever walks the line need not offer it again."""
    picks: list[Pick] = []
    closed = set() if closed is None else closed
    for job in jobs:
        rooms = _rooms(job, seats, _length(job.spec, pace), elsewhere)
        if rooms:
            picks.extend(_fill(job, rooms, now))
        else:
            closed.add(shape_of(job))
    return picks


def _length(spec: JobSpec, pace: Pace) -> int:
    """How many tasks may wait in a slot. One where slots are counted for more than a processor
    each: a worker may move what waits to a lane that idles, and then more would run than fits."""
    counted = spec.max_parallel or spec.memory_bytes or spec.gpus or spec.cpus_milli > ONE_CPU
    return 1 if counted else pace(spec)


class _Room(Struct):
    seat: Seat
    slot: Slot
    space: int


def _rooms(job: Job, seats: list[Seat], length: int, elsewhere: Elsewhere) -> list[_Room]:
    """The slots this job may use: those held for its shape and running low, and free ones."""
    shape = shape_of(job)
    limit = job.spec.max_parallel
    used = elsewhere(shape) if limit else 0
    used += sum(slot.shape == shape for seat in seats for slot in seat.slots) if limit else 0
    rooms: list[_Room] = []
    for seat in seats:
        free_cpus, free_memory, free_gpus = seat.cpus_milli, seat.memory_bytes, seat.gpus
        for slot in seat.slots:
            if slot.shape is None:
                fits = shape[0] <= free_cpus and shape[1] <= free_memory and shape[2] <= free_gpus
                if fits and (not limit or used < limit):
                    rooms.append(_Room(seat, slot, length))
                    free_cpus -= shape[0]
                    free_memory -= shape[1]
                    free_gpus -= shape[2]
                    used += 1
            elif slot.shape == shape and not slot.alone and slot.load * 2 <= length:
                rooms.append(_Room(seat, slot, length - slot.load))
    rooms.sort(key=lambda room: room.slot.load)
    return rooms


def _fill(job: Job, rooms: list[_Room], now: Instant) -> list[Pick]:
    """Deal the next tasks out evenly. One that ended in a death goes alone to an empty slot."""
    wanted = sum(room.space for room in rooms)
    indices = take(job, now, wanted)
    tasks = job.tasks or {}
    suspects = [i for i in indices if i in tasks and tasks[i].alone]
    picks: list[Pick] = []
    for index in suspects:
        empty = next((room for room in rooms if room.slot.load == 0), None)
        if empty is None:
            break
        rooms.remove(empty)
        picks.append(_pick(job, empty, (index,), alone=True))
    if suspects:
        barred = frozenset(suspects)
        indices = [index for index in indices if index not in barred]
    start = 0
    for place, room in enumerate(rooms):
        left = len(indices) - start
        if left <= 0:
            break
        share = min(room.space, -(-left // (len(rooms) - place)))
        picks.append(_pick(job, room, tuple(indices[start : start + share]), alone=False))
        start += share
    return picks


def _pick(job: Job, room: _Room, indices: tuple[Index, ...], *, alone: bool) -> Pick:
    seat, slot = room.seat, room.slot
    if slot.shape is None:
        slot.shape = shape_of(job)
        seat.cpus_milli -= slot.shape[0]
        seat.memory_bytes -= slot.shape[1]
        seat.gpus -= slot.shape[2]
    slot.load += len(indices)
    slot.alone = alone
    return Pick(seat.worker, seat.incarnation, slot.number, job.job_id, indices, alone)
