"""Folds of what was decided of tasks that have ended, and of the note that one was forced."""

from holdfast.core import events as e
from holdfast.core.apply_ends import impossible
from holdfast.core.apply_jobs import let_go_of_replicas
from holdfast.core.errors import ImpossibleEvent
from holdfast.core.ids import Instant, Position
from holdfast.core.job import Job, columns, is_finished, let_go_of_payloads
from holdfast.core.state import State
from holdfast.core.task import GIVEN_UP, GIVEN_UP_UNPLACED, TaskState


def tasks_purged(state: State, event: e.TasksPurged, position: Position, at: Instant) -> None:
    job = state.job_of(event.job_id)
    _check(job, event)
    _, ends = columns(job)
    for cell, given_up in ((GIVEN_UP, event.purged), (GIVEN_UP_UNPLACED, event.unplaced)):
        for one in given_up:
            job.states[one.index] = cell
            ends[one.index] = position
            if job.payloads is not None:
                job.payloads[one.index] = None
    let_go_of_replicas(job, [one.index for one in event.all])
    job.quarantined -= len(event.purged)
    if is_finished(job):
        # It is as old as its end: giving its tasks up does not keep it in memory any longer.
        let_go_of_payloads(job)
    else:
        job.updated_at = at


def _check(job: Job, event: e.TasksPurged) -> None:
    """Each once, each waiting for an operator, each with the place where it ended."""
    if len({one.index for one in event.all}) != len(event.all):
        raise ImpossibleEvent(f"job {job.job_id}", "named twice over", event)
    sources = ((TaskState.QUARANTINED, event.purged), (TaskState.UNSCHEDULABLE, event.unplaced))
    for cell, given_up in sources:
        for one in given_up:
            known = 0 <= one.index < job.count and job.states[one.index] == cell
            if not known or job.ends is None or job.ends[one.index] != one.previous:
                raise impossible(job, one.index, event)


def task_forced(state: State, event: e.TaskForced, position: Position, at: Instant) -> None:
    """It moves nothing: what does is beside it. It says that this was a person's hand."""
    job = state.job_of(event.job_id)
    if not 0 <= event.index < job.count:
        raise impossible(job, event.index, event)
