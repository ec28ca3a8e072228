"""A row while a plan is made: what of it is placed, and the slots its tasks may still go to."""

from collections import deque
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from msgspec import Struct

from holdfast.core.ids import Index, Instant, WorkerId
from holdfast.core.job import Job
from holdfast.core.placing import PACK, SPREAD
from holdfast.core.ready import Row, take
from holdfast.core.shape import Shape
from holdfast.scheduler.fit import liking, suits
from holdfast.scheduler.seats import Asker, Seat, Slot


class Room(Struct):
    """A slot that may take so many more tasks of a row."""

    seat: Seat
    slot: Slot
    space: int


class Line:
    """`length` is how many tasks may stand in a slot, `low` the slots that are held for this shape
    and run low. Of the tasks of the first job, `taken` are given out already, and `apart` are those
    that must be placed one by one and were looked at; `given` counts all that were placed."""

    def __init__(self, row: Row, rank: int, length: int) -> None:
        self.row = row
        self.asker = Asker(row.shape, rank)
        self.length = length
        self.low: list[tuple[Seat, Slot]] = []
        self.taken = 0
        self.apart: set[Index] = set()
        self.given = 0
        self.is_served = False
        self.is_blocked = False
        self.is_bounded = False
        self._candidates: deque[Seat] | None = None
        self._rooms: list[tuple[int, int, Room]] = []
        self._space = 0
        self._kept = 0

    @property
    def shape(self) -> Shape:
        return self.row.shape

    @property
    def waiting(self) -> int:
        """How many tasks may want room, at most."""
        head = self.row.head
        if head is None:
            return 0
        fresh = len(head.states) - head.cursor
        return max(1, fresh + len(head.due or ()) - self.taken + self.row.count - 1)

    def prepare(self, seats: Sequence[Seat]) -> None:
        """Find the slots, once: what does not fit now will not fit later in this plan."""
        if self._candidates is not None:
            return
        shape = self.asker.shape
        cpus, memory, gpus = shape.cpus_milli, shape.memory_bytes, shape.gpus
        # A thousand seats are looked at for every row: what can be told at a glance goes first.
        found = [
            seat
            for seat in seats
            if seat.open_slots
            and cpus <= (free := seat.free).cpus_milli
            and memory <= free.memory_bytes
            and gpus <= free.gpus
        ]
        if shape.constraints or shape.resources:
            found = [seat for seat in found if suits(seat, shape)]
        self._candidates = deque(_by_wish(found, shape))
        for seat, slot in self.low:
            if not seat.is_barred:
                self._keep(Room(seat, slot, self.length - slot.load))

    def take(self, job: Job, now: Instant, portion: int, allowed: int) -> list[Index]:
        """The next tasks of the first job: as many as there may be room for, and at least one, so
        that it shows whether anything is left."""
        slots = portion if self._candidates else 0
        most = max(1, min(allowed, slots * self.length + self._space))
        if not self.apart:
            return take(job, now, self.taken + most)[self.taken :]
        known = self.apart
        found = take(job, now, self.taken + len(known) + most)
        return [index for index in found if index not in known][self.taken :]

    def open_slot(self, avoid: WorkerId | None = None) -> Room | None:
        """A slot that holds nothing yet, on any worker but one; held from now on."""
        candidates = self._candidates
        passed = 0
        while candidates and passed < len(candidates):
            seat = candidates[0]
            if not seat.has_room(self.asker):
                candidates.popleft()
                continue
            is_next = seat.worker != avoid
            if not is_next or self.shape.spread != PACK:
                candidates.rotate(-1)
            if is_next:
                return Room(seat, seat.hold(self.asker), self.length)
            passed += 1
        return None

    def rooms(self, wanted: int, portion: int) -> list[Room]:
        """Slots for so many tasks, emptiest first: new ones up to `portion`, then those that run
        low."""
        found = self._open_slots(min(wanted, portion))
        while len(found) < wanted and self._rooms:
            _, _, room = heappop(self._rooms)
            self._space -= room.space
            # Another row of this shape may have used it meanwhile.
            room.space = self.length - room.slot.load
            is_kept = room.seat.is_barred or room.seat.is_claimed(self.asker)
            if room.space > 0 and not is_kept:
                found.append(room)
        return found

    def _open_slots(self, wanted: int) -> list[Room]:
        """The same as `open_slot` so many times: the way of nearly every task."""
        candidates, asker, length = self._candidates or deque(), self.asker, self.length
        found: list[Room] = []
        step = 0 if self.shape.spread == PACK else -1
        while candidates and len(found) < wanted:
            seat = candidates[0]
            if seat.has_room(asker):
                found.append(Room(seat, seat.hold(asker), length))
                candidates.rotate(step)
            else:
                candidates.popleft()
        return found

    def give_back(self, rooms: Iterable[Room]) -> None:
        """What a room has left may serve the next job of the row."""
        for room in rooms:
            if room.space > 0:
                self._keep(room)

    def next_job(self) -> None:
        self.row.advance()
        self.taken = self.given = 0
        self.apart.clear()

    def _keep(self, room: Room) -> None:
        # The number keeps equal loads apart: rooms have no order of their own.
        self._kept += 1
        heappush(self._rooms, (room.slot.load, self._kept, room))
        self._space += room.space


def _by_wish(seats: list[Seat], shape: Shape) -> list[Seat]:
    """Those that are liked most first; what `PACK` and `SPREAD` mean is an order, too."""
    if shape.spread == PACK:
        seats = sorted(seats, key=lambda seat: (seat.free.cpus_milli, len(seat.open_slots)))
    elif shape.spread == SPREAD:
        seats = sorted(seats, key=lambda seat: sum(slot.shape == shape for slot in seat.slots))
    if any(wish.weight for wish in shape.constraints):
        seats = sorted(seats, key=lambda seat: -liking(seat.attributes, shape))
    return seats
