"""Workers as the coordinator knows them: who sits where, what they offer, how fast they are.

Soft state: lost with the process and learnt again from the next exchange. It steers placement and
never decides what is true.
"""

from collections.abc import Callable

from msgspec import Struct

from holdfast.core.ids import NEVER, Instant, LeaseId, WorkerId
from holdfast.core.ready import Shape, shape_of
from holdfast.core.spec import JobSpec
from holdfast.core.state import State
from holdfast.scheduler.plan import Seat, Slot, run_length
from holdfast.wire.exchange import Capacity, Hello, Reply, Verdict

SendReply = Callable[[Reply], None]


class Worker(Struct):
    """One incarnation. `unseen` holds what was granted in replies it has not confirmed; `verdicts`,
    `stops` and `recalls` are the answer being put together for exchange `number`, which goes to
    `send`. `drained`: an operator wants it to take nothing more, as long as it is cordoned."""

    worker: WorkerId
    incarnation: int
    capacity: Capacity
    number: int = 0
    heard_at: Instant = NEVER
    draining: bool = False
    drained: bool = False
    occupied: int = 0
    term_ms: int = 0
    send: SendReply | None = None
    has_news: bool = False
    verdicts: tuple[Verdict, ...] = ()
    stops: tuple[Verdict, ...] = ()
    recalls: tuple[LeaseId, ...] = ()
    asked: frozenset[LeaseId] = frozenset()
    held: frozenset[LeaseId] = frozenset()
    unseen: tuple[tuple[int, frozenset[LeaseId]], ...] = ()
    last_reply: Reply | None = None
    hello: Hello | None = None
    since: Instant = NEVER
    seen_at: Instant = NEVER

    def known(self) -> frozenset[LeaseId]:
        """What it holds, and what is on its way to it."""
        return self.held.union(*(leases for _, leases in self.unseen))

    def queued(self, state: State) -> int:
        """How many leases wait behind another in a slot."""
        holder = state.holders.get((self.worker, self.incarnation))
        return 0 if holder is None else sum(load - 1 for load in holder.load.values())

    def is_idle(self, state: State) -> bool:
        holder = state.holders.get((self.worker, self.incarnation))
        return holder is None or not holder.leases

    def seat(self, state: State) -> Seat:
        """What is free, from the slots its leases occupy. Derived anew: nothing can leak."""
        holder = state.holders.get((self.worker, self.incarnation))
        load = {} if holder is None else holder.load
        shapes: dict[int, tuple[Shape, bool]] = {}
        if holder is not None and load:
            for task in holder.leases.values():
                if task.slot not in shapes:
                    shapes[task.slot] = (shape_of(state.jobs[task.job_id]), task.alone)
                    if len(shapes) == len(load):
                        break
        cpus, memory, gpus = (
            self.capacity.cpus_milli, self.capacity.memory_bytes, self.capacity.gpus,
        )  # fmt: skip
        slots: list[Slot] = []
        free = self.capacity.slots - self.occupied
        for number in range(self.capacity.slots):
            held = shapes.get(number)
            if held is not None:
                slots.append(Slot(number, load[number], held[0], held[1]))
                cpus, memory, gpus = cpus - held[0][0], memory - held[0][1], gpus - held[0][2]
                free -= 1
        for number in range(self.capacity.slots):
            if number not in shapes and free > 0:
                slots.append(Slot(number, 0, None))
                free -= 1
        return Seat(self.worker, self.incarnation, cpus, memory, gpus, slots)


class Paces:
    """How long the tasks of a function take, as far as reports have shown."""

    KEPT = 1024

    def __init__(self) -> None:
        self._means_us: dict[tuple[str, str], int] = {}

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

    def run_length(self, spec: JobSpec) -> int:
        return run_length(self._means_us.get((spec.kind, spec.target)))
