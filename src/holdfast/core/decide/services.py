"""What is asked of services."""

from collections.abc import Iterable

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.attempt import EndReason
from holdfast.core.decide.decided import purged
from holdfast.core.decide.endings import end_of, pasts_of, stop_rest
from holdfast.core.decide.jobs import no_task, unknown
from holdfast.core.decide.operator import spans_of
from holdfast.core.decision import Accepted, Decision, Reason, Refused
from holdfast.core.ids import Index, Instant, JobId
from holdfast.core.job import STOPPED, Job, is_finished, state_of
from holdfast.core.state import State
from holdfast.core.task import FINISHED, TaskState

GIVEN_UP = "its replica was stopped"


def stop_replicas(state: State, command: c.StopReplicas, now: Instant) -> Decision:
    """Those that have ended are left, save for what waits for an operator: that is given up. The
    answer is how many were stopped."""
    job = _service(state, command.job_id)
    if isinstance(job, Refused):
        return job
    for index in command.indices:
        if not 0 <= index < job.count:
            return no_task(job, index)
    indices = sorted(set(command.indices))
    stopped = _stopped(job, indices, command.reason, now)
    events = (*stopped, *_given_up(job, indices, command.reason))
    return Accepted(events, len(indices) if events else 0)


def end_service(state: State, command: c.EndService, now: Instant) -> Decision:
    """Asked a second time, it is answered and changes nothing."""
    job = _service(state, command.job_id)
    if isinstance(job, Refused):
        return job
    if is_finished(job):
        return Accepted((), 0)
    left = job.unfinished
    everything = map(Index, range(job.count))
    events = stop_rest(job, STOPPED, command.reason, now, why=EndReason.STOPPED)
    return Accepted((*events, *_given_up(job, everything, command.reason)), left)


def _stopped(
    job: Job, indices: Iterable[Index], reason: str, now: Instant
) -> tuple[e.AnyEvent, ...]:
    known = job.tasks or {}
    live = [index for index in indices if state_of(job, index) not in FINISHED]
    waiting = [index for index in live if state_of(job, index) is TaskState.WAITING]
    held = sorted(set(live).difference(waiting))
    ends = tuple(end_of(job, known[index], EndReason.STOPPED, now, error=reason) for index in held)
    if not live:
        return ()
    killed = e.TasksKilled(
        job_id=job.job_id,
        cause=STOPPED,
        spans=spans_of(waiting),
        ends=ends,
        stopped=pasts_of(known[index] for index in waiting if index in known),
    )
    return (killed,)


def _given_up(job: Job, indices: Iterable[Index], reason: str) -> tuple[e.AnyEvent, ...]:
    event = purged(job, tuple(indices), reason or GIVEN_UP)
    return (event,) if event.all else ()


def _service(state: State, job_id: JobId) -> Job | Refused:
    job = state.jobs.get(job_id)
    if job is None:
        return unknown(state, job_id)
    if job.service is None:
        told = f"job {job_id} is no service; `holdfast job cancel {job_id}` stops it"
        return Refused(Reason.INVALID, told)
    return job
