"""Folds of the events that end an attempt, or a task without one."""

from collections.abc import Iterable

from holdfast.core import events as e
from holdfast.core.apply_jobs import let_go_of_replicas, note_finish
from holdfast.core.attempt import CHARGES_FAILURES, CHARGES_LOSSES_ONCE_STARTED, DEATHS
from holdfast.core.errors import ImpossibleEvent
from holdfast.core.ids import NEVER, NOWHERE, Index, Instant, LeaseId, Position, WorkerId
from holdfast.core.job import BY_PERSON, Job, columns, first_fresh, state_of
from holdfast.core.lease import Holder
from holdfast.core.owed import BLOCK, Author, Debt
from holdfast.core.ready import put_back
from holdfast.core.retrying import spend
from holdfast.core.service import Replica, note_fall, service_name
from holdfast.core.state import State
from holdfast.core.task import (
    ASIDE,
    FRESH,
    KILLED_BY_LIMIT,
    TRANSITIONS,
    Task,
    TaskState,
    target_of,
)
from holdfast.core.ties import note_tasks

_RUNNING = TaskState.RUNNING
_SUCCEEDED = TRANSITIONS[TaskState.RUNNING][e.TasksCompleted]
_WORKERS_DOING = CHARGES_FAILURES | CHARGES_LOSSES_ONCE_STARTED
"""Ends after which the next attempt had better be elsewhere."""


def tasks_completed(
    state: State, event: e.TasksCompleted, position: Position, at: Instant
) -> None:
    job = state.job_of(event.job_id)
    tasks, running = job.tasks or {}, _RUNNING
    holder = state.holders.get((event.worker, event.incarnation))
    if holder is None:
        raise ImpossibleEvent(f"worker {event.worker}", "without a lease", event)
    held = holder.leases
    ending: dict[Index, Task] = {}
    for commit in event.commits:
        index = commit.index
        task = tasks.get(index)
        if (
            task is None
            or task.state is not running
            or task.lease_id != commit.lease_id
            or held.get(commit.lease_id) is not task
        ):
            raise impossible(job, index, event)
        ending[index] = task
    if len(ending) != len(event.commits):
        raise ImpossibleEvent(f"job {job.job_id}", "named twice over", event)
    states, payloads, succeeded = job.states, job.payloads, _SUCCEEDED
    attempts, ends = columns(job)
    slots: list[int] = []
    for index, task in ending.items():
        del tasks[index]
        del held[task.lease_id]
        if task.endpoints:
            _close_endpoints(state, task)
        slots.append(task.slot)
        states[index] = succeeded
        attempts[index] = task.attempt
        ends[index] = position
        if payloads is not None:
            payloads[index] = None
    for commit in event.commits:
        if commit.stored is not None:
            state.remember_stored(job, commit.index, commit.stored)
    _empty_slots(state, holder, slots)
    job.active -= len(ending)
    if state.awaited:
        note_tasks(state, job, ending)
    finish(state, job, len(ending), at)


def _empty_slots(state: State, holder: Holder, slots: list[int]) -> None:
    """Leases left these slots; a holder goes with its last one."""
    holder.changes += 1
    for slot in dict.fromkeys(slots):
        left = holder.load[slot] - slots.count(slot)
        if left:
            holder.load[slot] = left
        else:
            del holder.load[slot]
    if not holder.leases:
        del state.holders[(holder.worker, holder.incarnation)]


def task_committed(state: State, event: e.TaskCommitted, position: Position, at: Instant) -> None:
    job = state.job_of(event.job_id)
    task = _leased(job, event.commit.index, event.commit.lease_id, event)
    target = target_of(task, event)
    if not event.owed:
        raise impossible(job, task.index, event)
    if any(entry.kind == BLOCK for entry in event.owed):
        task.author = Author(task.worker, task.incarnation, task.expires_at == NEVER)
    _let_go(state, task)
    task.state = target
    task.committed = position
    task.owed = tuple(
        Debt(number, entry.kind, entry.place, entry.key)
        for number, entry in enumerate(event.owed)
    )
    state.debts.add(task)
    if event.commit.stored is not None:
        state.remember_stored(job, task.index, event.commit.stored)
    job.states[task.index] = target
    if job.payloads is not None:
        job.payloads[task.index] = None
    job.active -= 1
    job.updated_at = at


def attempts_returned(
    state: State, event: e.AttemptsReturned, position: Position, at: Instant
) -> None:
    job = state.job_of(event.job_id)
    for task, end in _ending(job, event.ends, event):
        _let_go(state, task)
        if end.reason in _WORKERS_DOING and job.service is None:
            task.avoid = end.worker
        task.state = TaskState.WAITING
        task.failures = end.failures
        task.losses = end.losses
        task.strays = end.strays
        task.not_before, task.wanted = end.not_before, end.wanted
        task.alone = end.reason in DEATHS
        task.previous = position
        job.states[task.index] = ASIDE
        put_back(state.ready, job, task, at)
        if job.spec.retry_budget.retries and end.reason in CHARGES_FAILURES:
            away = state.retries_away.setdefault(job.job_id, [])
            spend(away, job.spec.retry_budget, end.not_before or at, at)
    if job.service is not None:
        _note_restarts(state, job, event.ends, at)
    job.active -= len(event.ends)
    job.updated_at = at


def _note_restarts(state: State, job: Job, ends: Iterable[e.End], at: Instant) -> None:
    """Replicas that ended by themselves: how often, and where."""
    replicas = job.service.replicas if job.service is not None else {}
    for end in ends:
        if not end.restarts:
            continue
        replica = replicas.setdefault(end.index, Replica())
        replica.restarts, replica.total = end.restarts, replica.total + 1
        replica.whole_at = Instant(at + end.whole_in_ms)
        note_fall(state.falls, service_name(job.spec), end.worker, at)


def tasks_quarantined(
    state: State, event: e.TasksQuarantined, position: Position, at: Instant
) -> None:
    job = state.job_of(event.job_id)
    for task, _ in _ending(job, event.ends, event):
        _let_go(state, task)
        retire(job, task, TaskState.QUARANTINED, position, keep_payload=True)
    if job.service is not None:
        _note_restarts(state, job, event.ends, at)
    job.active -= len(event.ends)
    job.quarantined += len(event.ends)
    if state.awaited:
        note_tasks(state, job, [end.index for end in event.ends])
    finish(state, job, len(event.ends), at)


def tasks_killed(state: State, event: e.TasksKilled, position: Position, at: Instant) -> None:
    job = state.job_of(event.job_id)
    by_person = event.cause in BY_PERSON
    cell = TaskState.KILLED if by_person else KILLED_BY_LIMIT
    _check_waiting(job, event.spans, event)
    for task, _ in _ending(job, event.ends, event):
        _let_go(state, task)
        retire(job, task, cell, position, keep_payload=not by_person)
    job.active -= len(event.ends)
    if job.service is not None:
        let_go_of_replicas(job, [end.index for end in event.ends])
        let_go_of_replicas(job, [i for s in event.spans for i in _indices(s)])
    finished = len(event.ends) + _close_waiting(job, event.spans, cell, position)
    if by_person and job.payloads is not None:
        for span in event.spans:
            job.payloads[span.first : span.last + 1] = [None] * (span.last + 1 - span.first)
    if state.awaited:
        note_tasks(state, job)
    finish(state, job, finished, at)


def _indices(span: e.Span) -> Iterable[Index]:
    return map(Index, range(span.first, span.last + 1))


def tasks_set_aside(
    state: State, event: e.TasksSetAside, position: Position, at: Instant
) -> None:
    job = state.job_of(event.job_id)
    _check_waiting(job, event.spans, event)
    for task, _ in _ending(job, event.ends, event):
        _let_go(state, task)
        retire(job, task, TaskState.QUARANTINED, position, keep_payload=True)
    job.active -= len(event.ends)
    closed = _close_waiting(job, event.spans, TaskState.QUARANTINED, position)
    finished = len(event.ends) + closed
    job.quarantined += finished
    if state.awaited:
        note_tasks(state, job)
    finish(state, job, finished, at)


def tasks_unschedulable(
    state: State, event: e.TasksUnschedulable, position: Position, at: Instant
) -> None:
    job = state.job_of(event.job_id)
    _check_waiting(job, event.spans, event)
    finished = _close_waiting(job, event.spans, TaskState.UNSCHEDULABLE, position)
    if state.awaited:
        note_tasks(state, job)
    finish(state, job, finished, at)


def finish(state: State, job: Job, finished: int, at: Instant) -> None:
    job.unfinished -= finished
    job.updated_at = at
    note_finish(state, job)


def retire(
    job: Job, task: Task, cell: int, position: Position, *, keep_payload: bool = False
) -> None:
    """The task needs no record any more: its cell and columns say it all."""
    attempts, ends = columns(job)
    if job.tasks is not None:
        del job.tasks[task.index]
    job.states[task.index] = cell
    attempts[task.index] = task.attempt
    ends[task.index] = position
    if job.payloads is not None and not keep_payload:
        job.payloads[task.index] = None


def _let_go(state: State, task: Task) -> None:
    """The lease ends with the attempt, and a holder with its last lease."""
    holder = state.holder(task.worker, task.incarnation)
    _close_endpoints(state, task)
    del holder.leases[task.lease_id]
    _empty_slots(state, holder, [task.slot])
    task.lease_id = LeaseId(0)
    task.worker = WorkerId("")
    task.incarnation = 0
    task.slot = 0
    task.rank = 0
    task.granted = NOWHERE
    task.started_at = NEVER
    task.expires_at = NEVER


def _close_endpoints(state: State, task: Task) -> None:
    """An attempt that has ended cannot be reached: no endpoint outlives its lease."""
    for endpoint in task.endpoints:
        state.drop_endpoint(endpoint.name, task.lease_id)
    task.endpoints = ()


def _check_waiting(job: Job, spans: Iterable[e.Span], event: e.Event) -> None:
    """Spans come in order and apart, over waiting tasks alone."""
    past = -1
    for span in spans:
        if not past < span.first <= span.last:
            raise impossible(job, span.first, event)
        past = span.last
        cells = job.states[span.first : span.last + 1]
        wanted = span.last + 1 - span.first
        if len(cells) != wanted or cells.count(FRESH) + cells.count(ASIDE) != wanted:
            raise impossible(job, span.first, event)


def _close_waiting(job: Job, spans: Iterable[e.Span], cell: int, position: Position) -> int:
    """Waiting tasks end without an attempt; a million of them in a few copies of memory."""
    closed = 0
    attempts, ends = columns(job)
    for span in spans:
        width = span.last + 1 - span.first
        closed += width
        for index in range(span.first, span.last + 1) if job.tasks else ():
            task = job.tasks.pop(Index(index), None) if job.tasks else None
            if task is not None:
                attempts[index] = task.attempt
        job.states[span.first : span.last + 1] = bytes([cell]) * width
        ends[span.first : span.last + 1] = type(ends)("Q", [position]) * width
    job.cursor = first_fresh(job, job.cursor)
    return closed


def _ending(
    job: Job, ends: tuple[e.End, ...], event: e.Event
) -> list[tuple[Task, e.End]]:
    """Each end with its task, all checked before any is moved."""
    _check_once(job, [end.index for end in ends], event)
    return [(_leased(job, end.index, end.lease_id, event), end) for end in ends]


def _check_once(job: Job, indices: list[Index], event: e.Event) -> None:
    """An event that names a task twice would count it twice."""
    if len(set(indices)) != len(indices):
        raise ImpossibleEvent(f"job {job.job_id}", "named twice over", event)


def _leased(job: Job, index: Index, lease_id: LeaseId, event: e.Event) -> Task:
    task = (job.tasks or {}).get(index)
    if task is None or task.lease_id != lease_id or lease_id == 0:
        raise impossible(job, index, event)
    target_of(task, event)
    return task


def impossible(job: Job, index: Index, event: e.Event) -> ImpossibleEvent:
    known = 0 <= index < job.count
    return ImpossibleEvent(
        f"task {job.job_id}/{index}", state_of(job, index).name if known else "unknown", event
    )
