"""Why a task, or a job, is where it is, from what the coordinator knows now."""

import asyncio
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from msgspec import structs

from holdfast.api.call import Answer, Call, job_of
from holdfast.api.tasks import JobPast, copied, index_of, with_task
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.history import task_detail
from holdfast.coordinator.inspect import HistoryGone
from holdfast.coordinator.seats import Worker
from holdfast.coordinator.serving import Served
from holdfast.coordinator.views import attempts_made, rfc3339
from holdfast.core import events as e
from holdfast.core.ids import NEVER, Index, Instant, JobId, Position, task_name
from holdfast.core.job import Job, first_fresh, is_finished, job_reason, job_state, state_of
from holdfast.core.task import FINISHED, FRESH, Task, TaskState
from holdfast.scheduler.explain import (
    CORDONED,
    DRAINING,
    OPEN,
    SILENT,
    Desk,
    Group,
    JobSituation,
    Pause,
    Reason,
    Situation,
    explain,
)
from holdfast.scheduler.explain import explain_job as explain_whole

View = dict[str, Any]

MOST_TASKS: Final = 10_000
"""How many tasks with a past are looked at for one job."""
MOST_READ: Final = 5_000
"""How far back it is looked up who paused a queue."""


async def explain_task(call: Call) -> Answer:
    """Why a task is where it is: what holds it up, who holds it, or how it ended."""
    index = index_of(call)

    def look(coordinator: Coordinator) -> tuple[Situation, Job, Position]:
        job = with_task(coordinator.state, call, index)
        here = _Surroundings(call, coordinator).situation(job, index)
        return here, copied(job, index), coordinator.state.position

    here, job, last = await call.ask(look)
    whole = await asyncio.to_thread(_completed, call, here, job, index, last)
    return Answer(
        {
            "schema": 1,
            "id": whole.task,
            "state": whole.state.name,
            "reasons": [_view(reason) for reason in explain(whole)],
        }
    )


async def explain_job(call: Call) -> Answer:
    """Why a job is where it is: each reason once, with how many of its tasks it is about."""
    job_id = JobId(call.path["id"])

    def look(coordinator: Coordinator) -> tuple[JobSituation, str, Position]:
        job = job_of(coordinator.state, job_id)
        state = job_state(job).value
        here = _Surroundings(call, coordinator).whole(job)
        return here, state, coordinator.state.position

    here, state, last = await call.ask(look)
    groups = await asyncio.to_thread(_attributed, call.service.served, here.groups, last)
    whole = structs.replace(here, groups=groups)
    told = [
        {**_view(reason), "tasks": reason.tasks or None, "example": reason.example or None}
        for reason in explain_whole(whole)
    ]
    return Answer({"schema": 1, "id": job_id, "state": state, "reasons": told})


def _view(reason: Reason) -> View:
    return {
        "code": reason.code,
        "sentence": reason.sentence,
        "command": reason.command or None,
        "until": None if reason.until == NEVER else rfc3339(reason.until),
    }


class _Surroundings:
    """What is the same for every task that is looked at in one moment."""

    def __init__(self, call: Call, coordinator: Coordinator) -> None:
        self._state = coordinator.state
        self._now = coordinator.now()
        self._wall = coordinator.clock.wall()
        self._exchanges = call.service.served.exchanges
        self._desks: tuple[Desk, ...] | None = None

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
        if state is not TaskState.WAITING:
            return here
        paused = self._state.paused.get(job.spec.queue)
        return structs.replace(
            here,
            pause=None if paused is None else Pause(paused),
            active=job.active,
            is_granting=self._exchanges.granting,
            desks=self.desks(),
        )

    def whole(self, job: Job) -> JobSituation:
        if is_finished(job):
            return JobSituation(
                job_id=job.job_id, ended=job_state(job).value, reason=job_reason(job)
            )
        groups = tuple(
            Group(count, self.situation(job, index))
            for count, index in _groups(job, self._now)
            if count
        )
        return JobSituation(job_id=job.job_id, sealed=job.sealed, groups=groups)

    def desks(self) -> tuple[Desk, ...]:
        if self._desks is None:
            known = self._exchanges.workers.values()
            self._desks = tuple(self._desk(worker) for worker in known if not worker.has_left)
        return self._desks

    def _desk(self, worker: Worker) -> Desk:
        seat = worker.seat(self._state)
        return Desk(
            name=worker.worker,
            standing=self._standing(worker),
            slots=worker.capacity.slots,
            cpus_milli=worker.capacity.cpus_milli,
            memory_bytes=worker.capacity.memory_bytes,
            gpus=worker.capacity.gpus,
            free_slots=sum(slot.shape is None for slot in seat.slots),
            free_cpus_milli=seat.cpus_milli,
            free_memory_bytes=seat.memory_bytes,
            free_gpus=seat.gpus,
        )

    def _standing(self, worker: Worker) -> str:
        if not self._exchanges.registry.is_alive(worker):
            return SILENT
        if worker.draining:
            return DRAINING
        return CORDONED if worker.worker in self._state.cordoned else OPEN


def _groups(job: Job, now: Instant) -> Iterator[tuple[int, Index]]:
    """The unfinished tasks of a job by what they have in common, each group with one of it. Of
    those that come back later, the first to do so."""
    fresh = job.states.count(FRESH)
    if fresh:
        yield fresh, Index(first_fresh(job, 0))
    kinds: dict[object, list[Task]] = {}
    for task in islice((job.tasks or {}).values(), MOST_TASKS):
        waits = (task.not_before > now, task.not_before_wall != NEVER)
        kind = (task.state, waits if task.state is TaskState.WAITING else None)
        kinds.setdefault(kind, []).append(task)
    for tasks in kinds.values():
        first = min(tasks, key=lambda task: (task.not_before, task.not_before_wall))
        yield len(tasks), first.index


def _completed(
    call: Call, here: Situation, job: Job, index: Index, last: Position
) -> Situation:
    """The same with what only the log knows: who paused, since when it is held, how it ended."""
    if here.pause is not None:
        return structs.replace(here, pause=_paused(call.service.served, here, last))
    if here.state in FINISHED:
        return structs.replace(here, how=_how(task_detail(JobPast(call, job), job, index)))
    task = (job.tasks or {}).get(index)
    if here.state is TaskState.LEASED and task is not None:
        try:
            return structs.replace(here, since=call.service.served.told(task.granted).record.at)
        except HistoryGone:
            return here
    return here


def _attributed(
    served: Served, groups: tuple[Group, ...], last: Position
) -> tuple[Group, ...]:
    """The same with who paused the queue of a job: all its tasks are in the same one."""
    paused = next((group.situation for group in groups if group.situation.pause), None)
    if paused is None:
        return groups
    pause = _paused(served, paused, last)
    return tuple(
        Group(group.count, structs.replace(group.situation, pause=pause))
        if group.situation.pause is not None
        else group
        for group in groups
    )


def _paused(served: Served, here: Situation, last: Position) -> Pause | None:
    """The pause with who wanted it, where the log has that not too long ago."""
    pause = here.pause
    try:
        for told in served.history(max(served.log.oldest, last - MOST_READ + 1), last):
            for event in told.record.events:
                if isinstance(event, e.QueuePaused) and event.queue == here.spec.queue:
                    pause = Pause(event.reason, told.record.actor)
    except (HistoryGone, FileNotFoundError):
        # Old history is dropped while it is read; what was found is true.
        pass
    return pause


def _how(detail: View) -> str:
    """`failed: ValueError: no` of a task as it is shown."""
    error = str(detail["error"] or "").strip().splitlines()
    return ": ".join(filter(None, (detail["reason"], error[0] if error else "")))
