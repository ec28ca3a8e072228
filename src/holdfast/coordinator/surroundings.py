"""What surrounds a task at one moment: put together for whoever explains where it is.

The same for a server, which knows its workers, and for a folder, where notes tell of them or
nobody does.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from itertools import islice
from typing import Final

from msgspec import structs

from holdfast.coordinator.alike import alike, kind_of, trouble_of
from holdfast.coordinator.crews import Crew, noted_standings
from holdfast.coordinator.foresight import Foresight
from holdfast.coordinator.history import last_end
from holdfast.coordinator.placement import ledger_of
from holdfast.coordinator.seats import Worker, held_by_all
from holdfast.coordinator.views import attempts_made
from holdfast.core.circuit import FUNCTION
from holdfast.core.debts import Owing
from holdfast.core.ids import NEVER, Index, Instant, WorkerId, task_name
from holdfast.core.job import (
    Job,
    first_fresh,
    is_finished,
    job_reason,
    job_state,
    may_come_back,
    retryable,
    state_of,
)
from holdfast.core.owed import DebtName
from holdfast.core.ready import has_leasable, is_begun, row_of, take
from holdfast.core.shape import Shape, has_own_slots, shape_of
from holdfast.core.state import State
from holdfast.core.task import FRESH, Task, TaskState
from holdfast.core.ties import Verdict, is_curable, verdict
from holdfast.scheduler.desks import OPEN, Desk, first_code
from holdfast.scheduler.explain import (
    Group,
    JobSituation,
    Pause,
    Reached,
    Situation,
    Troop,
    explain,
    in_line,
    own_reasons,
)
from holdfast.scheduler.fit import suits, suits_elsewhere
from holdfast.scheduler.gangs import groups
from holdfast.scheduler.ledger import CIRCUIT, Ledger, Name, names_of
from holdfast.scheduler.owing import Standing
from holdfast.scheduler.reasons import listed
from holdfast.scheduler.serving import Serving, shunned_by
from holdfast.scheduler.ties import Tie
from holdfast.wire.rates import rate_text

MOST_LOOKED: Final = 1_000
"""How many tasks with a past are looked at for a waiting one."""
MOST_HOLDERS: Final = 10


class Surroundings:
    """What is the same for every task that is looked at in one moment. Without a `crew` nobody
    knows which workers there were. A `guest` is a job that nobody submitted yet."""

    def __init__(
        self,
        state: State,
        now: Instant,
        wall: Instant,
        crew: Crew | None,
        guest: Job | None = None,
    ) -> None:
        self._guest = guest
        self._state = state
        self._now = now
        self._wall = wall
        self._crew = crew
        self._codes: dict[tuple[Shape, frozenset[str]], str] = {}
        self._rows: dict[tuple[int, Shape], str] = {}
        self._holding: dict[Name, tuple[tuple[str, int], ...]] = {}
        # What has slept until now is in line, as it is for the round that comes next.
        state.ready.wake(state.jobs, now)

    def situation(self, job: Job, index: Index) -> Situation:
        """A task with its place in the line. Whoever looks at very many does without."""
        return self._placed(job, index, self._situation(job, index))

    def _placed(self, job: Job, index: Index, here: Situation) -> Situation:
        look = self._foresight if here.state is TaskState.WAITING else None
        if look is None:
            return here
        return structs.replace(here, ahead=look.ahead(self._state, job, index))

    def _situation(self, job: Job, index: Index) -> Situation:
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
            may_return=retryable(job, index) and may_come_back(job),
        )
        if task is not None:
            here = structs.replace(
                here, failures=task.failures, losses=task.losses, worker=task.worker,
                since=task.started_at, wanted=task.wanted, owed=self._owed(task),
                served=self._served(job, task),
            )  # fmt: skip
        return here if state is not TaskState.WAITING else self._waiting(here, job, index)

    def _served(self, job: Job, task: Task) -> Serving | None:
        """How a replica of a service stands, as its worker told it."""
        if job.service is None or self._crew is None or not task.lease_id:
            return None
        return self._crew.serving(task.lease_id)

    def key(self, job: Job) -> str:
        """The code of the most telling reason why the next waiting task of a job waits, or else
        why one that has committed is not done; empty where there is neither."""
        if is_finished(job):
            return ""
        if FRESH in job.states:
            return self._code(self._situation(job, Index(first_fresh(job, 0))))
        some = list(islice((job.tasks or {}).values(), MOST_LOOKED))
        told = next((task for task in some if task.state is TaskState.WAITING), None)
        if told is None:
            told = max((task for task in some if task.owed), key=trouble_of, default=None)
        return "" if told is None else self._code(self._situation(job, told.index))

    def codes(self, job: Job) -> Counter[str]:
        """The waiting tasks of a job counted by the most telling reason of each."""
        found = self._fresh_codes(job)
        if found is not None:
            return found
        found = Counter()
        for count, index in alike(job, self._now):
            if state_of(job, index) is TaskState.WAITING:
                for group in self._split(job, index, count):
                    found[self._code(group.situation)] += group.count
        return found

    def _fresh_codes(self, job: Job) -> Counter[str] | None:
        """The same where the job is like every other of its row, and the row was looked at before:
        a hundred thousand jobs of one shape are one look. None where it is not like them."""
        if job.tasks or job.blocked or not is_begun(job, self._now) or has_own_slots(job):
            return None
        fresh = job.states.count(FRESH)
        if not fresh:
            return Counter()
        key = (job.spec.priority, shape_of(job))
        look = self._foresight
        placed = len(look.placed.get(job.job_id, ())) if look is not None else 0
        if key not in self._rows:
            here = self._situation(job, Index(first_fresh(job, 0)))
            self._rows[key] = self._code(structs.replace(here, is_next=False))
        # What was placed may have gone meanwhile, and a count below nothing is none.
        return +Counter({"next": placed, self._rows[key]: fresh - placed})

    def _split(self, job: Job, index: Index, count: int) -> Iterator[Group]:
        """Of tasks that are alike, those that are next and the others."""
        here = self._situation(job, index)
        look = self._foresight if here.state is TaskState.WAITING else None
        placed = look.placed.get(job.job_id, ()) if look is not None else ()
        kind = kind_of(job, index, self._now)
        starting = sum(kind_of(job, each, self._now) == kind for each in placed)
        if starting:
            yield Group(starting, structs.replace(here, is_next=True))
        if count > starting:
            yield Group(count - starting, structs.replace(here, is_next=False))

    def _code(self, here: Situation) -> str:
        """The code that all reasons begin with. What the workers have to do with it is found
        out once for all tasks of a shape: there may be very many of both."""
        if here.is_next or here.state is TaskState.COMMITTED:
            return explain(here)[0].code
        own = next(own_reasons(here), None)
        if own is not None:
            return own.code
        if here.shape is None or here.troop is not None or here.ends_on:
            return explain(here)[0].code
        key = (here.shape, here.avoid)
        if key not in self._codes:
            unknown = here.desks is None
            self._codes[key] = "workers_unknown" if unknown else first_code(here.desks or (), *key)
        return self._codes[key] or in_line(here).code

    def whole(self, job: Job) -> JobSituation:
        if is_finished(job):
            return self._ended(job)
        found = tuple(
            Group(group.count, self._placed(job, index, group.situation))
            for count, index in alike(job, self._now, partial(self._served, job))
            for group in self._split(job, index, count)
        )
        is_service = job.service is not None
        return JobSituation(
            job_id=job.job_id, sealed=job.sealed, is_service=is_service, groups=found
        )

    def _ended(self, job: Job) -> JobSituation:
        """How a job ended; where that was not well, a task that shows it, or what it came
        after."""
        here = JobSituation(
            job_id=job.job_id, ended=job_state(job).value, reason=job_reason(job),
            may_return=may_come_back(job),
        )  # fmt: skip
        bad = (TaskState.UNSCHEDULABLE, TaskState.QUARANTINED)
        found = (job.states.find(state) for state in bad)
        worst = next((Index(index) for index in found if index >= 0), None)
        if worst is not None:
            name, place = task_name(job.job_id, worst), last_end(job, worst)
            return structs.replace(here, example=name, ended_at=place)
        dead = [f"the {tie.condition} of {tie.name}" for tie in self._ties(job) if tie.is_dead]
        return structs.replace(here, how=f"it came after {listed(dead)}") if dead else here

    def _waiting(self, here: Situation, job: Job, index: Index) -> Situation:
        shape, task = shape_of(job), (job.tasks or {}).get(index)
        paused = self._state.paused.get(job.spec.queue)
        here = structs.replace(
            here,
            shape=shape,
            pause=None if paused is None else Pause(paused),
            circuit=self._state.circuits.get((FUNCTION, shape.circuit)),
            active=self._active(job, shape),
            is_granting=self._crew is None or self._crew.is_granting,
            suspended=self._state.suspended,
            withheld="" if self._crew is None else self._crew.withheld,
            desks=self.desks,
            ties=tuple(self._ties(job)),
            fate=job.fate,
            reached=tuple(self._reached(shape, job.count if job.spec.placing.gang else 1)),
            avoid=self._avoided(shape, job, task),
            replica=job.service.replicas.get(index) if job.service is not None else None,
            troop=self._troop(job, shape),
        )
        look = self._foresight
        if look is None:
            return here
        return structs.replace(
            here,
            is_next=look.is_next(job, index),
            before=look.before(job),
            ends_on=look.ends_on(job),
        )

    def _owed(self, task: Task) -> tuple[Standing, ...]:
        debts = self._state.debts
        names = (DebtName(task.job_id, task.index, debt.number) for debt in task.owed)
        found = (debts.find(name) for name in names)
        return tuple(self.standing(owing) for owing in found if owing is not None)

    def standing(self, owing: Owing) -> Standing:
        """How something that a commit owes stands."""
        return self._standings(owing)

    @cached_property
    def _standings(self) -> Callable[[Owing], Standing]:
        if self._crew is None:
            return noted_standings(self._state, self._now)
        return self._crew.standings()

    def _ties(self, job: Job) -> Iterator[Tie]:
        for after in job.after if job.blocked else ():
            stands = verdict(self._state, after)
            if stands is not Verdict.HOLDS:
                is_dead = stands is Verdict.DEAD
                cure = after.job_id if is_dead and is_curable(self._state, after) else ""
                yield Tie(after.name, after.condition, is_dead, cure)

    def _active(self, job: Job, shape: Shape) -> int:
        """What was ended and still runs somewhere counts, too."""
        return max(job.active, self._held.get(shape, 0)) if job.spec.max_parallel else job.active

    def _reached(self, shape: Shape, needed: int) -> Iterator[Reached]:
        ledger = self._ledger
        for bound in ledger.bounds(shape) if ledger.is_bounded(shape) else ():
            # A circuit is told of on its own, with why it is open.
            if bound.room >= needed or bound.name[0] == CIRCUIT:
                continue
            if not bound.is_rate:
                yield Reached(bound, self._holders(bound.name))
                continue
            limit = self._state.limits[bound.name]
            frees = None if self._crew is None else self._crew.next_start_ms(bound.name)
            yield Reached(bound, (), rate_text(limit.starts, limit.per_ms), frees)

    def _holders(self, name: Name) -> tuple[tuple[str, int], ...]:
        """The jobs that hold what a bound allows, those with most first; found once."""
        if name in self._holding:
            return self._holding[name]
        held: Counter[str] = Counter()
        for holder in self._state.holders.values():
            for task in holder.leases.values():
                if name in names_of(shape_of(self._state.jobs[task.job_id])):
                    held[task.job_id] += 1
        self._holding[name] = tuple(held.most_common(MOST_HOLDERS))
        return self._holding[name]

    def _avoided(self, shape: Shape, job: Job, task: Task | None) -> frozenset[WorkerId]:
        """The worker that failed it, or those where its service fell, while another would do."""
        there = shunned_by(self._state, self._now, job)
        if task is not None and task.avoid:
            there |= {task.avoid}
        if not there or self.desks is None:
            return frozenset()
        seats = [desk.seat for desk in self.desks if desk.standing == OPEN]
        return there if suits_elsewhere(seats, shape, there) else frozenset()

    def _troop(self, job: Job, shape: Shape) -> Troop | None:
        if not job.spec.placing.gang:
            return None
        by = job.spec.placing.gang_by
        seats = [desk.seat for desk in self.desks or () if desk.standing == OPEN]
        able = [seat for seat in seats if suits(seat, shape)]
        rooms = [
            (
                sum(seat.free.room(shape, len(seat.open_slots)) for seat in group),
                sum(seat.total.room(shape, len(seat.slots)) for seat in group),
            )
            for group in groups(able, by)
        ]
        return Troop(
            job.count,
            len(take(job, self._now, job.count)),
            max((room for room, _ in rooms), default=0),
            by,
            max((most for _, most in rooms), default=0),
        )

    @cached_property
    def _foresight(self) -> Foresight | None:
        if self._crew is None:
            return None
        guest = self._guest
        is_asking = (
            guest is not None
            and has_leasable(guest, self._now)
            and guest.spec.queue not in self._state.paused
        )
        rows = (row_of(guest, self._now),) if guest is not None and is_asking else ()
        return Foresight(self._crew.outlook(rows))

    @cached_property
    def _held(self) -> Mapping[Shape, int]:
        return held_by_all(self._state, () if self._crew is None else self._crew.workers())

    @cached_property
    def _ledger(self) -> Ledger:
        tokens = {} if self._crew is None else self._crew.tokens()
        return ledger_of(self._state, tokens, self._held)

    @cached_property
    def desks(self) -> tuple[Desk, ...] | None:
        crew = self._crew
        if crew is None:
            return None
        return tuple(
            Desk(
                worker.seat(self._state),
                crew.standing(worker),
                self._frees_ms(crew, worker),
                worker.capacity.slots,
            )
            for worker in crew.workers()
        )

    def _frees_ms(self, crew: Crew, worker: Worker) -> int | None:
        """When something there may end, if tasks of its kind have shown how long they take."""
        holder = self._state.holders.get((worker.worker, worker.incarnation))
        left: list[int] = []
        for task in holder.leases.values() if holder is not None else ():
            mean = crew.paces.mean_ms(self._state.jobs[task.job_id].spec)
            if mean is not None and task.started_at != NEVER:
                left.append(max(0, mean - (self._now - task.started_at)))
        return min(left, default=None)


def why_of(job: Job, key: Callable[[Job], str]) -> str | None:
    """Why a job in a list is as it is: how it ended, or what it waits for. Nobody is asked where
    nothing of it waits."""
    if is_finished(job):
        return job_reason(job) or None
    return key(job) or None
