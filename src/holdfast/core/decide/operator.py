"""What people ask of jobs that exist: stop, move in time, try again."""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import groupby

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.attempt import EndReason
from holdfast.core.decide.endings import end_of, pasts_of, stop_rest
from holdfast.core.decide.jobs import no_task, unknown
from holdfast.core.decide.wishes import LARGEST, edit_problem
from holdfast.core.decision import Accepted, Decision, Reason, Refused
from holdfast.core.ids import NEVER, Index, Instant
from holdfast.core.job import (
    CANCELLED,
    Job,
    is_finished,
    may_come_back,
    only_owes,
    retryable,
    state_of,
)
from holdfast.core.state import State
from holdfast.core.task import FINISHED, TaskState
from holdfast.core.ties import outlives_parent


def kill_job(state: State, command: c.KillJob, now: Instant) -> Decision:
    """A finished job stays as it ended: a second cancel is answered and changes nothing."""
    job = state.jobs.get(command.job_id)
    if job is None:
        return unknown(state, command.job_id)
    if not command.cause:
        return Refused(Reason.INVALID, "a job is stopped for a cause")
    if only_owes(job):
        return Accepted((), 0)
    left = job.unfinished
    return Accepted(stop_rest(job, command.cause, command.reason, now), left)


def kill_tasks(state: State, command: c.KillTasks, now: Instant) -> Decision:
    """Those already finished are left; a task that committed cannot be killed."""
    job = state.jobs.get(command.job_id)
    if job is None:
        return unknown(state, command.job_id)
    waiting: list[Index] = []
    ends: list[e.End] = []
    for index in sorted(set(command.indices)):
        if not 0 <= index < job.count:
            return no_task(job, index)
        current = state_of(job, index)
        if current is TaskState.COMMITTED:
            return Refused(
                Reason.INVALID_TRANSITION, f"task {job.job_id}/{index} has committed its result"
            )
        if current is TaskState.WAITING:
            waiting.append(index)
        elif current not in FINISHED and job.tasks is not None:
            task = job.tasks[index]
            ends.append(end_of(job, task, EndReason.KILLED, now, error=command.reason))
    if not waiting and not ends:
        return Accepted((), 0)
    if job.spec.placing.gang:
        told = f"job {job.job_id} is a gang, which ends whole: cancel the job"
        return Refused(Reason.INVALID_TRANSITION, told)
    known = job.tasks or {}
    records = [known[index] for index in waiting if index in known]
    killed = e.TasksKilled(
        job_id=job.job_id,
        cause=CANCELLED,
        spans=spans_of(waiting),
        ends=tuple(ends),
        stopped=pasts_of(records),
    )
    return Accepted((killed,), len(waiting) + len(ends))


def reschedule(state: State, command: c.RescheduleTask, now: Instant) -> Decision:
    """Only a waiting task has an earliest time to move."""
    job = state.jobs.get(command.job_id)
    if job is None:
        return unknown(state, command.job_id)
    if not 0 <= command.index < job.count:
        return no_task(job, command.index)
    if not 0 <= command.delay_ms <= LARGEST or not 0 <= command.not_before_wall <= LARGEST:
        return Refused(Reason.INVALID, "a task cannot be moved into the past, nor out of time")
    current = state_of(job, command.index)
    if current is not TaskState.WAITING:
        return Refused(
            Reason.INVALID_TRANSITION,
            f"task {job.job_id}/{command.index} is {current.name}; only a waiting one can move",
        )
    not_before = Instant(now + command.delay_ms) if command.delay_ms else NEVER
    return Accepted((moved(job, command.index, not_before, command.not_before_wall),))


def moved(job: Job, index: Index, not_before: Instant, not_before_wall: Instant) -> e.AnyEvent:
    """The fact that a waiting task has another earliest time, with the one it had."""
    task = (job.tasks or {}).get(index)
    # A task with a past, or with a time of its own, no longer waits for that of its job.
    before = job if task is None else task
    return e.TaskRescheduled(
        job_id=job.job_id,
        index=index,
        not_before=not_before,
        not_before_wall=not_before_wall,
        before=before.not_before,
        before_wall=before.not_before_wall,
    )


def retry(state: State, command: c.RetryTasks, now: Instant) -> Decision:
    """Quarantined tasks come back, those a limit killed, and those that nobody took in time; what
    committed never does. A gang comes back whole."""
    job = state.jobs.get(command.job_id)
    if job is None:
        return unknown(state, command.job_id)
    if command.indices:
        indices = sorted(set(command.indices))
        for index in indices:
            if not 0 <= index < job.count:
                return no_task(job, index)
            if not retryable(job, index):
                return Refused(
                    Reason.INVALID_TRANSITION,
                    f"task {job.job_id}/{index} is {state_of(job, index).name}; "
                    "only one that is quarantined or unschedulable can be sent back",
                )
    if not command.indices or job.spec.placing.gang:
        indices = [i for i in map(Index, range(job.count)) if retryable(job, i)]
        if not indices:
            return Accepted((), 0)
        if not may_come_back(job):
            return _not_whole(job, indices)
    if outlives_parent(state, job):
        told = f"job {job.job_id} ended with its parent, job {job.parent}; send that back first"
        return Refused(Reason.CONFLICT, told)
    events: list[e.AnyEvent] = []
    if command.spec is not None and command.spec != job.spec:
        if not is_finished(job):
            told = f"job {job.job_id} has not ended; until then its terms cannot change"
            return Refused(Reason.INVALID_TRANSITION, told)
        problem = edit_problem(job.spec, command.spec)
        if problem:
            return Refused(Reason.INVALID, problem)
        events.append(e.JobRespecified(job_id=job.job_id, spec=command.spec))
    events.append(sent_back(job, indices))
    return Accepted(tuple(events), len(indices))


def _not_whole(job: Job, indices: Sequence[Index]) -> Refused:
    """Without one member the others would wait for ever."""
    gone = next(i for i in map(Index, range(job.count)) if i not in indices)
    told = f"job {job.job_id} is a gang, which comes back whole; {job.job_id}/{gone} cannot"
    told = f"{told}, which is {state_of(job, gone).name}. Submit the job again"
    return Refused(Reason.INVALID_TRANSITION, told)


def sent_back(job: Job, indices: Iterable[Index]) -> e.TasksRetried:
    """These tasks, ascending, wait again in a new generation. Neighbours are one span where they
    come from the same state."""
    spans: list[e.Span] = []
    former: list[int] = []
    for state, run in groupby(indices, partial(state_of, job)):
        found = spans_of(run)
        spans.extend(found)
        former.extend([int(state)] * len(found))
    return e.TasksRetried(
        job_id=job.job_id,
        generation=job.generation + 1,
        spans=tuple(spans),
        former=tuple(former),
    )


def spans_of(indices: Iterable[Index]) -> tuple[e.Span, ...]:
    """Ascending indices as runs of neighbours."""
    spans: list[e.Span] = []
    first = last = None
    for index in indices:
        if first is None or last is None:
            first = last = index
        elif index == last + 1:
            last = index
        else:
            spans.append(e.Span(first, last))
            first = last = index
    if first is not None and last is not None:
        spans.append(e.Span(first, last))
    return tuple(spans)
