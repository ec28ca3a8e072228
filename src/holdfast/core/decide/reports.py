"""What workers report. A report counts only under the task's current lease; a late one is
answered and never written."""

from typing import Final

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.attempt import EndReason
from holdfast.core.decide.circuits import attempt_failed, tasks_committed
from holdfast.core.decide.endings import FAILURES, end_of, settle_ends, within_budget
from holdfast.core.decision import Accepted, Decision, Lost, Reason, Refused
from holdfast.core.ids import NEVER, NOWHERE, Index, Instant, JobId, Position
from holdfast.core.job import Job
from holdfast.core.owed import Entry
from holdfast.core.reports import Done, Failed, Released, Started
from holdfast.core.state import State
from holdfast.core.task import Task, TaskState

REPORTABLE = frozenset({EndReason.FAILED, EndReason.TIMED_OUT, EndReason.WORKER_LOST})
DUPLICATE: Final = f"{EndReason.DUPLICATE}: "
"""How the answer begins to an attempt whose task another one has committed."""
RELEASABLE = frozenset({EndReason.RELEASED, EndReason.PREEMPTED, EndReason.UNDELIVERED})


def start(state: State, command: c.StartAttempts, now: Instant) -> Decision:
    """A second report of the same start changes nothing; the answer names the leases lost."""
    lost: list[Lost] = []
    starts: dict[JobId, dict[Index, e.Start]] = {}
    for report in command.started:
        task = held(state, command, report, now)
        if isinstance(task, Lost):
            lost.append(task)
        elif task.state == TaskState.LEASED:
            began = began_at(now, report.ran_ms)
            starts.setdefault(report.job_id, {})[report.index] = e.Start(
                report.index, report.lease_id, began
            )
    events = tuple(
        e.AttemptsStarted(job_id=job_id, starts=tuple(chosen.values()))
        for job_id, chosen in starts.items()
    )
    return Accepted(events, tuple(lost))


class Tally:
    """The commits of one job within one command."""

    __slots__ = ("commits", "owing", "starts")

    def __init__(self) -> None:
        self.starts: list[e.Start] = []
        self.commits: dict[Index, e.Commit] = {}
        self.owing: dict[Index, tuple[Entry, ...]] = {}


def commit(state: State, command: c.CommitTasks, now: Instant) -> Decision:
    """The holder of a live lease may commit its task, once. The hot path of the whole house:
    reports of one job follow each other, so what belongs to the job is looked up once a run."""
    lost: list[Lost] = []
    tallies: dict[JobId, Tally] = {}
    worker, incarnation, leased = command.worker, command.incarnation, TaskState.LEASED
    current: JobId | None = None
    tasks: dict[Index, Task] = {}
    services: dict[JobId, Job] = {}
    tally, is_gang = Tally(), False
    for done in command.done:
        if done.job_id != current:
            current = done.job_id
            job = state.jobs.get(current)
            tasks = {} if job is None or job.tasks is None else job.tasks
            tally = tallies.setdefault(current, Tally())
            is_gang = job is not None and job.spec.placing.gang
            if job is not None and job.service is not None:
                services[current] = job
        index, lease_id = done.index, done.lease_id
        task = tasks.get(index)
        if (
            task is None
            or task.lease_id != lease_id
            or task.incarnation != incarnation
            or task.worker != worker
            or not lease_id
            or (task.expires_at and task.expires_at <= now)
        ):
            verdict = held(state, command, done, now)
            if isinstance(verdict, Lost):
                lost.append(verdict)
            continue
        if is_gang:
            told = f"job {current} is a gang: its results are committed together or not at all"
            return Refused(Reason.INVALID_TRANSITION, told)
        if index in tally.commits:
            continue
        began = task.started_at
        if task.state is leased:
            # Most take no time that counts: a call less for each.
            began = began_at(now, done.ran_ms) if done.ran_ms else now
            tally.starts.append(e.Start(index, lease_id, began))
        tally.commits[index] = e.Commit(
            index, lease_id, task.attempt, task.granted, began,
            task.previous, task.failures, task.losses, done.result, done.stored,
        )  # fmt: skip
        if done.owed:
            tally.owing[index] = done.owed
    events: list[e.AnyEvent] = []
    for job in services.values():
        events.extend(_exited(job, tallies.pop(job.job_id), now))
    for job_id, found in tallies.items():
        events.extend(commit_events(command, job_id, found))
    if state.circuits:
        committed = ((job_id, (*found.commits, *found.owing)) for job_id, found in tallies.items())
        events.extend(tasks_committed(state, committed))
    return Accepted(tuple(events), tuple(lost))


def commit_events(
    command: c.CommitTasks | c.Finished, job_id: JobId, tally: Tally
) -> list[e.AnyEvent]:
    events: list[e.AnyEvent] = []
    who, incarnation = command.worker, command.incarnation
    if tally.starts:
        events.append(e.AttemptsStarted(job_id=job_id, starts=tuple(tally.starts)))
    for index, owed in tally.owing.items():
        events.append(
            e.TaskCommitted(
                job_id=job_id,
                worker=who,
                incarnation=incarnation,
                commit=tally.commits.pop(index),
                owed=owed,
            )
        )
    if tally.commits:
        commits = tuple(tally.commits.values())
        events.append(
            e.TasksCompleted(
                job_id=job_id, worker=who, incarnation=incarnation, commits=commits
            )
        )
    return events


def _exited(job: Job, tally: Tally, now: Instant) -> list[e.AnyEvent]:
    """Replicas of a service that say they are done have ended by themselves: a service has no
    result, and whoever reports one is mistaken."""
    events: list[e.AnyEvent] = []
    if tally.starts:
        events.append(e.AttemptsStarted(job_id=job.job_id, starts=tuple(tally.starts)))
    tasks = job.tasks or {}
    ends = [
        end_of(
            job,
            tasks[index],
            EndReason.FAILED,
            now,
            started_at=commit.started_at,
            error="exited 0",
            exit_code=0,
        )
        for index, commit in tally.commits.items()
    ]
    events.extend(settle_ends(job, ends, now))
    return events


def began_at(now: Instant, ran_ms: int) -> Instant:
    """When something began that ran for so long until now; never before time itself."""
    return Instant(max(now - ran_ms, 1)) if ran_ms > 0 else now


def fail(state: State, command: c.FailAttempt, now: Instant) -> Decision:
    """An attempt ended without a result: charge its budget and decide what follows, at once."""
    report = command.failed
    if report.reason not in REPORTABLE:
        return Refused(Reason.INVALID, f"a worker cannot report an attempt as {report.reason!r}")
    if not 0.0 <= command.roll < 1.0:
        return Refused(Reason.INVALID, f"a throw lies in [0, 1); {command.roll} does not")
    task = held(state, command, report, now)
    if isinstance(task, Lost):
        return Accepted((), (task,))
    job = state.jobs[report.job_id]
    events: list[e.AnyEvent] = []
    began = task.started_at
    if task.state == TaskState.LEASED:
        # Whatever ended had begun, though its start was not heard of before.
        began = began_at(now, report.ran_ms)
        start = e.Start(task.index, task.lease_id, began)
        events.append(e.AttemptsStarted(job_id=job.job_id, starts=(start,)))
    end = end_of(
        job,
        task,
        EndReason(report.reason),
        now,
        started_at=began,
        roll=command.roll,
        error=report.error,
        traceback=report.traceback,
        exit_code=report.exit_code,
    )
    end = within_budget(state, job, end, now)
    events.extend(settle_ends(job, (end,), now))
    if end.charged == FAILURES:
        events.extend(attempt_failed(state, job, end, now))
    return Accepted(tuple(events), ())


def release(state: State, command: c.ReleaseAttempts, now: Instant) -> Decision:
    """Attempts come back uncharged. `undelivered` is not taken for one that had started."""
    if command.reason not in RELEASABLE:
        return Refused(Reason.INVALID, f"an attempt is not released as {command.reason!r}")
    reason = EndReason(command.reason)
    lost: list[Lost] = []
    ends: dict[JobId, dict[Index, e.End]] = {}
    for report in command.released:
        task = held(state, command, report, now)
        if isinstance(task, Lost):
            lost.append(task)
            continue
        if reason is EndReason.UNDELIVERED and task.started_at != NEVER:
            return Refused(
                Reason.INVALID_TRANSITION,
                f"task {report.job_id}/{report.index} had started; it cannot be undelivered",
            )
        job = state.jobs[report.job_id]
        ends.setdefault(report.job_id, {})[report.index] = end_of(job, task, reason, now)
    events: list[e.AnyEvent] = []
    for job_id, chosen in ends.items():
        events.extend(settle_ends(state.jobs[job_id], chosen.values(), now))
    return Accepted(tuple(events), tuple(lost))


WorkerReport = (
    c.StartAttempts | c.CommitTasks | c.FailAttempt | c.ReleaseAttempts | c.Finished
)


def held(
    state: State, by: WorkerReport, report: Started | Done | Failed | Released, now: Instant
) -> Task | Lost:
    """The task, if this lease is its current one, the reporter's, and not past its time."""
    job_id, index, lease_id = report.job_id, report.index, report.lease_id
    job = state.jobs.get(job_id)
    if job is None:
        return Lost(job_id, index, lease_id, "the job is not known here", NOWHERE)
    task = (job.tasks or {}).get(index)
    if task is None or task.lease_id != lease_id or not lease_id:
        settled = NOWHERE
        if task is not None:
            settled = task.committed or task.previous
        elif job.ends is not None and 0 <= index < len(job.ends):
            settled = Position(job.ends[index])
        return Lost(job_id, index, lease_id, _why_lost(job, index), settled)
    if task.worker != by.worker or task.incarnation != by.incarnation:
        return Lost(job_id, index, lease_id, "the lease is another worker's", NOWHERE)
    if task.expires_at != NEVER and task.expires_at <= now:
        return Lost(job_id, index, lease_id, "the lease had expired", NOWHERE)
    return task


def _why_lost(job: Job, index: Index) -> str:
    """What a lease that is not current has lost against. Whoever hears that the task has committed
    may stop: its result is there."""
    task = (job.tasks or {}).get(index)
    if task is not None and task.state is TaskState.COMMITTED:
        return f"{DUPLICATE}attempt {task.attempt} has committed"
    if 0 <= index < job.count and job.attempts and job.states[index] == TaskState.SUCCEEDED:
        return f"{DUPLICATE}attempt {job.attempts[index]} has committed"
    return "another attempt holds the task, or none"
