"""What time alone makes true. The tick proposes records; it repairs nothing."""

from typing import Final

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.attempt import EndReason
from holdfast.core.decide.circuits import passed
from holdfast.core.decide.endings import ends_by_job, stop_rest
from holdfast.core.decide.jobs import sealed
from holdfast.core.decide.operator import spans_of
from holdfast.core.decide.tenure import unrenewed
from holdfast.core.decision import Accepted, Decision
from holdfast.core.ids import NEVER, Index, Instant, JobId
from holdfast.core.job import DEADLINE, JOB_TIMED_OUT, Job, only_owes
from holdfast.core.state import State
from holdfast.core.task import ASIDE, FRESH, TaskState

UNPLACED: Final = "no worker took it before its scheduling deadline"


def tick(state: State, command: c.Tick, now: Instant) -> Decision:
    """Leases past their time end, calendar instants come due, limits in time take effect, and
    what nobody needs is forgotten. A job is touched by one rule a tick; the next takes the rest."""
    events: list[e.AnyEvent] = []
    due = [task for holder in state.holders.values() for task in holder.due(now)]
    events.extend(ends_by_job(state, due, EndReason.LEASE_EXPIRED, now, unrenewed))
    settled = {task.job_id for task in due}
    for job in _due_jobs(state, command, now):
        if job.job_id not in settled:
            events.extend(_judge(job, command, now))
            settled.add(job.job_id)
    for job_id in command.silent:
        silent = state.jobs.get(job_id)
        is_fed = silent is not None and not silent.sealed and silent.service is None
        if silent is not None and is_fed and job_id not in settled:
            events.append(sealed(silent, interrupted=True))
            settled.add(job_id)
    events.extend(passed(state, now, command.keep_keys_ms))
    events.extend(_forget(state, command, now))
    events.extend(_let_tokens_go(state, command))
    return Accepted(tuple(events))


def _due_jobs(state: State, command: c.Tick, now: Instant) -> list[Job]:
    """Jobs with a timer that has passed, each once, in the order of their timers."""
    found: dict[JobId, Job] = {}
    for timers, limit in ((state.timers, now), (state.wall_timers, command.wall)):
        for _, job_id in _passed(timers, limit):
            job = state.jobs.get(job_id)
            if job is not None:
                found[job_id] = job
    return list(found.values())


def _passed(heap: list[tuple[Instant, JobId]], limit: Instant) -> list[tuple[Instant, JobId]]:
    """The entries of a heap up to `limit`, without touching it: only what is due is visited."""
    passed: list[tuple[Instant, JobId]] = []
    stack = [0] if heap else []
    while stack:
        place = stack.pop()
        if place < len(heap) and heap[place][0] <= limit:
            passed.append(heap[place])
            stack += [2 * place + 1, 2 * place + 2]
    return sorted(passed)


def _judge(job: Job, command: c.Tick, now: Instant) -> tuple[e.AnyEvent, ...]:
    """The one thing that the passing of time does to this job now."""
    # What has committed is delivered whatever the time: there is nothing to stop any more.
    if only_owes(job):
        return ()
    if _past(job.deadline_wall, command.wall):
        return stop_rest(job, DEADLINE, "its deadline has passed", now)
    if _past(job.times_out_at, now):
        return stop_rest(job, JOB_TIMED_OUT, "the job took longer than its timeout", now)
    if _past(job.schedule_by, now):
        spans = spans_of(_never_leased(job))
        if spans:
            reason = dict(command.reasons).get(job.job_id, UNPLACED)
            return (e.TasksUnschedulable(job_id=job.job_id, spans=spans, reason=reason),)
    if _past(job.not_before_wall, command.wall):
        return (e.JobDue(job_id=job.job_id),)
    return tuple(
        e.TaskDue(job_id=job.job_id, index=Index(index))
        for index, task in (job.tasks or {}).items()
        if task.state is TaskState.WAITING and _past(task.not_before_wall, command.wall)
    )


def past_schedule(state: State, now: Instant) -> list[Job]:
    """The jobs whose scheduling deadline has come with a task that no worker ever took: whoever
    ticks next may say why, in `Tick.reasons`."""
    found = dict.fromkeys(job_id for _, job_id in _passed(state.timers, now))
    jobs = [state.jobs[job_id] for job_id in found if job_id in state.jobs]
    return [job for job in jobs if _past(job.schedule_by, now) and _never_leased(job)]


def still_due(job: Job, command: c.Tick, now: Instant) -> bool:
    """Whether another tick at this moment would find more to do for the job."""
    return bool(_judge(job, command, now))


def _never_leased(job: Job) -> list[Index]:
    """The tasks a scheduling deadline is about: waiting, and no worker ever took them."""
    tasks = job.tasks or {}
    return [
        index
        for index in map(Index, range(job.count))
        if job.states[index] == FRESH
        or (job.states[index] == ASIDE and tasks[index].attempt == 0)
    ]


def _past(at: Instant, clock: Instant) -> bool:
    return at != NEVER and at <= clock


def _forget(state: State, command: c.Tick, now: Instant) -> tuple[e.AnyEvent, ...]:
    """Finished jobs beyond the count go, oldest first, once they had their hour; a job that
    somebody looks at or waits for, or with a task in quarantine, stays. Keys outlive their job to
    a day."""
    events: list[e.AnyEvent] = []
    excess = len(state.finished) - command.keep_finished
    gone: dict[JobId, None] = {}
    for job_id in state.finished:
        if len(gone) >= min(excess, command.most):
            break
        job = state.job_of(job_id)
        if job.updated_at + command.keep_finished_ms > now:
            break
        if job_id not in command.held and not job.quarantined and not _is_needed(state, job_id):
            gone[job_id] = None
    if gone:
        events.append(e.JobsForgotten(job_ids=tuple(gone)))
    old: list[str] = []
    for name, request in state.requests.items():
        if request.since + command.keep_requests_ms > now or len(old) >= command.most:
            break
        old.append(name)
    if old:
        events.append(e.RequestsForgotten(keys=tuple(old)))
    stale: list[str] = []
    for key, known in state.keys.items():
        if known.since + command.keep_keys_ms > now or len(stale) >= command.most:
            break
        if known.job_id not in state.jobs or known.job_id in gone:
            stale.append(key)
    if stale:
        events.append(e.KeysForgotten(keys=tuple(stale)))
    return tuple(events)


def _is_needed(state: State, job_id: JobId) -> bool:
    """Whether another job is still judged by how this one ended."""
    return job_id in state.dependents or job_id in state.children


def _let_tokens_go(state: State, command: c.Tick) -> tuple[e.AnyEvent, ...]:
    ended = [t.token_id for t in state.tokens.values() if _past(t.expires_wall, command.wall)]
    return (e.TokensExpired(token_ids=tuple(ended)),) if ended else ()
