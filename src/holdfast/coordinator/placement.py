"""From what the coordinator knows to a plan, and from a plan to grants.

The plan is pure and holds no authority: each of its proposals becomes a command, judged like any
other, and what is refused simply does not happen.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import Final

from msgspec import Struct

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.seats import Paces, Worker, held_by_all
from holdfast.coordinator.settings import Settings
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.circuit import FUNCTION, CircuitState, circuit_of
from holdfast.core.decide.circuits import is_on_trial
from holdfast.core.decision import Accepted
from holdfast.core.events import lease_ids
from holdfast.core.ids import NEVER, Instant, LeaseId, WorkerId
from holdfast.core.job import Job
from holdfast.core.ready import Row
from holdfast.core.shape import Shape, shape_of
from holdfast.core.state import State
from holdfast.core.task import Task, TaskState
from holdfast.scheduler.aging import Aging
from holdfast.scheduler.eviction import Eviction
from holdfast.scheduler.gangs import GangPick
from holdfast.scheduler.ledger import CIRCUIT, NAMESPACE, Ledger, Name, names_of
from holdfast.scheduler.outlook import Outlook
from holdfast.scheduler.plan import plan
from holdfast.scheduler.proposals import Hurry, Pick
from holdfast.scheduler.rates import Rate, Rates
from holdfast.scheduler.serving import shunned_by
from holdfast.scheduler.shares import Shares
from holdfast.wire.exchange import Item, Run

ACTOR: Final = "scheduler"

MOST_PICKS: Final = 4_096
"""What one round gives out at most: more would keep everybody else waiting for an answer."""

Runs = dict[WorkerId, list[Run]]


class Placement:
    """`workers` are all that are known, dead ones too: what they hold counts until it is over.
    `is_cut`: there was more to give out than one round may, and the next goes on with it."""

    def __init__(
        self,
        coordinator: Coordinator,
        workers: dict[WorkerId, Worker],
        tell: Callable[[Worker], None],
    ) -> None:
        self.paces = Paces()
        self.aging = Aging(Settings().aging_ms)
        self.rates = Rates()
        self.sinks: tuple[str, ...] = ()
        self._coordinator = coordinator
        self._workers = workers
        self._tell = tell
        self._waits_for_token = False
        # Open circuits whose unbegun work was asked back, with since when they are open.
        self._recalled: dict[str, Instant] = {}
        self.most_picks = MOST_PICKS
        self.is_cut = False

    def outlook(
        self,
        able: Iterable[Worker],
        others: Iterable[Worker] = (),
        guests: Iterable[Row] = (),
        *,
        is_round: bool = False,
    ) -> Outlook:
        """What a plan is made from: workers that can be given work now, and others that can be as
        soon as they ask. A round goes on with the seats of the one before."""
        now, workers = self._coordinator.now(), self._workers.values()
        known = Known(self._coordinator.state, now, workers, self.paces, self.aging, self.tokens())
        return outlook_of(known, able, others, guests, is_round=is_round)

    def tokens(self) -> dict[Name, int]:
        """How many of what is bounded in time may start now."""
        limits = self._coordinator.state.limits
        starts = {
            name: Rate(limit.starts, limit.per_ms)
            for name, limit in limits.items()
            if limit.starts and limit.per_ms
        }
        return self.rates.tokens(starts, self._coordinator.now())

    def give_out(self, able: Iterable[Worker], others: Iterable[Worker] = ()) -> Runs:
        """Plan once and carry the plan out; what each worker is to be told to run."""
        if self._coordinator.state.circuits or self._recalled:
            self._recall_open()
        state = self._coordinator.state
        if not state.ready.thin(state.jobs, self._coordinator.now()):
            # The last of them was given out, and has reported: there is nothing to plan.
            self.aging.forget([])
            self._waits_for_token = False
            return {}
        outlook = self.outlook(able, others, is_round=True)
        outlook.most_picks = self.most_picks
        made = plan(outlook)
        runs: Runs = {}
        for pick in made.picks:
            run = self._grant(pick)
            if run is not None:
                runs.setdefault(pick.worker, []).append(run)
        for gang in made.gangs:
            for worker, run in self._grant_gang(gang):
                runs.setdefault(worker, []).append(run)
        for eviction in made.evictions:
            self._evict(eviction)
        for hurry in made.hurries:
            self._hurry(hurry)
        self.aging.note(made.served, outlook.now)
        self._waits_for_token = bool(outlook.rows)
        # Where nothing was granted, going on at once would lead to the same again.
        self.is_cut = made.is_cut and bool(runs)
        return runs

    def next_due(self) -> Instant:
        """When something may start that must wait now, and that nothing announces."""
        now = self._coordinator.now()
        if self.is_cut:
            return now
        return self.rates.next_token(now) if self._waits_for_token else NEVER

    def _grant(self, pick: Pick) -> Run | None:
        worker = self._workers[pick.worker]
        decision = self._coordinator.execute(
            c.GrantLeases(
                job_id=pick.job_id,
                worker=pick.worker,
                incarnation=pick.incarnation,
                slot=pick.slot,
                indices=pick.indices,
                term_ms=worker.term_ms,
                alone=pick.alone,
                rank=pick.rank,
            ),
            actor=ACTOR,
        )
        granted = decision.answer if isinstance(decision, Accepted) else None
        if not isinstance(granted, e.LeasesGranted):
            return None
        return self._run_of(worker, granted)

    def _grant_gang(self, pick: GangPick) -> Iterable[tuple[WorkerId, Run]]:
        """All of a gang in one record. Refused where anything has changed since: it waits on."""
        members = tuple(
            c.Member(
                index=member.index,
                worker=member.worker,
                incarnation=member.incarnation,
                slot=member.slot,
                term_ms=self._workers[member.worker].term_ms,
            )
            for member in pick.members
        )
        decision = self._coordinator.execute(
            c.GrantGang(job_id=pick.job_id, members=members, rank=pick.rank), actor=ACTOR
        )
        if isinstance(decision, Accepted):
            for granted in decision.events:
                if isinstance(granted, e.LeasesGranted):
                    yield granted.worker, self._run_of(self._workers[granted.worker], granted)

    def _run_of(self, worker: Worker, granted: e.LeasesGranted) -> Run:
        job: Job = self._coordinator.state.jobs[granted.job_id]
        leases = lease_ids(granted)
        shape = shape_of(job)
        worker.give(leases, granted.slot, shape)
        self.rates.spend(names_of(shape), len(granted.indices))
        payloads = job.payloads_of(granted.indices)
        items = tuple(map(Item, granted.indices, leases, granted.attempts, payloads))
        spec = job.spec
        return Run(
            job.job_id, granted.slot, spec.kind, spec.target, spec.timeout_ms,
            worker.term_ms, granted.alone, job.count, items, spec.on_disconnect,
            spec.memory_bytes, spec.bundle, spec.cpus_milli, spec.gpus, spec.placing.resources,
            self.sinks, spec.stall_ms, self._coordinator.state.log_id, spec.placing.gang,
        )  # fmt: skip

    def _evict(self, eviction: Eviction) -> None:
        """End what a slot holds. The worker hears of it as of any lease that is over."""
        leases = [task.lease_id for task in self._in_slot(eviction.worker, eviction.slot)]
        if leases:
            self._coordinator.execute(
                c.PreemptAttempts(
                    leases=tuple(leases),
                    reason=f"job {eviction.job_id} is more urgent",
                    by=eviction.job_id,
                ),
                actor=ACTOR,
            )

    def _hurry(self, hurry: Hurry) -> None:
        """Ask back what has not begun; only the worker can say that it has not."""
        worker = self._workers[hurry.worker]
        waiting = [
            task.lease_id
            for task in self._in_slot(hurry.worker, hurry.slot)
            if task.state is TaskState.LEASED and not task.alone
        ]
        # The first of them may be about to begin, and nothing is gained by stopping it.
        self.recall(worker, waiting[1:])

    def _recall_open(self) -> None:
        """Ask back what has not begun of functions that opened since the last look: it would fail
        like the others. What runs goes on."""
        state = self._coordinator.state
        opened = {
            circuit.name: circuit.since
            for circuit in state.circuits.values()
            if circuit.kind == FUNCTION and circuit.state is CircuitState.OPEN
        }
        fresh = [name for name, since in opened.items() if self._recalled.get(name) != since]
        self._recalled = opened
        for worker in self._workers.values() if fresh else ():
            holder = state.holders.get((worker.worker, worker.incarnation))
            leases = holder.leases.values() if holder is not None else ()
            waiting = [
                task.lease_id
                for task in leases
                if task.state is TaskState.LEASED
                and circuit_of(state.jobs[task.job_id].spec) in fresh
            ]
            self.recall(worker, waiting)

    def recall(self, worker: Worker, wanted: list[LeaseId]) -> None:
        """Have these asked back, those that were not yet."""
        fresh = tuple(lease for lease in wanted if lease not in worker.asked)
        if fresh:
            worker.recalls += fresh
            holder = self._coordinator.state.holder(worker.worker, worker.incarnation)
            worker.asked = worker.asked.union(fresh) & holder.leases.keys()
            self._tell(worker)

    def _in_slot(self, name: WorkerId, slot: int) -> list[Task]:
        worker = self._workers.get(name)
        key = (name, worker.incarnation if worker is not None else 0)
        holder = self._coordinator.state.holders.get(key)
        tasks = () if holder is None else holder.leases.values()
        return [task for task in tasks if task.slot == slot]


class Known(Struct):
    """What is known at one moment. `tokens` says how many of what is bounded in time may start;
    what is not in it does not wait for that."""

    state: State
    now: Instant
    workers: Iterable[Worker]
    paces: Paces
    aging: Aging
    tokens: Mapping[Name, int] = {}


def outlook_of(
    known: Known,
    able: Iterable[Worker],
    others: Iterable[Worker] = (),
    guests: Iterable[Row] = (),
    *,
    is_round: bool = False,
) -> Outlook:
    """What a plan is made from. `guests` are rows that are in no line, and that somebody asks
    about."""
    state, now, aging = known.state, known.now, known.aging
    rows = [*state.ready.rows(state.jobs, now, state.paused), *guests]
    is_exact = any(row.shape.preempts for row in rows)
    if is_round and not is_exact:
        seats = [worker.kept_seat(state) for worker in able]
    else:
        seats = [worker.seat(state, is_exact=is_exact) for worker in able]
    held = cache(lambda: held_by_all(state, known.workers))
    limits = state.limits
    is_bounded = bool(limits) or any(row.shape.keys for row in rows)
    weights = {
        name: limit.weight
        for (scope, name), limit in limits.items()
        if scope == NAMESPACE and limit.weight
    }
    aging.forget(rows)
    return Outlook(
        rows=rows,
        seats=seats,
        now=now,
        pace=known.paces.run_length,
        ledger=ledger_of(state, known.tokens, held() if is_bounded else {}),
        held=held,
        shares=lambda: Shares(seats, held(), weights),
        rank_of=lambda row: aging.rank_of(row, now),
        others=lambda: [worker.seat(state) for worker in others],
        shunned=partial(shunned_by, state, now) if state.falls else None,
    )


def ledger_of(
    state: State, tokens: Mapping[Name, int], held: Mapping[Shape, int]
) -> Ledger:
    """The bounds that people set and circuits, against what is held."""
    limits = state.limits.items()
    may_start = {**tokens, **circuit_tokens(state)} if state.circuits else tokens
    return Ledger(
        {name: limit.running for name, limit in limits if limit.running},
        may_start,
        held,
        {name: dict(limit.amounts) for name, limit in limits if limit.amounts},
    )


def circuit_tokens(state: State) -> dict[Name, int]:
    """How many may start through circuits that are not closed: one, where it is time for a trial
    and nobody has it yet."""
    return {
        (CIRCUIT, circuit.name): int(
            circuit.state is CircuitState.HALF_OPEN and not is_on_trial(state, circuit)
        )
        for circuit in state.circuits.values()
        if circuit.kind == FUNCTION and circuit.state is not CircuitState.CLOSED
    }
