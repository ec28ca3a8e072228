"""Machines around a `World`: plans are made from what it holds, and become grants in it.

There is no coordinator and no worker: a test says when an attempt begins and ends, and when a
machine has let go of what was ended on it. What the planner is shown is derived from the state
every time, as a coordinator does it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from msgspec import Struct, field

from holdfast.core import commands as c
from holdfast.core.decision import Accepted
from holdfast.core.ids import NEVER, Index, WorkerId
from holdfast.core.placing import Placing
from holdfast.core.shape import Shape, shape_of
from holdfast.core.spec import JobSpec
from holdfast.core.task import Task
from holdfast.scheduler.aging import Aging
from holdfast.scheduler.ledger import UNBOUNDED, Ledger, Name
from holdfast.scheduler.outlook import Outlook
from holdfast.scheduler.plan import plan
from holdfast.scheduler.proposals import Plan
from holdfast.scheduler.seats import Amounts, Seat, Slot, seat_of
from holdfast.scheduler.serving import shunned_by
from holdfast.scheduler.shares import Shares
from holdfast.testing.world import World

INCARNATION = 1
PLACING_FIELDS = Placing.__struct_fields__


class Machine(Struct):
    """What a worker has. `is_listening`: it can be given something at once."""

    slots: int = 2
    total: Amounts = field(default_factory=lambda: Amounts(2_000, 1 << 30))
    attributes: dict[str, str] = field(default_factory=dict)
    is_listening: bool = True


def a_machine(
    slots: int = 2,
    *,
    cpus: float | None = None,
    memory_bytes: int = 1 << 30,
    gpus: int = 0,
    named: Mapping[str, int] | None = None,
    **attributes: str,
) -> Machine:
    milli = int((slots if cpus is None else cpus) * 1_000)
    return Machine(slots, Amounts(milli, memory_bytes, gpus, dict(named or {})), attributes)


def a_spec(**wants: Any) -> JobSpec:
    """A spec of plain words: those of a `Placing` are sorted into one."""
    placing = {name: wants.pop(name) for name in PLACING_FIELDS if name in wants}
    given = {"name": "work", "kind": "function", "target": "work"} | wants
    return JobSpec(**given, placing=Placing(**placing))


class Floor:
    """`length` is how many tasks make a run; `caps`, `amounts`, `tokens` and `weights` are what an
    operator has set. `leaving` has the slots whose attempts were ended and that are not free
    yet."""

    def __init__(self, **machines: Machine) -> None:
        self.world = World()
        self.machines = machines
        self.length = 1
        self.caps: dict[Name, int] = {}
        self.amounts: dict[Name, dict[str, int]] = {}
        self.tokens: dict[Name, int] = {}
        self.weights: dict[str, int] = {}
        self.aging = Aging(0)
        self.leaving: dict[tuple[str, int], Shape] = {}
        self.most_picks = UNBOUNDED

    # --- what there is --------------------------------------------------------------------------

    def submit(self, job_id: str, count: int = 1, **wants: Any) -> None:
        sealed = wants.pop("sealed", True)
        spec = wants.pop("spec", None) or a_spec(**wants)
        decision = self.world.submit(job_id, count, spec=spec, sealed=sealed)
        if not isinstance(decision, Accepted):
            raise AssertionError(f"{job_id} was refused: {decision}")

    def tasks_on(self, worker: str) -> list[Task]:
        """What a machine holds, in the order it was given out."""
        holder = self.world.state.holders.get((WorkerId(worker), INCARNATION))
        return [] if holder is None else list(holder.leases.values())

    def seat(self, worker: str) -> Seat:
        machine = self.machines[worker]
        slots = [Slot(number, 0, None) for number in range(machine.slots)]
        for task in self.tasks_on(worker):
            slot = slots[task.slot]
            slot.load += 1
            slot.shape = shape_of(self.world.state.jobs[task.job_id])
            slot.alone = slot.alone or task.alone
            slot.rank = task.rank if slot.load == 1 else max(slot.rank, task.rank)
            if task.started_at != NEVER:
                slot.since = task.started_at
        for (name, number), shape in self.leaving.items():
            if name == worker:
                slots[number] = Slot(number, 1, shape, leaving=True)
        return seat_of(
            WorkerId(worker), INCARNATION, machine.total.copy(), slots, dict(machine.attributes),
            is_listening=machine.is_listening,
        )  # fmt: skip

    def seats(self) -> list[Seat]:
        return [self.seat(worker) for worker in self.machines]

    def outlook(self, seats: list[Seat] | None = None) -> Outlook:
        world = self.world
        world.state.ready.wake(world.state.jobs, world.now)
        shown = self.seats() if seats is None else seats
        held: Counter[Shape] = Counter()
        for seat in shown:
            held.update(slot.shape for slot in seat.slots if slot.shape is not None)
        rows = world.state.ready.rows(world.state.jobs, world.now)
        self.aging.forget(rows)
        return Outlook(
            rows=rows,
            seats=shown,
            now=world.now,
            pace=lambda spec: self.length,
            ledger=Ledger(self.caps, self.tokens, held, self.amounts),
            shares=lambda: Shares(shown, held, self.weights),
            rank_of=lambda row: self.aging.rank_of(row, world.now),
            most_picks=self.most_picks,
            shunned=partial(shunned_by, world.state, world.now),
        )

    # --- what happens ---------------------------------------------------------------------------

    def plan(self) -> Plan:
        """What would be done now; nothing is."""
        return plan(self.outlook())

    def round(self) -> Plan:
        """Plan, and carry it out."""
        made = self.plan()
        self.carry_out(made)
        return made

    def carry_out(self, made: Plan) -> None:
        """Every proposal must be accepted: nothing has changed since the look."""
        self.aging.note(made.served, self.world.now)
        for pick in made.picks:
            self.world.did(
                c.GrantLeases(
                    job_id=pick.job_id, worker=pick.worker, incarnation=pick.incarnation,
                    slot=pick.slot, indices=pick.indices, term_ms=0, alone=pick.alone,
                    rank=pick.rank,
                )
            )  # fmt: skip
        for gang in made.gangs:
            members = tuple(
                c.Member(member.index, member.worker, member.incarnation, member.slot, 0)
                for member in gang.members
            )
            self.world.did(c.GrantGang(job_id=gang.job_id, members=members, rank=gang.rank))
        for eviction in made.evictions:
            ended = [
                task for task in self.tasks_on(eviction.worker) if task.slot == eviction.slot
            ]
            before = self._held()
            leases = tuple(task.lease_id for task in ended)
            self.world.did(c.PreemptAttempts(leases=leases, reason="", by=eviction.job_id))
            # A gang falls as a whole, wherever its members are.
            for place in before.keys() - self._held().keys():
                self.leaving[place] = before[place]

    def _held(self) -> dict[tuple[str, int], Shape]:
        return {
            (worker, task.slot): shape_of(self.world.state.jobs[task.job_id])
            for worker in self.machines
            for task in self.tasks_on(worker)
        }

    def start(self, tasks: Iterable[Task]) -> None:
        for task in tasks:
            self.world.start(task.job_id, task.index, task.lease_id, worker=task.worker)

    def commit(self, tasks: Iterable[Task]) -> None:
        for task in tasks:
            if shape_of(self.world.state.jobs[task.job_id]).gang:
                self.world.commit_gang(task.job_id)
            elif task.lease_id:
                self.world.commit(task.job_id, task.index, task.lease_id, worker=task.worker)

    def let_go(self) -> None:
        """Every machine says that what was ended on it is gone."""
        self.leaving.clear()

    def where(self, job_id: str) -> dict[Index, str]:
        """The machines that hold tasks of a job."""
        held = (task for worker in self.machines for task in self.tasks_on(worker))
        return {task.index: task.worker for task in held if task.job_id == job_id}
