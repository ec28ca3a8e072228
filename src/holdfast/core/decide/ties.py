"""What the end of a job does to those that came after it, and to its children."""

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decide.endings import stop_rest
from holdfast.core.decision import Accepted, Decision
from holdfast.core.ids import NEVER, Instant, JobId, task_name
from holdfast.core.job import (
    BY_PERSON,
    CANCELLED,
    DEPENDENCY_FAILED,
    PARENT_ENDED,
    Job,
    job_state,
    only_owes,
)
from holdfast.core.placing import ALL_TASKS, FAIL, After
from holdfast.core.spec import JobSpec
from holdfast.core.state import State
from holdfast.core.ties import Verdict, all_hold, outlives_parent, verdict


def settle(state: State, command: c.SettleTies, now: Instant) -> Decision:
    """Each of the jobs is judged once; whoever is tied to one that ends by this comes next."""
    events: list[e.AnyEvent] = []
    for job_id in dict.fromkeys(command.jobs):
        job = state.jobs.get(job_id)
        if job is not None and not only_owes(job):
            events.extend(_settled(state, job, now))
    return Accepted(tuple(events))


def _settled(state: State, job: Job, now: Instant) -> tuple[e.AnyEvent, ...]:
    if outlives_parent(state, job):
        return _end_with_parent(state, job, now)
    if not job.blocked:
        return ()
    if all_hold(state, job.after):
        return (unblocked(job.job_id, job.spec, job.not_before, now),)
    dead = [one for one in job.after if verdict(state, one) is Verdict.DEAD]
    if not dead or job.fate != FAIL:
        return ()
    return stop_rest(job, DEPENDENCY_FAILED, _told(state, dead[0]), now)


def _end_with_parent(state: State, job: Job, now: Instant) -> tuple[e.AnyEvent, ...]:
    """A person who cancels a job means its children too; any other end is a rule's."""
    parent = state.jobs.get(job.parent)
    cause = CANCELLED if parent is not None and parent.cause in BY_PERSON else PARENT_ENDED
    how = "ended" if parent is None else f"ended {job_state(parent)}"
    return stop_rest(job, cause, f"its parent, job {job.parent}, {how}", now)


def _told(state: State, dead: After) -> str:
    """Why something a job came after can no longer come true."""
    wished = f"it came after the {dead.condition} of"
    if dead.index == ALL_TASKS:
        ended = job_state(state.job_of(dead.job_id))
        return f"{wished} job {dead.job_id}, which ended {ended}"
    return f"{wished} task {task_name(dead.job_id, dead.index)}, which ended otherwise"


def unblocked(job_id: JobId, spec: JobSpec, not_before: Instant, now: Instant) -> e.JobUnblocked:
    """Nobody could take a task before, so the wait for somebody begins now."""
    span_ms = spec.schedule_timeout_ms
    by = Instant(max(now, not_before) + span_ms) if span_ms else NEVER
    return e.JobUnblocked(job_id=job_id, schedule_by=by)

