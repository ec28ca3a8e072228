"""Folds of the events about jobs: submitted, fed, sealed, cancelled, moved in time, retried,
unblocked, forgotten."""

from collections.abc import Iterable

from holdfast.core import events as e
from holdfast.core.errors import BrokenInvariant, ImpossibleEvent
from holdfast.core.ids import NEVER, Index, Instant, LeaseId, Position
from holdfast.core.job import (
    BY_PERSON,
    Job,
    columns,
    first_fresh,
    is_finished,
    let_go_of_payloads,
    retryable,
    state_of,
)
from holdfast.core.ready import has_leasable, put_back
from holdfast.core.service import Service
from holdfast.core.spec import JobSpec
from holdfast.core.state import State, SubmitKey
from holdfast.core.task import (
    ASIDE,
    FRESH,
    TRANSITIONS,
    Task,
    TaskState,
    target_of,
)
from holdfast.core.ties import note_end, note_tasks, tie, untie


def made_from(event: e.JobSubmitted, spec: JobSpec, position: Position, at: Instant) -> Job:
    """The job that this makes true, with all its tasks fresh; nobody knows of it yet."""
    is_array = not event.items and event.count > 0
    return Job(
        job_id=event.job_id,
        spec=spec,
        position=position,
        created_at=at,
        updated_at=at,
        states=bytearray(event.count),
        payloads=None if is_array else list(event.items),
        shared=event.shared,
        key=event.key,
        digest=event.digest,
        unfinished=event.count,
        sealed=event.sealed,
        not_before=event.not_before,
        not_before_wall=event.not_before_wall,
        times_out_at=event.times_out_at,
        deadline_wall=event.deadline_wall,
        schedule_by=event.schedule_by,
        after=event.after,
        blocked=bool(event.after),
        fate=event.fate,
        parent=event.parent,
        detached=event.detached,
        service=Service(event.job_id) if spec.service.restarts else None,
    )


def job_submitted(state: State, event: e.JobSubmitted, position: Position, at: Instant) -> None:
    if event.job_id in state.jobs:
        raise BrokenInvariant(f"job {event.job_id} was submitted twice")
    for after in event.after:
        state.job_of(after.job_id)
    job = made_from(event, state.shared_spec(event.spec), position, at)
    state.jobs[event.job_id] = job
    if event.job_id.isascii() and event.job_id.isdigit():
        state.next_job = max(state.next_job, int(event.job_id) + 1)
    if event.key:
        _take_key(state, event.key)
        state.keys[event.key] = SubmitKey(event.job_id, event.digest, at)
    if not event.sealed:
        state.open_jobs[event.job_id] = None
    state.set_timer(job, event.times_out_at)
    state.set_timer(job, event.schedule_by)
    state.set_wall_timer(job, event.deadline_wall)
    state.set_wall_timer(job, event.not_before_wall)
    if event.after or event.parent:
        tie(state, job)
    offer(state, job, at)
    note_finish(state, job)


def _take_key(state: State, key: str) -> None:
    """A key finds one job: where it was another's, that one is no longer found by it. Keys stand in
    the order of their submissions, also one that was used before."""
    known = state.keys.pop(key, None)
    former = state.jobs.get(known.job_id) if known is not None else None
    if former is not None:
        former.key = ""


def job_unblocked(state: State, event: e.JobUnblocked, position: Position, at: Instant) -> None:
    job = state.job_of(event.job_id)
    if not job.blocked or is_finished(job):
        raise ImpossibleEvent(f"job {job.job_id}", "not blocked", event)
    job.blocked = False
    job.schedule_by = event.schedule_by
    job.updated_at = at
    untie(state, job)
    state.set_timer(job, event.schedule_by)
    offer(state, job, at)
    # What came back, or was moved in time, while the job was blocked.
    if has_leasable(job, at):
        state.ready.offer(job)


def job_respecified(
    state: State, event: e.JobRespecified, position: Position, at: Instant
) -> None:
    job = state.job_of(event.job_id)
    if not is_finished(job):
        raise ImpossibleEvent(f"job {job.job_id}", "unfinished", event)
    # A finished job may not have left its line yet, and its next one may be another.
    state.ready.withdraw(job)
    job.spec = state.shared_spec(event.spec)


def tasks_added(state: State, event: e.TasksAdded, position: Position, at: Instant) -> None:
    job = state.job_of(event.job_id)
    if job.sealed or job.payloads is None or event.first != job.count:
        raise ImpossibleEvent(f"job {job.job_id}", f"at item {job.count}", event)
    job.payloads.extend(event.items)
    job.states.extend(bytes(len(event.items)))
    job.chunks = (*job.chunks, (event.first, position))
    job.unfinished += len(event.items)
    job.digest = event.digest
    job.updated_at = at
    offer(state, job, at)


def job_sealed(state: State, event: e.JobSealed, position: Position, at: Instant) -> None:
    job = state.job_of(event.job_id)
    if job.sealed or event.count != job.count:
        raise ImpossibleEvent(f"job {job.job_id}", f"at item {job.count}", event)
    job.interrupted = event.interrupted
    _seal(state, job, at)


def job_cancelled(state: State, event: e.JobCancelled, position: Position, at: Instant) -> None:
    job = state.job_of(event.job_id)
    if is_finished(job):
        raise ImpossibleEvent(f"job {job.job_id}", "finished", event)
    # A person's will stands over whatever rule had stopped the job before.
    if job.cause not in BY_PERSON:
        job.cause = event.cause
    if not job.sealed:
        _seal(state, job, at)


def task_rescheduled(
    state: State, event: e.TaskRescheduled, position: Position, at: Instant
) -> None:
    job = state.job_of(event.job_id)
    task = _waiting_record(job, event.index, event)
    task.state = target_of(task, event)
    task.not_before, task.wanted = event.not_before, NEVER
    task.not_before_wall = event.not_before_wall
    job.updated_at = at
    if event.not_before_wall != NEVER:
        state.set_wall_timer(job, event.not_before_wall)
    put_back(state.ready, job, task, at)


def task_due(state: State, event: e.TaskDue, position: Position, at: Instant) -> None:
    job = state.job_of(event.job_id)
    known = (job.tasks or {}).get(event.index)
    if known is None or known.not_before_wall == NEVER:
        raise ImpossibleEvent(f"task {job.job_id}/{event.index}", "not dated", event)
    task = _waiting_record(job, event.index, event)
    task.state = target_of(task, event)
    task.not_before_wall = NEVER
    put_back(state.ready, job, task, at)


def job_due(state: State, event: e.JobDue, position: Position, at: Instant) -> None:
    job = state.job_of(event.job_id)
    if job.not_before_wall == NEVER:
        raise ImpossibleEvent(f"job {job.job_id}", "due already", event)
    job.not_before_wall = NEVER
    if job.not_before > at:
        state.ready.sleep(job, job.not_before)
    else:
        # Whatever waits: fresh tasks, and those that came back while the job was dated.
        state.ready.offer(job)


def tasks_retried(state: State, event: e.TasksRetried, position: Position, at: Instant) -> None:
    job = state.job_of(event.job_id)
    indices = indices_of(job, event)
    for index in indices:
        source = state_of(job, index)
        if e.TasksRetried not in TRANSITIONS[source] or not retryable(job, index):
            raise ImpossibleEvent(f"task {job.job_id}/{index}", source.name, event)
    if event.former and event.former != tuple(state_of(job, s.first) for s in event.spans):
        raise ImpossibleEvent(f"job {job.job_id}", "not what it says its tasks were", event)
    send_back(state, job, indices, event.generation, at)


def indices_of(job: Job, event: e.TasksRetried | e.TasksRestored) -> list[Index]:
    """The tasks that an event names in spans, each once and each of this job."""
    if not all(0 <= span.first <= span.last < job.count for span in event.spans):
        raise ImpossibleEvent(f"job {job.job_id}", f"of {job.count} tasks", event)
    indices = [Index(i) for span in event.spans for i in range(span.first, span.last + 1)]
    if len(dict.fromkeys(indices)) != len(indices):
        raise ImpossibleEvent(f"job {job.job_id}", "named twice over", event)
    return indices


def send_back(
    state: State,
    job: Job,
    indices: list[Index],
    generation: int,
    at: Instant,
    *,
    keeps_time: bool = False,
) -> None:
    """Finished tasks wait again with fresh budgets, in a new generation; each may. `keeps_time`:
    one that never had an attempt begins no sooner than its job was meant to."""
    if is_finished(job):
        state.finished.remove(job.job_id)
    attempts, ends = columns(job)
    tasks = job.tasks = job.tasks if job.tasks is not None else {}
    let_go_of_replicas(job, indices)
    for index in indices:
        if job.states[index] == TaskState.QUARANTINED:
            job.quarantined -= 1
        task = Task(
            job.job_id,
            index,
            attempt=attempts[index],
            previous=Position(ends[index]),
        )
        if keeps_time and not task.attempt:
            task.not_before, task.not_before_wall = job.not_before, job.not_before_wall
        tasks[index] = task
        job.states[index] = ASIDE
        put_back(state.ready, job, task, at)
    job.unfinished += len(indices)
    job.generation = generation
    job.cause = ""
    # The times of the first generation have passed; a retry is not meant to end by them at once.
    job.times_out_at = job.schedule_by = job.deadline_wall = NEVER
    if job.blocked or job.parent:
        tie(state, job)
    # The timer of a dated job may have gone while nothing of it was left to run.
    state.set_wall_timer(job, job.not_before_wall)
    job.updated_at = at


def let_go_of_replicas(job: Job, indices: Iterable[Index]) -> None:
    """How these fared does not matter any more: they are gone, or begin afresh."""
    if job.service is not None:
        for index in indices:
            job.service.replicas.pop(index, None)


def jobs_forgotten(state: State, event: e.JobsForgotten, position: Position, at: Instant) -> None:
    if len(dict.fromkeys(event.job_ids)) != len(event.job_ids):
        raise BrokenInvariant("a job was forgotten twice")
    for job_id in event.job_ids:
        if not is_finished(state.job_of(job_id)):
            raise ImpossibleEvent(f"job {job_id}", "unfinished", event)
    for job_id in event.job_ids:
        job = state.jobs.pop(job_id)
        state.storing.pop(job_id, None)
        if job.blocked:
            untie(state, job)
    gone = dict.fromkeys(event.job_ids)
    for _ in range(len(state.finished)):
        job_id = state.finished.popleft()
        if job_id not in gone:
            state.finished.append(job_id)


def keys_forgotten(state: State, event: e.KeysForgotten, position: Position, at: Instant) -> None:
    for key in event.keys:
        if key not in state.keys:
            raise BrokenInvariant(f"key {key!r} was forgotten twice")
    for key in event.keys:
        state.keys.pop(key, None)


def offer(state: State, job: Job, at: Instant) -> None:
    """Put a job with fresh tasks in line, now or when its own time comes: the tick records a
    calendar instant, the clock alone brings the other."""
    if job.cursor >= len(job.states) or job.not_before_wall != NEVER or job.blocked:
        return
    if job.not_before > at:
        state.ready.sleep(job, job.not_before)
    else:
        state.ready.offer(job)


def note_finish(state: State, job: Job) -> None:
    """Remember the order in which jobs ended, and let go of what only an unfinished one needs."""
    if not is_finished(job):
        return
    state.finished.append(job.job_id)
    state.retries_away.pop(job.job_id, None)
    if job.parent or state.dependents or state.children:
        note_end(state, job)
    job.due = job.later = None
    if not job.tasks:
        job.tasks = None
    let_go_of_payloads(job)


def _seal(state: State, job: Job, at: Instant) -> None:
    job.sealed = True
    job.updated_at = at
    state.open_jobs.pop(job.job_id, None)
    if state.awaited:
        # Who waits for a task that now will never come is told.
        note_tasks(state, job)
    note_finish(state, job)


def _waiting_record(job: Job, index: Index, event: e.Event) -> Task:
    """The record of a waiting task, made where it never had one."""
    if not 0 <= index < job.count:
        raise ImpossibleEvent(f"job {job.job_id}", f"of {job.count} tasks", event)
    cell = job.states[index]
    tasks = job.tasks = job.tasks if job.tasks is not None else {}
    if cell == FRESH:
        task = tasks[index] = Task(job.job_id, index, lease_id=LeaseId(0))
        job.states[index] = ASIDE
        job.cursor = first_fresh(job, job.cursor)
        return task
    if cell == ASIDE:
        return tasks[index]
    raise ImpossibleEvent(f"task {job.job_id}/{index}", state_of(job, index).name, event)
