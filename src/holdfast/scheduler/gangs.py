"""Placing a gang: all of its tasks at once, each in a slot of its own, or none of them."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from holdfast.core.ids import Index, JobId, WorkerId
from holdfast.core.job import Job
from holdfast.scheduler.fit import liking, suits
from holdfast.scheduler.line import Line
from holdfast.scheduler.seats import Seat


class Member(Struct, frozen=True):
    """One task of a gang and the slot it goes to."""

    worker: WorkerId
    incarnation: int
    slot: int
    index: Index


class GangPick(Struct, frozen=True):
    """A proposal for a whole job."""

    job_id: JobId
    rank: int
    members: tuple[Member, ...]


def place_gang(
    line: Line, job: Job, indices: Sequence[Index], seats: Iterable[Seat]
) -> GangPick | None:
    """Where the whole gang fits now, if anywhere. Its tasks are alike and its seats independent,
    so that counting room seat by seat is exact."""
    count = len(indices)
    for group in groups(seats, job.spec.placing.gang_by):
        rooms = _rooms(line, group, count)
        if sum(room for _, room in rooms) >= count:
            return GangPick(job.job_id, line.asker.rank, tuple(_seated(line, rooms, indices)))
    return None


def groups(seats: Iterable[Seat], attribute: str) -> list[list[Seat]]:
    """The seats that a gang may be spread over: all, or those that agree in the attribute. Those
    without it belong to no group."""
    if not attribute:
        return [list(seats)]
    found: dict[str, list[Seat]] = {}
    for seat in seats:
        value = seat.attributes.get(attribute)
        if value is not None:
            found.setdefault(value, []).append(seat)
    # By name, so that a plan does not depend on who happened to connect first.
    return [found[value] for value in sorted(found)]


def _rooms(line: Line, group: Iterable[Seat], count: int) -> list[tuple[Seat, int]]:
    """Room on each seat, most liked and roomiest first: few workers, few that can be lost."""
    shape = line.shape
    found = [
        (seat, room)
        for seat in group
        if seat.is_listening and suits(seat, shape) and (room := seat.room(line.asker, count))
    ]
    found.sort(key=lambda entry: (-liking(entry[0].attributes, shape), -entry[1]))
    return found


def _seated(
    line: Line, rooms: list[tuple[Seat, int]], indices: Sequence[Index]
) -> Iterable[Member]:
    left = iter(indices)
    for seat, room in rooms:
        for _ in range(room):
            index = next(left, None)
            if index is None:
                return
            slot = seat.hold(line.asker)
            slot.load += 1
            yield Member(seat.worker, seat.incarnation, slot.number, index)
