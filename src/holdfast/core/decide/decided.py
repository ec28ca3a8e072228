"""What an operator, or a repair, decides of single tasks against the run of things."""

from collections.abc import Callable, Iterable, Sequence
from typing import cast

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.attempt import EndReason
from holdfast.core.decide.endings import end_of, pasts_of
from holdfast.core.decide.jobs import no_task, unknown
from holdfast.core.decide.operator import retry, spans_of
from holdfast.core.decision import Accepted, Decision, Reason, Refused
from holdfast.core.ids import Index, Instant, JobId, Position
from holdfast.core.job import Job, state_of
from holdfast.core.state import State
from holdfast.core.task import FINISHED, TaskState


def set_aside(state: State, command: c.SetAside, now: Instant) -> Decision:
    """Those that have finished are left; a task that committed cannot be put aside. A gang goes
    whole."""
    job = state.jobs.get(command.job_id)
    if job is None:
        return unknown(state, command.job_id)
    if command.cause not in c.ASIDE_CAUSES:
        told = f"no cause {command.cause[:20]!r}; there are {', '.join(c.ASIDE_CAUSES)}"
        return Refused(Reason.INVALID, told)
    for index in command.indices:
        if not 0 <= index < job.count:
            return no_task(job, index)
    named = range(job.count) if job.spec.placing.gang and command.indices else command.indices
    chosen: list[Index] = []
    for index in map(Index, sorted(set(named))):
        current = state_of(job, index)
        if current is TaskState.COMMITTED:
            told = f"task {job.job_id}/{index} has committed its result"
            return Refused(Reason.INVALID_TRANSITION, told)
        if current not in FINISHED:
            chosen.append(index)
    if not chosen:
        return Accepted((), 0)
    return Accepted((put_aside(job, chosen, command.cause, command.note, now),), len(chosen))


def purge(state: State, command: c.PurgeTasks, now: Instant) -> Decision:
    """Only what waits for an operator is given up, for a reason; a gang whole, since without a
    member it could never run again."""
    job = state.jobs.get(command.job_id)
    if job is None:
        return unknown(state, command.job_id)
    if not command.reason.strip():
        return Refused(Reason.INVALID, "tasks are given up for a reason")
    for index in command.indices:
        if not 0 <= index < job.count:
            return no_task(job, index)
    named = range(job.count) if job.spec.placing.gang and command.indices else command.indices
    indices = [Index(index) for index in sorted(set(named))]
    event = purged(job, indices, command.reason)
    return Accepted((event,), len(event.all)) if event.all else Accepted((), 0)


def purged(job: Job, indices: Sequence[Index], reason: str) -> e.TasksPurged:
    """The fact that those of these tasks which wait for an operator are given up; perhaps none."""
    return e.TasksPurged(
        job_id=job.job_id,
        purged=_ends_of(job, indices, TaskState.QUARANTINED),
        unplaced=_ends_of(job, indices, TaskState.UNSCHEDULABLE),
        reason=reason,
    )


def _ends_of(job: Job, indices: Iterable[Index], state: TaskState) -> tuple[e.Stopped, ...]:
    """Where those of the tasks ended that are in this state."""
    ends = job.ends or ()
    return tuple(
        e.Stopped(index, Position(ends[index])) for index in indices if job.states[index] == state
    )


def put_aside(
    job: Job, indices: Iterable[Index], cause: str, note: str, now: Instant
) -> e.TasksSetAside:
    """The fact about these tasks, each of which waits or is held."""
    tasks = job.tasks or {}
    waiting: list[Index] = []
    ends: list[e.End] = []
    for index in indices:
        task = tasks.get(index)
        if task is None or task.state is TaskState.WAITING:
            waiting.append(index)
        else:
            told = note or f"it was put aside: {cause}"
            ends.append(end_of(job, task, EndReason.KILLED, now, error=told))
    return e.TasksSetAside(
        job_id=job.job_id,
        cause=cause,
        spans=spans_of(waiting),
        ends=tuple(ends),
        stopped=pasts_of(tasks[index] for index in waiting if index in tasks),
        note=note,
    )


def retry_quarantined(state: State, command: c.RetryQuarantined, now: Instant) -> Decision:
    """Job by job, in one record; of a job that cannot come back its tasks stay."""

    def send_back(job: Job, indices: tuple[Index, ...]) -> Decision:
        return retry(state, c.RetryTasks(job_id=job.job_id, indices=indices), now)

    return _settled(state, command.picked, send_back)


def purge_quarantined(state: State, command: c.PurgeQuarantined, now: Instant) -> Decision:
    if not command.reason.strip():
        return Refused(Reason.INVALID, "tasks are given up for a reason")

    def give_up(job: Job, indices: tuple[Index, ...]) -> Decision:
        purging = c.PurgeTasks(job_id=job.job_id, indices=indices, reason=command.reason)
        return purge(state, purging, now)

    return _settled(state, command.picked, give_up)


def _settled(
    state: State,
    picked: Iterable[c.Picked],
    settle: Callable[[Job, tuple[Index, ...]], Decision],
) -> Decision:
    """What is decided of the tasks that are still as they were seen, and of how many."""
    found: dict[JobId, dict[Index, None]] = {}
    for one in picked:
        job = state.jobs.get(one.job_id)
        if job is not None and _is_as_seen(job, one):
            found.setdefault(one.job_id, {})[one.index] = None
    events: list[e.AnyEvent] = []
    count = 0
    for job_id, indices in found.items():
        decision = settle(state.jobs[job_id], tuple(indices))
        if isinstance(decision, Accepted):
            events += decision.events
            count += cast(int, decision.answer)
    return Accepted(tuple(events), count)


def _is_as_seen(job: Job, one: c.Picked) -> bool:
    return (
        0 <= one.index < job.count
        and job.states[one.index] == TaskState.QUARANTINED
        and job.ends is not None
        and job.ends[one.index] == one.end
    )
