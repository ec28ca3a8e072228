"""What surrounds a task at one moment: put together for whoever explains where it is.

The same for a server, which knows its workers, and for a folder, where nobody does.
"""

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from typing import Final

from msgspec import structs

from holdfast.coordinator.exchanges import Exchanges
from holdfast.coordinator.placement import ledger_of
from holdfast.coordinator.seats import Worker, held_by_all
from holdfast.coordinator.views import attempts_made
from holdfast.core.ids import NEVER, Index, Instant, JobId, task_name
from holdfast.core.job import Job, first_fresh, is_finished, job_reason, job_state, state_of
from holdfast.core.placing import ALL_TASKS
from holdfast.core.ready import Row, take
from holdfast.core.shape import Shape, shape_of
from holdfast.core.state import State
from holdfast.core.task import FRESH, Task, TaskState
from holdfast.core.ties import Verdict, verdict
from holdfast.scheduler.desks import CORDONED, DRAINING, OPEN, SILENT, Desk
from holdfast.scheduler.explain import (
    Group,
    JobSituation,
    Pause,
    Reached,
    Situation,
    Tie,
    Troop,
)
from holdfast.scheduler.fit import suits
from holdfast.scheduler.gangs import groups
from holdfast.scheduler.ledger import Ledger, Name, names_of
from holdfast.scheduler.plan import Plan, plan

MOST_TASKS: Final = 10_000
"""How many tasks with a past are looked at for one job."""
MOST_BEFORE: Final = 10


class Foresight:
    """What a plan made now would do, were every worker asking at this moment."""

    def __init__(self, exchanges: Exchanges) -> None:
        able = [
            worker
            for worker in exchanges.workers.values()
            if exchanges.is_open(worker) and exchanges.registry.is_alive(worker)
        ]
        outlook = exchanges.placement.outlook(able)
        for seat in outlook.seats:
            seat.is_listening = True
        self.ranks = {
            (row.priority, row.shape): outlook.rank_of(row) for row in outlook.rows
        }
        self.counts = {(row.priority, row.shape): row.count for row in outlook.rows}
        self.plan: Plan = plan(outlook)
        self.placed = {pick.job_id for pick in self.plan.picks}
        self.placed.update(pick.job_id for pick in self.plan.gangs)

    def before(self, job: Job) -> tuple[JobId, ...]:
        """The jobs that found no room and go before this one."""
        mine = (job.spec.priority, shape_of(job))
        rank = self.ranks.get(mine, job.spec.priority)
        found = [
            row.head.job_id
            for row in self.plan.waiting
            if row.head is not None and row.head is not job and self._rank(row) >= rank
        ]
        return tuple(found[:MOST_BEFORE])

    def ahead(self, job: Job) -> int:
        """How many jobs stand in rows of a higher rank."""
        mine = (job.spec.priority, shape_of(job))
        rank = self.ranks.get(mine, job.spec.priority)
        return sum(self.counts[key] for key, other in self.ranks.items() if other > rank)

    def _rank(self, row: Row) -> int:
        return self.ranks[(row.priority, row.shape)]


class Surroundings:
    """What is the same for every task that is looked at in one moment. Without `exchanges` nobody
    knows which workers there are: a folder is looked into."""

    def __init__(
        self, state: State, now: Instant, wall: Instant, exchanges: Exchanges | None
    ) -> None:
        self._state = state
        self._now = now
        self._wall = wall
        self._exchanges = exchanges

    def situation(self, job: Job, index: Index) -> Situation:
        task = (job.tasks or {}).get(index)
        state = state_of(job, index)
        # A task with a past, or with a time of its own, no longer waits for that of its job.
        times = job if task is None else task
        here = Situation(
            job_id=job.job_id,
            task=task_name(job.job_id, index),
            state=state,
            spec=job.spec,
            now=self._now,
            wall=self._wall,
            attempt=attempts_made(job, index),
            not_before=times.not_before,
            not_before_wall=times.not_before_wall,
        )
        if task is not None:
            here = structs.replace(
                here, failures=task.failures, losses=task.losses, worker=task.worker,
                since=task.started_at,
            )  # fmt: skip
        return here if state is not TaskState.WAITING else self._waiting(here, job, task)

    def whole(self, job: Job) -> JobSituation:
        if is_finished(job):
            return JobSituation(
                job_id=job.job_id, ended=job_state(job).value, reason=job_reason(job)
            )
        found = tuple(
            Group(count, self.situation(job, index))
            for count, index in _groups(job, self._now)
            if count
        )
        return JobSituation(job_id=job.job_id, sealed=job.sealed, groups=found)

    def _waiting(self, here: Situation, job: Job, task: Task | None) -> Situation:
        shape = shape_of(job)
        paused = self._state.paused.get(job.spec.queue)
        here = structs.replace(
            here,
            shape=shape,
            pause=None if paused is None else Pause(paused),
            active=job.active,
            is_granting=self._exchanges is None or self._exchanges.granting,
            desks=self.desks,
            ties=tuple(self._ties(job)),
            fate=job.fate,
            reached=tuple(self._reached(shape)),
            avoid=self._avoided(shape, task),
            troop=self._troop(job, shape),
        )
        look = self._foresight
        if look is None:
            return here
        return structs.replace(
            here,
            is_next=job.job_id in look.placed,
            before=look.before(job),
            ahead=look.ahead(job),
        )

    def _ties(self, job: Job) -> Iterator[Tie]:
        for after in job.after if job.blocked else ():
            stands = verdict(self._state, after)
            if stands is not Verdict.HOLDS:
                whole = after.index == ALL_TASKS
                name = after.job_id if whole else task_name(after.job_id, Index(after.index))
                yield Tie(name, after.condition, stands is Verdict.DEAD)

    def _reached(self, shape: Shape) -> Iterator[Reached]:
        ledger = self._ledger
        for bound in ledger.bounds(shape) if ledger.is_bounded(shape) else ():
            if bound.left <= 0:
                yield Reached(bound, () if bound.is_rate else self._holders(bound.name))

    def _holders(self, name: Name) -> tuple[tuple[str, int], ...]:
        """The jobs that hold what a bound allows, those with most first."""
        held: Counter[str] = Counter()
        for holder in self._state.holders.values():
            for task in holder.leases.values():
                if name in names_of(shape_of(self._state.jobs[task.job_id])):
                    held[task.job_id] += 1
        return tuple(held.most_common(MOST_BEFORE))

    def _avoided(self, shape: Shape, task: Task | None) -> str:
        """The worker that failed it, while another would do."""
        if task is None or not task.avoid or self.desks is None:
            return ""
        others = (desk for desk in self.desks if desk.name != task.avoid)
        is_free_to = any(desk.standing == OPEN and suits(desk.seat, shape) for desk in others)
        return task.avoid if is_free_to else ""

    def _troop(self, job: Job, shape: Shape) -> Troop | None:
        if not job.spec.placing.gang:
            return None
        by = job.spec.placing.gang_by
        seats = [desk.seat for desk in self.desks or () if desk.standing == OPEN]
        able = [seat for seat in seats if suits(seat, shape)]
        room = max(
            (
                sum(seat.free.room(shape, len(seat.open_slots)) for seat in group)
                for group in groups(able, by)
            ),
            default=0,
        )
        return Troop(job.unfinished, len(take(job, self._now, job.count)), room, by)

    @cached_property
    def _foresight(self) -> Foresight | None:
        return None if self._exchanges is None else Foresight(self._exchanges)

    @cached_property
    def _ledger(self) -> Ledger:
        if self._exchanges is not None:
            return self._exchanges.placement.outlook(()).ledger
        return ledger_of(self._state, {}, held_by_all(self._state, ()))

    @cached_property
    def desks(self) -> tuple[Desk, ...] | None:
        exchanges = self._exchanges
        if exchanges is None:
            return None
        return tuple(
            Desk(
                worker.seat(self._state),
                self._standing(exchanges, worker),
                self._frees_ms(exchanges, worker),
            )
            for worker in exchanges.workers.values()
            if not worker.has_left
        )

    def _standing(self, exchanges: Exchanges, worker: Worker) -> str:
        if not exchanges.registry.is_alive(worker):
            return SILENT
        if worker.draining:
            return DRAINING
        return CORDONED if worker.worker in self._state.cordoned else OPEN

    def _frees_ms(self, exchanges: Exchanges, worker: Worker) -> int | None:
        """When something there may end, if tasks of its kind have shown how long they take."""
        holder = self._state.holders.get((worker.worker, worker.incarnation))
        left: list[int] = []
        for task in holder.leases.values() if holder is not None else ():
            mean = exchanges.placement.paces.mean_ms(self._state.jobs[task.job_id].spec)
            if mean is not None and task.started_at != NEVER:
                left.append(max(0, mean - (self._now - task.started_at)))
        return min(left, default=None)


def _groups(job: Job, now: Instant) -> Iterator[tuple[int, Index]]:
    """The unfinished tasks of a job by what they have in common, each group with one of it. Of
    those that come back later, the first to do so."""
    fresh = job.states.count(FRESH)
    if fresh:
        yield fresh, Index(first_fresh(job, 0))
    kinds: dict[object, list[Task]] = {}
    for task in islice((job.tasks or {}).values(), MOST_TASKS):
        waits = (task.not_before > now, task.not_before_wall != NEVER, task.avoid)
        kind = (task.state, waits if task.state is TaskState.WAITING else None)
        kinds.setdefault(kind, []).append(task)
    for tasks in kinds.values():
        first = min(tasks, key=lambda task: (task.not_before, task.not_before_wall))
        yield len(tasks), first.index
