"""Folds of the events about tenure: granted, started, renewed, lost with the worker."""

from holdfast.core import events as e
from holdfast.core.errors import BrokenInvariant, ImpossibleEvent
from holdfast.core.ids import NEVER, Index, Instant, LeaseId, Position
from holdfast.core.job import Job, state_of
from holdfast.core.ready import settle
from holdfast.core.state import State
from holdfast.core.task import ASIDE, FRESH, TRANSITIONS, Task, TaskState

_LEASED = TRANSITIONS[TaskState.WAITING][e.LeasesGranted]
_RUNNING = TRANSITIONS[TaskState.LEASED][e.AttemptsStarted]


def leases_granted(state: State, event: e.LeasesGranted, position: Position, at: Instant) -> None:
    job = state.job_of(event.job_id)
    if event.first_lease < state.next_lease:
        raise BrokenInvariant(f"lease {event.first_lease} was granted twice")
    if not len(event.attempts) == len(event.indices) == len(set(event.indices)):
        raise ImpossibleEvent(f"job {job.job_id}", "named twice over", event)
    states, total = job.states, len(job.states)
    for index in event.indices:
        if not 0 <= index < total or (states[index] != FRESH and states[index] != ASIDE):
            raise ImpossibleEvent(f"task {job.job_id}/{index}", _state_name(job, index), event)
    tasks = job.tasks
    if tasks is None:
        tasks = job.tasks = {}
    holder = state.holder(event.worker, event.incarnation)
    leases, job_id = holder.leases, job.job_id
    worker, incarnation, slot, expires_at = (
        event.worker, event.incarnation, event.slot, event.expires_at,
    )  # fmt: skip
    lease_id = event.first_lease
    for index, attempt in zip(event.indices, event.attempts, strict=True):
        if states[index] == FRESH:
            task = Task(
                job_id, index, _LEASED, attempt, lease_id, worker, incarnation, slot,
                position, NEVER, expires_at,
            )  # fmt: skip
            tasks[index] = task
        else:
            task = tasks[index]
            task.state = _LEASED
            task.attempt = attempt
            task.lease_id = lease_id
            task.worker = worker
            task.incarnation = incarnation
            task.slot = slot
            task.granted = position
            task.expires_at = expires_at
        leases[lease_id] = task
        states[index] = _LEASED
        lease_id = LeaseId(lease_id + 1)
    holder.load[slot] = holder.load.get(slot, 0) + len(event.indices)
    if expires_at != NEVER and (holder.soonest == NEVER or expires_at < holder.soonest):
        holder.soonest = expires_at
    state.next_lease = lease_id
    job.active += len(event.indices)
    job.updated_at = at
    settle(job)


def attempts_started(
    state: State, event: e.AttemptsStarted, position: Position, at: Instant
) -> None:
    job = state.job_of(event.job_id)
    tasks, states = job.tasks or {}, job.states
    begun: dict[Index, Task] = {}
    for start in event.starts:
        task = tasks.get(start.index)
        if (
            task is None
            or task.state is not TaskState.LEASED
            or task.lease_id != start.lease_id
            or start.index in begun
        ):
            raise ImpossibleEvent(
                f"task {job.job_id}/{start.index}", _state_name(job, start.index), event
            )
        begun[start.index] = task
    for start in event.starts:
        task = begun[start.index]
        task.state = _RUNNING
        task.started_at = start.started_at
        states[start.index] = _RUNNING
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


def worker_lost(state: State, event: e.WorkerLost, position: Position, at: Instant) -> None:
    """The attempts end by events of their own, in the same record: nothing is left to move."""
    holder = state.holders.get((event.worker, event.incarnation))
    if holder is not None and holder.leases:
        raise ImpossibleEvent(f"worker {event.worker}", "still holding leases", event)


def _state_name(job: Job, index: Index) -> str:
    return state_of(job, index).name if 0 <= index < job.count else "unknown"
