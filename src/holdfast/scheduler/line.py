"""A row while a plan is made: what of it is placed, and the slots its tasks may still go to."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush

from msgspec import Struct

from holdfast.core.ids import Index, Instant, WorkerId
from holdfast.core.job import Job
from holdfast.core.placing import PACK, SPREAD
from holdfast.core.ready import Row, take
from holdfast.core.shape import Shape
from holdfast.scheduler.fit import liking, suits
from holdfast.scheduler.seats import Asker, Seat, Slot

NOBODY = WorkerId("")

COUNTED = 256
"""Waiting tasks are counted up to so many; that there are more is all that matters then."""

ANY_AMOUNT = -(1 << 62)


class Room(Struct, gc=False):
    """A slot that may take so many more tasks of a row."""

    seat: Seat
    slot: Slot
    space: int


class Demand(Struct, frozen=True):
    """So many tasks want room, on any worker but one, and but those that their job shuns."""

    count: int
    avoid: WorkerId = NOBODY
    shunned: frozenset[WorkerId] = frozenset()

    @property
    def is_choosy(self) -> bool:
        return self.avoid != NOBODY or bool(self.shunned)

    def welcomes(self, seat: Seat) -> bool:
        return seat.worker != self.avoid and seat.worker not in self.shunned


class Line:
    """`length` is how many tasks may stand in a slot, `low` the slots that are held for this shape
    and run low. Of the tasks of the first job, `taken` are given out already, and `apart` are those
    that must be placed one by one and were looked at; `stranded` are those of any job that found
    no room, by the worker that each avoids. `promised` is where attempts end for this row.
    `is_simple`: nothing bounds how many of its tasks start. `shunned` are workers that none of it
    goes to."""

    def __init__(self, row: Row, rank: int, length: int, *, is_simple: bool = False) -> None:
        self.row = row
        self.asker = Asker(row.shape, rank)
        self._rank = rank
        self.length = length
        self.job = row.head
        self.low: list[tuple[Seat, Slot]] = []
        self.shunned: frozenset[WorkerId] = frozenset()
        self.taken = 0
        self.apart: set[Index] = set()
        self.stranded: Counter[WorkerId] = Counter()
        self.promised: list[tuple[Seat, int]] = []
        self.is_simple = is_simple
        self.is_served = False
        self.is_blocked = False
        self.is_bounded = False
        self._placed_apart = 0
        self._passed = 0
        self._tiers: list[_Tier] | None = None
        self._rooms: list[tuple[int, int, Room]] = []
        self._space = 0
        self._kept = 0

    @property
    def shape(self) -> Shape:
        return self.row.shape

    @property
    def is_lifted(self) -> bool:
        """Whether waiting has made it more urgent than its priority says."""
        return self.asker.rank > self.row.priority

    @property
    def urgency(self) -> int:
        """Its rank in the rounds to come: what waiting has added stays until it is served."""
        return self.row.priority if self.is_served else self._rank

    @property
    def has_rooms(self) -> bool:
        """Whether slots that run low may take more of it."""
        return bool(self.low or self._rooms)

    @property
    def started(self) -> int:
        """How many tasks of the first job this plan gives out."""
        return self.taken + self._placed_apart

    def demands(self, allowed: int) -> Iterator[Demand]:
        """Who waits, and where each may not go, up to what bounds allow."""
        found = self.row.waiting(COUNTED + self.started)
        if self.row.head is not None and found >= COUNTED + self.started:
            # More than are counted: at least one of every job, and all of the first.
            found = max(found, self.row.count + len(self.row.head.states) - self.row.head.cursor)
        here = sum(self.stranded.values()) - self._passed
        plain = min(allowed, max(0, found - self.started - here) + self.stranded[NOBODY])
        if plain > 0:
            yield Demand(plain, shunned=self.shunned)
            allowed -= plain
        for avoid, count in sorted(self.stranded.items()):
            if avoid != NOBODY and allowed > 0:
                yield Demand(min(count, allowed), avoid, self.shunned)
                allowed -= count

    def prepare(self, seats: Sequence[Seat]) -> None:
        """Find the slots, once: what does not fit now will not fit later in this plan."""
        if self._tiers is not None:
            return
        shape = self.asker.shape
        found = roomy(seats, needs(shape))
        if shape.constraints or shape.resources:
            found = [seat for seat in found if suits(seat, shape)]
        if self.shunned:
            found = [seat for seat in found if seat.worker not in self.shunned]
        self._tiers = _tiers(found, shape)
        for seat, slot in self.low:
            if not seat.is_barred:
                self._keep(Room(seat, slot, self.length - slot.load))
        self.low = []

    def fall_back(self) -> None:
        """What waiting had added is spent, or found no room: what is left of it has its turn among
        those of its priority, where room may be open to it that its former equals kept."""
        if self.is_lifted:
            self.asker.rank = self.row.priority
            self.is_blocked = False
            self._tiers = None

    def most(self, portion: int, allowed: int) -> int:
        """How many tasks there may be room for; at least one, so that it shows whether anything is
        left."""
        slots = portion if self._tiers else 0
        return max(1, min(allowed, slots * self.length + self._space))

    def take(self, job: Job, now: Instant, most: int) -> list[Index]:
        """The next tasks of the first job."""
        if not self.apart:
            return take(job, now, self.taken + most)[self.taken :]
        known = self.apart
        found = take(job, now, self.taken + len(known) + most)
        return [index for index in found if index not in known][self.taken :]

    def open_slot(self, avoid: WorkerId = NOBODY) -> Room | None:
        """A slot that holds nothing yet, on any worker but one; held from now on."""
        for tier in list(self._tiers or ()):
            seats = tier.seats
            avoided: Seat | None = None
            room: Room | None = None
            while seats:
                seat = seats[0]
                if not seat.has_room(self.asker):
                    seats.popleft()
                elif seat.worker == avoid:
                    avoided = seats.popleft()
                else:
                    room = Room(seat, seat.hold(self.asker), self.length)
                    self._step(tier)
                    break
            if avoided is not None:
                # It was first in its tier, and is for whoever does not avoid it.
                seats.appendleft(avoided)
            if room is not None:
                return room
        return None

    def rooms(self, wanted: int, portion: int) -> list[Room]:
        """Slots for so many tasks, emptiest first: new ones up to `portion`, then those that run
        low."""
        found = self.open_slots(min(wanted, portion))
        while len(found) < wanted and self._rooms:
            _, _, room = heappop(self._rooms)
            self._space -= room.space
            # Another row of this shape may have used it meanwhile.
            room.space = self.length - room.slot.load
            is_kept = room.seat.is_barred or room.seat.is_claimed(self.asker)
            if room.space > 0 and not is_kept:
                found.append(room)
        return found

    def open_slots(self, wanted: int) -> list[Room]:
        """The same as `open_slot` so many times: the way of nearly every task."""
        asker, length, tiers = self.asker, self.length, self._tiers or []
        cpus, memory, gpus = needs(self.shape)
        resources, is_plain = self.shape.resources, not self.shape.spread
        found: list[Room] = []
        while tiers and len(found) < wanted:
            tier = tiers[0]
            seats = tier.seats
            while seats and len(found) < wanted:
                seat = seats[0]
                free = seat.free
                # What `has_room` says, without a call where nothing is claimed.
                if (
                    not seat.open_slots
                    or cpus > free.cpus_milli
                    or memory > free.memory_bytes
                    or gpus > free.gpus
                    or ((resources or seat.claims) and not seat.has_room(asker))
                ):
                    seats.popleft()
                    continue
                found.append(Room(seat, seat.hold(asker), length))
                if is_plain:
                    seats.rotate(-1)
                else:
                    self._step(tier)
            if not seats:
                tiers.remove(tier)
        return found

    def _step(self, tier: "_Tier") -> None:
        """The first worker of a tier got a task: who is next depends on the wish."""
        if self.shape.spread == PACK:
            return
        if self.shape.spread != SPREAD:
            tier.seats.rotate(-1)
            return
        tiers = self._tiers or []
        liked, count = tier.key
        place = tiers.index(tier) + 1
        if place == len(tiers) or tiers[place].key != (liked, count + 1):
            tiers.insert(place, _Tier((liked, count + 1), deque()))
        tiers[place].seats.append(tier.seats.popleft())

    def give_back(self, rooms: Iterable[Room]) -> None:
        """What a room has left may serve the next job of the row."""
        for room in rooms:
            if room.space > 0:
                self._keep(room)

    def set_apart(self, index: Index, room: Room | None, avoid: WorkerId) -> None:
        """This one was looked at by itself: it has a room, or there is none for it."""
        self.apart.add(index)
        if room is None:
            self.stranded[avoid] += 1
        else:
            self._placed_apart += 1

    def next_job(self) -> None:
        self.row.advance()
        if self.row.head is None:
            return
        self.job = self.row.head
        self.taken = self._placed_apart = 0
        if self.apart:
            self._passed = sum(self.stranded.values())
            self.apart.clear()

    def _keep(self, room: Room) -> None:
        # The number keeps equal loads apart: rooms have no order of their own.
        self._kept += 1
        heappush(self._rooms, (room.slot.load, self._kept, room))
        self._space += room.space


class _Tier(Struct, eq=False):
    """Workers that are equally welcome. Those of a later tier are used when all before are full;
    within one, tasks go round."""

    key: tuple[int, int]
    seats: deque[Seat]


def _tiers(seats: list[Seat], shape: Shape) -> list[_Tier]:
    """Those that are liked most first. After that, those with nothing rare that the task has no
    use for, or, to `SPREAD`, those with the fewest of its kind; `PACK` is an order in a tier."""
    has_wishes = any(wish.weight for wish in shape.constraints)
    # Whoever has something rare comes last: a look at one tells of most clusters.
    is_flat = not has_wishes and shape.spread != SPREAD and not (seats and _is_rare(seats[-1]))
    if shape.spread == PACK:
        seats = sorted(seats, key=lambda seat: (seat.free.cpus_milli, len(seat.open_slots)))
    if is_flat:
        return [_Tier((0, 0), deque(seats))] if seats else []
    found: dict[tuple[int, int], list[Seat]] = {}
    for seat in seats:
        liked = liking(seat.attributes, shape) if has_wishes else 0
        if shape.spread == SPREAD:
            second = sum([slot.shape == shape for slot in seat.slots])
        else:
            second = int(_is_wasted(seat, shape))
        found.setdefault((-liked, second), []).append(seat)
    return [_Tier(key, deque(found[key])) for key in sorted(found)]


Needs = tuple[int, int, int]


def needs(shape: Shape) -> Needs:
    """What must be free of each. Who wants nothing of a thing does not mind that more of it is
    given out than there is."""
    return (
        shape.cpus_milli or ANY_AMOUNT,
        shape.memory_bytes or ANY_AMOUNT,
        shape.gpus or ANY_AMOUNT,
    )


def roomy(seats: Sequence[Seat], needed: Needs) -> list[Seat]:
    """Those with an open slot and so much free: what can be told at a glance, because a thousand
    seats are looked at for every row."""
    cpus, memory, gpus = needed
    return [
        seat
        for seat in seats
        if seat.open_slots
        and cpus <= (free := seat.free).cpus_milli
        and memory <= free.memory_bytes
        and gpus <= free.gpus
    ]


def _is_rare(seat: Seat) -> bool:
    return bool(seat.total.gpus or seat.total.named)


def _is_wasted(seat: Seat, shape: Shape) -> bool:
    """Whether a worker has something rare that the task does not use."""
    if seat.total.gpus and not shape.gpus:
        return True
    return bool(seat.total.named) and not shape.resources
