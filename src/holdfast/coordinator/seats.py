"""Workers as the coordinator knows them: who sits where, what they offer, how fast they are.

Soft state: lost with the process and learnt again from the next exchange. It steers placement and
never decides what is true.

A lease that is over says nothing about the process that runs under it: that ends when it ends.
What a worker was given counts against it until an exchange of its own names it no more.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct, field, structs

from holdfast.core.ids import NEVER, Instant, LeaseId, WorkerId
from holdfast.core.lease import Holder
from holdfast.core.placing import WORKER
from holdfast.core.shape import Shape, shape_of
from holdfast.core.spec import JobSpec
from holdfast.core.state import State
from holdfast.scheduler.plan import run_length
from holdfast.scheduler.seats import Amounts, Seat, Slot, seat_of
from holdfast.wire.delivery import Parcel
from holdfast.wire.exchange import (
    Capacity,
    Exchange,
    Hello,
    Lingering,
    Progress,
    Reply,
    Run,
    Verdict,
)

SendReply = Callable[[Reply], None]

FORMER = 1 << 62
"""Beyond the number of any exchange: of grants whose exchange this coordinator does not know."""
GRANTED_SLACK = 256
"""How many leases that are long gone may be remembered before somebody sweeps."""


class Stand(Struct):
    """What was made of a worker, and from what: as long as that is the same, so is this."""

    stamp: tuple[object, ...]
    seat: Seat | None = None
    free: Amounts = field(default_factory=Amounts)
    open_slots: list[int] = []
    tally: dict[Shape, int] | None = None
    is_clean: bool | None = None


class Worker(Struct):
    """One incarnation. `unseen` holds what was granted in replies it has not confirmed, and under
    `FORMER` what a coordinator before this one granted, until it has heard from us; `verdicts`,
    `stops`, `recalls`, `kept`, `runs`, `parcels` and `removable` are the answer being put together
    for exchange `number`, which goes to `send`. `drained`: an operator wants it to take nothing
    more, as long as it is cordoned. `has_left`: it said goodbye.
    `granted` is the slot and the shape of each lease it was given and may still run under, `last`
    the shape that each slot was given last. `progress` is what attempts said last of how far they
    are, and when. `stand` is what rounds go on with."""

    worker: WorkerId
    incarnation: int
    capacity: Capacity
    number: int = 0
    heard_at: Instant = NEVER
    draining: bool = False
    drained: bool = False
    has_left: bool = False
    occupied: int = 0
    term_ms: int = 0
    send: SendReply | None = None
    has_news: bool = False
    verdicts: tuple[Verdict, ...] = ()
    stops: tuple[Verdict, ...] = ()
    recalls: tuple[LeaseId, ...] = ()
    kept: tuple[LeaseId, ...] = ()
    removable: tuple[LeaseId, ...] = ()
    runs: tuple[Run, ...] = ()
    parcels: tuple[Parcel, ...] = ()
    asked: frozenset[LeaseId] = frozenset()
    held: frozenset[LeaseId] = frozenset()
    lingering: tuple[Lingering, ...] = ()
    unseen: tuple[tuple[int, frozenset[LeaseId]], ...] = ()
    granted: dict[LeaseId, tuple[int, Shape]] = {}
    last: dict[int, Shape] = {}
    last_reply: Reply | None = None
    hello: Hello | None = None
    since: Instant = NEVER
    seen_at: Instant = NEVER
    answered_at: Instant = NEVER
    progress: dict[LeaseId, tuple[Progress, Instant]] = {}
    stand: Stand | None = None

    def says_news(self, exchange: Exchange) -> bool:
        """Whether it is another worker than it was: larger, smaller, leaving."""
        told = (exchange.capacity, exchange.draining, exchange.leaving)
        return told != (self.capacity, self.draining, self.has_left)

    def hear(self, exchange: Exchange, epoch: int) -> None:
        """Take in what it says about itself. What it holds is taken in when its reports are."""
        self.number = exchange.number
        self.capacity, self.draining = exchange.capacity, exchange.draining
        self.occupied, self.lingering = exchange.occupied, exchange.lingering
        self.has_left = exchange.leaving
        # Whatever is on its way to one that has left arrives nowhere.
        seen = self.number if exchange.leaving else exchange.seen
        has_heard = exchange.leaving or exchange.epoch == epoch
        self.unseen = tuple(
            (number, leases)
            for number, leases in self.unseen
            if number > seen and not (number == FORMER and has_heard)
        )

    def note_progress(self, told: Iterable[Progress]) -> None:
        """Keep what attempts say, as long as they are held here."""
        for progress in told:
            self.progress[progress.lease_id] = (progress, self.heard_at)
        if self.progress:
            here = self.held.union(attempt.lease_id for attempt in self.lingering)
            self.progress = {lease: it for lease, it in self.progress.items() if lease in here}

    def give(self, leases: Iterable[LeaseId], slot: int, shape: Shape) -> None:
        """Remember what these leases take, for as long as it may run under them."""
        if len(self.granted) > GRANTED_SLACK + 2 * len(self.held):
            kept = self.known().union(attempt.lease_id for attempt in self.lingering)
            self.granted = {lease: it for lease, it in self.granted.items() if lease in kept}
        self.granted.update(dict.fromkeys(leases, (slot, shape)))
        self.last[slot] = shape

    def owe(self, runs: Iterable[Run]) -> None:
        """It hears of these with its next answer. They are on their way from now on."""
        leases = frozenset([item.lease_id for run in runs for item in run.items])
        self.unseen = (*self.unseen, (self.number, leases))
        self.runs = (*self.runs, *runs)

    def known(self) -> frozenset[LeaseId]:
        """What it holds, and what is on its way to it."""
        return self.held.union(*(leases for _, leases in self.unseen))

    def clung_to(self, state: State) -> frozenset[LeaseId]:
        """Leases that are over and that it does not know, or does not say, that it has lost."""
        if not self.held and not self.unseen:
            return self.held
        holder = state.holders.get((self.worker, self.incarnation))
        return self.known() if holder is None else self.known().difference(holder.leases)

    def is_doubtful(self, state: State) -> bool:
        """Whether something that is over may be on its way to it: only its next exchange tells, and
        it sends none before it is answered."""
        if not self.unseen:
            return False
        holder = state.holders.get((self.worker, self.incarnation))
        live = frozenset() if holder is None else holder.leases.keys()
        return any(not leases <= live for _, leases in self.unseen)

    def queued(self, state: State) -> int:
        """How many leases wait behind another in a slot."""
        holder = state.holders.get((self.worker, self.incarnation))
        return 0 if holder is None else sum(load - 1 for load in holder.load.values())

    def has_leases(self, state: State) -> bool:
        holder = state.holders.get((self.worker, self.incarnation))
        return holder is not None and bool(holder.leases)

    def is_idle(self, state: State) -> bool:
        """Whether something could run there, and nothing does, wanted or not."""
        if not self.capacity.slots:
            return False
        return not (self.has_leases(state) or self.lingering or self.clung_to(state))

    def kept_seat(self, state: State) -> Seat:
        """The same as `seat`, save since when each attempt runs; made anew only where something has
        changed, or a plan has used the former. A thousand workers idle beside one that reports."""
        stand = self._stand(state)
        seat = stand.seat
        if seat is None or seat.is_used:
            seat = stand.seat = self.seat(state)
            stand.free, stand.open_slots = seat.free.copy(), seat.open_slots.copy()
        else:
            seat.clear(stand.free, stand.open_slots)
        return seat

    def is_clean(self, state: State) -> bool:
        """Whether all that it holds, and all that is on its way to it, is its own."""
        stand = self._stand(state)
        if stand.is_clean is None:
            stand.is_clean = not self.clung_to(state)
        return stand.is_clean

    def tally(self, state: State) -> dict[Shape, int]:
        """How many slots something runs or waits in, of each shape. Where it holds more than
        anybody here remembers, what is recorded counts all the same."""
        stand = self._stand(state)
        if stand.tally is None:
            held = self.held_slots(state)
            if held is None:
                bare = Worker(self.worker, self.incarnation, Capacity(0, 0, 0, 0))
                held = bare.held_slots(state) or {}
            shapes = (slot.shape for slot in held.values() if slot.shape is not None)
            stand.tally = dict(Counter(shapes))
        return stand.tally

    def _stand(self, state: State) -> Stand:
        holder = state.holders.get((self.worker, self.incarnation))
        # What was granted, and in which slots, changes with what is held or is on its way.
        stamp = (
            holder, 0 if holder is None else holder.changes, self.capacity, self.hello,
            self.occupied, self.lingering, self.held, self.unseen, self.send is None, self.term_ms,
        )  # fmt: skip
        if self.stand is None or self.stand.stamp != stamp:
            self.stand = Stand(stamp)
        return self.stand

    def seat(self, state: State, *, is_exact: bool = False) -> Seat:
        """What is free: all there is without the slots of its leases, and without those of what is
        over and has not ended there. Derived anew: nothing can leak. `is_exact`: every lease of a
        slot is looked at for how urgent it is, not only the first."""
        capacity = self.capacity
        total = Amounts(
            capacity.cpus_milli, capacity.memory_bytes, capacity.gpus, dict(capacity.resources)
        )
        attributes = attributes_of(self)
        held = self.held_slots(state, is_exact=is_exact)
        if held is None:
            return seat_of(self.worker, self.incarnation, total, [], attributes)
        self._add_helpers(held)
        slots = [held[number] for number in sorted(held)]
        free = capacity.slots - len(slots) - max(0, self.occupied - len(self.lingering))
        for number in range(capacity.slots):
            if number not in held and free > 0:
                slots.append(Slot(number, 0, None))
                free -= 1
        is_listening = self.send is not None
        return seat_of(
            self.worker, self.incarnation, total, slots, attributes, is_listening=is_listening,
            is_known=self.hello is not None or not self.term_ms,
        )  # fmt: skip

    def _add_helpers(self, held: dict[int, Slot]) -> None:
        """What waits in one slot may be run in another that was given the same shape before and
        has nothing left: that one takes as much, until nothing waits."""
        movable: dict[Shape, int] = {}
        for slot in held.values():
            if slot.load > 1 and slot.shape is not None:
                movable[slot.shape] = movable.get(slot.shape, 0) + slot.load - 1
        if not movable:
            return
        for number, shape in self.last.items():
            if number not in held and movable.get(shape, 0) > 0:
                movable[shape] -= 1
                held[number] = Slot(number, 0, shape)

    def held_slots(self, state: State, *, is_exact: bool = False) -> dict[int, Slot] | None:
        """The slots in which something runs or waits, with what each takes; None where it holds
        something that is over and that nobody here remembers: it says what that takes as soon as
        it was told to end it."""
        held: dict[int, Slot] = {}
        holder = state.holders.get((self.worker, self.incarnation))
        if holder is not None and holder.load:
            _hold(holder, state, held)
            if is_exact:
                for task in holder.leases.values():
                    slot = held[task.slot]
                    slot.rank = max(slot.rank, task.rank)
        over = [(attempt.slot, self._shape_of(attempt)) for attempt in self.lingering]
        told = {attempt.lease_id for attempt in self.lingering}
        for lease in self.clung_to(state):
            if lease in told:
                continue
            known = self.granted.get(lease)
            if known is None:
                return None
            over.append(known)
        for number, shape in over:
            # One after another in a slot: what is behind it runs when it has ended.
            former = held.get(number)
            load = 1 if former is None else former.load + 1
            is_leaving = former is None or former.leaving
            held[number] = Slot(number, load, _larger(shape, former), True, leaving=is_leaving)
        return held

    def _shape_of(self, attempt: Lingering) -> Shape:
        known = self.granted.get(attempt.lease_id)
        if known is not None:
            return known[1]
        return Shape(
            cpus_milli=attempt.cpus_milli,
            memory_bytes=attempt.memory_bytes,
            gpus=attempt.gpus,
            resources=attempt.resources,
            code="",
            queue="",
            namespace="",
        )


def attributes_of(worker: Worker) -> dict[str, str]:
    """What it said it is like, and what it is called."""
    told = {} if worker.hello is None else dict(worker.hello.attributes)
    return {**told, WORKER: worker.worker}


def _hold(holder: Holder, state: State, held: dict[int, Slot]) -> None:
    """The slots of live leases, each known by the first of them: the others are of its shape."""
    load = holder.load
    for task in holder.leases.values():
        if task.slot not in held:
            shape = shape_of(state.jobs[task.job_id])
            held[task.slot] = Slot(
                task.slot, load[task.slot], shape, task.alone, task.rank, task.started_at
            )
            if len(held) == len(load):
                return


def _larger(shape: Shape, former: Slot | None) -> Shape:
    """The shape that takes as much as both of one slot do, one after the other."""
    if former is None or former.shape is None:
        return shape
    other = former.shape
    named = dict(shape.resources)
    for name, amount in other.resources:
        named[name] = max(amount, named.get(name, 0))
    return structs.replace(
        other,
        cpus_milli=max(shape.cpus_milli, other.cpus_milli),
        memory_bytes=max(shape.memory_bytes, other.memory_bytes),
        gpus=max(shape.gpus, other.gpus),
        resources=tuple(sorted(named.items())),
    )


def held_by_all(state: State, known: Iterable[Worker]) -> dict[Shape, int]:
    """How many slots are held for each shape, anywhere: one that has not been heard of since a
    restart may hold something all the same."""
    workers = {(worker.worker, worker.incarnation): worker for worker in known}
    found: dict[Shape, int] = {}
    for key in workers.keys() | state.holders.keys():
        worker = workers.get(key) or Worker(*key, Capacity(0, 0, 0, 0))
        for shape, count in worker.tally(state).items():
            found[shape] = found.get(shape, 0) + count
    return found


class Paces:
    """How long the tasks of a function take, as far as reports have shown."""

    KEPT = 1024

    def __init__(self, means_us: Mapping[tuple[str, str], int] | None = None) -> None:
        self._means_us = dict(means_us or {})

    @property
    def means_us(self) -> Mapping[tuple[str, str], int]:
        """By kind and target."""
        return self._means_us

    def note(self, spec: JobSpec, ran_ms: list[int]) -> None:
        key = (spec.kind, spec.target)
        mean = 1_000 * sum(ran_ms) // len(ran_ms)
        before = self._means_us.get(key)
        if before is None and len(self._means_us) >= self.KEPT:
            self._means_us.pop(next(iter(self._means_us)))
        # Slowness is believed at once and forgotten gradually: a long run behind a slow task hurts
        # more than a short one before a fast task.
        self._means_us[key] = (
            mean if before is None or mean > before else (before * 3 + mean) // 4
        )

    def mean_ms(self, spec: JobSpec) -> int | None:
        """How long a task of this function takes, where any has shown it."""
        mean_us = self._means_us.get((spec.kind, spec.target))
        return None if mean_us is None else mean_us // 1_000

    def run_length(self, spec: JobSpec) -> int:
        return run_length(self._means_us.get((spec.kind, spec.target)))
