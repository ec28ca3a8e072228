"""Folds of the events about tenure: granted, started, renewed, lost with the worker."""

from holdfast.core import events as e
from holdfast.core.errors import BrokenInvariant, ImpossibleEvent
from holdfast.core.ids import NEVER, Index, Instant, LeaseId, Position
from holdfast.core.job import Job, is_fresh_run, state_of
from holdfast.core.ready import bound_waits, put_back, settle
from holdfast.core.state import State
from holdfast.core.task import ASIDE, FRESH, TRANSITIONS, Task, TaskState

_LEASED = TRANSITIONS[TaskState.WAITING][e.LeasesGranted]
_RUNNING = TRANSITIONS[TaskState.LEASED][e.AttemptsStarted]


def leases_granted(state: State, event: e.LeasesGranted, position: Position, at: Instant) -> None:
    job = state.job_of(event.job_id)
    count = len(event.indices)
    if job.blocked:
        raise ImpossibleEvent(f"job {job.job_id}", "blocked", event)
    if event.first_lease < state.next_lease:
        raise BrokenInvariant(f"lease {event.first_lease} was granted twice")
    if len(event.attempts) != count:
        raise ImpossibleEvent(f"job {job.job_id}", "named in two lengths", event)
    granted = _fresh_run(job, event, position) or _one_by_one(job, event, position)
    if event.rank:
        for task in granted:
            task.rank = event.rank
    holder = state.holder(event.worker, event.incarnation)
    holder.leases.update(zip(e.lease_ids(event), granted, strict=True))
    holder.load[event.slot] = holder.load.get(event.slot, 0) + count
    holder.changes += 1
    expires_at = event.expires_at
    if expires_at != NEVER and (holder.soonest == NEVER or expires_at < holder.soonest):
        holder.soonest = expires_at
    state.next_lease = LeaseId(event.first_lease + count)
    job.active += count
    job.updated_at = at
    settle(job)


def _fresh_run(job: Job, event: e.LeasesGranted, position: Position) -> list[Task]:
    """The usual grant: neighbours that never were leased. Nothing where it is another."""
    if not is_fresh_run(job, event.indices):
        return []
    job_id, worker, incarnation, slot = job.job_id, event.worker, event.incarnation, event.slot
    leased, expires_at = _LEASED, event.expires_at
    granted = [
        Task(
            job_id, index, leased, attempt, lease_id, worker, incarnation, slot,
            position, NEVER, expires_at,
        )
        for index, attempt, lease_id in zip(
            event.indices, event.attempts, e.lease_ids(event), strict=True
        )
    ]  # fmt: skip
    if job.tasks is None:
        job.tasks = {}
    job.tasks.update(zip(event.indices, granted, strict=True))
    first = event.indices[0]
    job.states[first : first + len(granted)] = bytes((leased,)) * len(granted)
    return granted


def _one_by_one(job: Job, event: e.LeasesGranted, position: Position) -> list[Task]:
    """Any grant, each task looked at, all of them before the first is moved."""
    states, total = job.states, len(job.states)
    if len(set(event.indices)) != len(event.indices):
        raise ImpossibleEvent(f"job {job.job_id}", "named twice over", event)
    for index in event.indices:
        if not 0 <= index < total or (states[index] != FRESH and states[index] != ASIDE):
            raise ImpossibleEvent(f"task {job.job_id}/{index}", _state_name(job, index), event)
    tasks = job.tasks = {} if job.tasks is None else job.tasks
    granted: list[Task] = []
    for index, attempt, lease_id in zip(
        event.indices, event.attempts, e.lease_ids(event), strict=True
    ):
        task = tasks.get(index)
        if task is None:
            task = tasks[index] = Task(job.job_id, index)
        task.state = _LEASED
        task.attempt = attempt
        task.lease_id = lease_id
        task.worker = event.worker
        task.incarnation = event.incarnation
        task.slot = event.slot
        task.granted = position
        task.expires_at = event.expires_at
        states[index] = _LEASED
        granted.append(task)
    return granted


def attempts_started(
    state: State, event: e.AttemptsStarted, position: Position, at: Instant
) -> None:
    job = state.job_of(event.job_id)
    tasks, states, leased = job.tasks or {}, job.states, _LEASED
    begun: dict[Index, Task] = {}
    for start in event.starts:
        index = start.index
        task = tasks.get(index)
        if task is None or task.state is not leased or task.lease_id != start.lease_id:
            raise ImpossibleEvent(f"task {job.job_id}/{index}", _state_name(job, index), event)
        begun[index] = task
    if len(begun) != len(event.starts):
        raise ImpossibleEvent(f"job {job.job_id}", "named twice over", event)
    running = _RUNNING
    for start, task in zip(event.starts, begun.values(), strict=True):
        task.state = running
        task.started_at = start.started_at
        states[start.index] = running
    job.ever_started = True
    job.updated_at = at


def leases_extended(
    state: State, event: e.LeasesExtended, position: Position, at: Instant
) -> None:
    holder = state.holders.get((event.worker, event.incarnation))
    if holder is None:
        return  # It names no lease: what has ended is not among those it reaches.
    exceptions = frozenset(event.exceptions)
    timed = [task for task in holder.leases.values() if task.expires_at != NEVER]
    renewed = [task for task in timed if task.lease_id not in exceptions]
    for task in renewed:
        if event.until < task.expires_at:
            raise BrokenInvariant(f"lease {task.lease_id} would be shortened by a renewal")
    for task in renewed:
        task.expires_at = event.until
    holder.find_soonest()


def leases_rearmed(state: State, event: e.LeasesRearmed, position: Position, at: Instant) -> None:
    for holder in state.holders.values():
        for task in holder.leases.values():
            if task.expires_at != NEVER and task.expires_at < event.until:
                task.expires_at = event.until
        holder.find_soonest()
    for job in state.jobs.values() if event.waits_from else ():
        for task in bound_waits(job, event.waits_from):
            until = min(Instant(at + task.not_before - event.waits_from), event.until)
            if until > task.not_before:
                task.not_before = until
                put_back(state.ready, job, task, at)


def worker_lost(state: State, event: e.WorkerLost, position: Position, at: Instant) -> None:
    """The attempts end by events of their own, in the same record: nothing is left to move."""
    holder = state.holders.get((event.worker, event.incarnation))
    if holder is not None and holder.leases:
        raise ImpossibleEvent(f"worker {event.worker}", "still holding leases", event)


def _state_name(job: Job, index: Index) -> str:
    return state_of(job, index).name if 0 <= index < job.count else "unknown"
