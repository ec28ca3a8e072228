"""Workers as the planner sees them: what is free on each, slot by slot, and who laid claim to it.

A seat is used up as a plan grows. It holds no authority: the coordinator makes new ones from what
it knows, and every pick is judged again when it becomes a grant.
"""

from msgspec import Struct, field

from holdfast.core.ids import NEVER, Instant, WorkerId
from holdfast.core.shape import Shape


class Slot(Struct, gc=False):
    """A place on a worker: how many leases it holds, and for what shape it is held.

    `rank` is the highest that any of its leases was stamped with and `since` when the attempt in
    it began, where one has. `leaving`: what it held has been ended, and the worker has not yet
    said that it is gone.
    """

    number: int
    load: int
    shape: Shape | None
    alone: bool = False
    rank: int = 0
    since: Instant = NEVER
    leaving: bool = False


class Amounts(Struct, gc=False):
    """Of everything that is counted. `named` has what a worker offers beyond the usual."""

    cpus_milli: int = 0
    memory_bytes: int = 0
    gpus: int = 0
    named: dict[str, int] = field(default_factory=dict)

    def take(self, shape: Shape, times: int = 1) -> None:
        """May go below nothing: what a worker holds was counted when it was given out."""
        self.cpus_milli -= shape.cpus_milli * times
        self.memory_bytes -= shape.memory_bytes * times
        self.gpus -= shape.gpus * times
        for name, amount in shape.resources:
            self.named[name] = self.named.get(name, 0) - amount * times

    def add(self, shape: Shape, times: int = 1) -> None:
        self.take(shape, -times)

    def copy(self) -> "Amounts":
        return Amounts(self.cpus_milli, self.memory_bytes, self.gpus, dict(self.named))

    def covers(self, shape: Shape) -> bool:
        """Whether there is enough for one of this shape. Who wants nothing of a thing does not
        mind that more of it is given out than there is."""
        cpus, memory, gpus = shape.cpus_milli, shape.memory_bytes, shape.gpus
        if cpus > self.cpus_milli and cpus:
            return False
        if (memory > self.memory_bytes and memory) or (gpus > self.gpus and gpus):
            return False
        named = self.named
        return not shape.resources or all(
            amount <= named.get(name, 0) or not amount for name, amount in shape.resources
        )

    def room(self, shape: Shape, most: int) -> int:
        """How many of this shape there is enough for, up to `most`."""
        if shape.cpus_milli:
            most = min(most, self.cpus_milli // shape.cpus_milli)
        if shape.memory_bytes:
            most = min(most, self.memory_bytes // shape.memory_bytes)
        if shape.gpus:
            most = min(most, self.gpus // shape.gpus)
        for name, amount in shape.resources:
            if amount:
                most = min(most, self.named.get(name, 0) // amount)
        return max(0, most)


class Asker(Struct, gc=False):
    """A row that wants room: its rank now, and how much of the whole its namespace holds."""

    shape: Shape
    rank: int
    share: float = 0.0


class Claim(Struct, gc=False):
    """Room on a seat that is kept for a row which cannot be placed yet.

    It binds rows of a lower rank for all of `count`. Among equals it keeps room for one task, and
    only from namespaces that hold more than `share`: what the claimant's would hold with it.
    """

    rank: int
    shape: Shape
    count: int
    share: float

    def against(self, asker: Asker) -> int:
        """How many of the claimed shape this asker must leave room for."""
        if self.rank > asker.rank:
            return self.count
        is_peer = self.rank == asker.rank and self.shape.namespace != asker.shape.namespace
        return 1 if is_peer and asker.share > self.share else 0


class Seat(Struct, gc=False):
    """One worker. `total` is all it has, `free` what no slot is held for, `open_slots` the numbers
    of slots that hold nothing, last first. `is_listening`: it waits for an answer, so that it can
    be given something at once. `is_barred`: what is free here is kept for something more urgent,
    and no slot is given more of what it runs. `promised`: for whom attempts end here. `is_known`:
    it has said who it is, and so what its attributes are. `is_used`: a plan has given out or ended
    something in its slots, so that they are no more what the worker has."""

    worker: WorkerId
    incarnation: int
    total: Amounts
    free: Amounts
    slots: list[Slot]
    open_slots: list[int]
    attributes: dict[str, str] = field(default_factory=dict)
    is_listening: bool = True
    is_barred: bool = False
    claims: list[Claim] = field(default_factory=list)
    promised: list[tuple[Shape, int]] = field(default_factory=list)
    is_known: bool = True
    is_used: bool = False

    def room(self, asker: Asker, most: int) -> int:
        """How many more slots it may open here, what others claim left aside."""
        most = min(most, len(self.open_slots))
        if not most:
            return 0
        if not self.claims:
            return self.free.room(asker.shape, most)
        left, slots = self.free.copy(), len(self.open_slots)
        for claim in self.claims:
            count = claim.against(asker)
            left.take(claim.shape, count)
            slots -= count
        return left.room(asker.shape, min(most, slots))

    def has_room(self, asker: Asker) -> bool:
        """Whether it may open one more slot here."""
        if self.claims:
            return self.room(asker, 1) > 0
        return bool(self.open_slots) and self.free.covers(asker.shape)

    def is_claimed(self, asker: Asker) -> bool:
        return any(claim.against(asker) for claim in self.claims)

    def clear(self, free: Amounts, open_slots: list[int]) -> None:
        """Forget what a plan has kept here; this is what was free before."""
        if self.claims:
            self.claims = []
        if self.is_barred:
            self.is_barred = False
            self.free, self.open_slots = free.copy(), open_slots.copy()

    def hold(self, asker: Asker) -> Slot:
        """Open a slot. The caller has made sure of the room."""
        self.is_used = True
        slot = self.slots[self.open_slots.pop()]
        shape, free = asker.shape, self.free
        slot.shape, slot.rank = shape, asker.rank
        if shape.gpus or shape.resources:
            free.take(shape)
        else:
            # Nearly every task: fifteen thousand of them in a round do not pay for a call each.
            free.cpus_milli -= shape.cpus_milli
            free.memory_bytes -= shape.memory_bytes
        return slot


def seat_of(
    worker: WorkerId,
    incarnation: int,
    total: Amounts,
    slots: list[Slot],
    attributes: dict[str, str] | None = None,
    *,
    is_listening: bool = True,
    is_known: bool = True,
) -> Seat:
    """The seat of a worker with these slots: what is free follows from them."""
    free = total.copy()
    for slot in slots:
        if slot.shape is not None:
            free.take(slot.shape)
    empty = [place for place, slot in enumerate(slots) if slot.shape is None]
    return Seat(
        worker, incarnation, total, free, slots, empty[::-1], attributes or {}, is_listening,
        is_known=is_known,
    )  # fmt: skip
