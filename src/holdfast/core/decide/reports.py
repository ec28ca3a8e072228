"""What workers report. A report counts only under the task's current lease; a late one is
answered and never written."""

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.attempt import EndReason
from holdfast.core.decide.endings import end_of, settle_ends
from holdfast.core.decide.jobs import unknown
from holdfast.core.decision import Accepted, Decision, Lost, Reason, Refused
from holdfast.core.ids import NEVER, NOWHERE, Index, Instant, JobId, Position
from holdfast.core.job import state_of
from holdfast.core.reports import Done, Failed, Released, Started
from holdfast.core.state import State
from holdfast.core.task import Task, TaskState

REPORTABLE = frozenset({EndReason.FAILED, EndReason.TIMED_OUT, EndReason.WORKER_LOST})
RELEASABLE = frozenset({EndReason.RELEASED, EndReason.PREEMPTED, EndReason.UNDELIVERED})


def start(state: State, command: c.StartAttempts, now: Instant) -> Decision:
    """A second report of the same start changes nothing; the answer names the leases lost."""
    lost: list[Lost] = []
    starts: dict[JobId, dict[Index, e.Start]] = {}
    for report in command.started:
        task = _held(state, command, report, now)
        if isinstance(task, Lost):
            lost.append(task)
        elif task.state == TaskState.LEASED:
            began = Instant(max(now - max(report.ran_ms, 0), 1))
            starts.setdefault(report.job_id, {})[report.index] = e.Start(
                report.index, report.lease_id, began
            )
    events = tuple(
        e.AttemptsStarted(job_id=job_id, starts=tuple(chosen.values()))
        for job_id, chosen in starts.items()
    )
    return Accepted(events, tuple(lost))


def commit(state: State, command: c.CommitTasks, now: Instant) -> Decision:
    """The holder of a live lease may commit its task, once. The hot path of the whole house."""
    lost: list[Lost] = []
    starts: dict[JobId, dict[Index, e.Start]] = {}
    commits: dict[JobId, dict[Index, e.Commit]] = {}
    owing: dict[JobId, dict[Index, tuple[bytes, ...]]] = {}
    jobs, worker, incarnation = state.jobs, command.worker, command.incarnation
    for done in command.done:
        job_id, index, lease_id, ran_ms, result = (
            done.job_id, done.index, done.lease_id, done.ran_ms, done.result,
        )  # fmt: skip
        job = jobs.get(job_id)
        task = job.tasks.get(index) if job is not None and job.tasks is not None else None
        if (
            task is None
            or not lease_id
            or task.lease_id != lease_id
            or task.incarnation != incarnation
            or task.worker != worker
            or (task.expires_at and task.expires_at <= now)
        ):
            verdict = _held(state, command, done, now)
            if isinstance(verdict, Lost):
                lost.append(verdict)
            continue
        chosen = commits.get(job_id)
        if chosen is None:
            chosen = commits[job_id] = {}
            starts[job_id] = {}
        elif index in chosen:
            continue
        began = task.started_at
        if task.state == TaskState.LEASED:
            began = Instant(max(now - max(ran_ms, 0), 1))
            starts[job_id][index] = e.Start(index, lease_id, began)
        chosen[index] = e.Commit(
            index, lease_id, task.attempt, task.granted, began,
            task.previous, task.failures, task.losses, result,
        )  # fmt: skip
        if done.owed:
            owing.setdefault(job_id, {})[index] = done.owed
    return Accepted(_commit_events(command, starts, commits, owing), tuple(lost))


def _commit_events(
    command: c.CommitTasks,
    starts: dict[JobId, dict[Index, e.Start]],
    commits: dict[JobId, dict[Index, e.Commit]],
    owing: dict[JobId, dict[Index, tuple[bytes, ...]]],
) -> tuple[e.AnyEvent, ...]:
    events: list[e.AnyEvent] = []
    for job_id, chosen in commits.items():
        if starts[job_id]:
            begun = tuple(starts[job_id].values())
            events.append(e.AttemptsStarted(job_id=job_id, starts=begun))
        for index, owed in owing.get(job_id, {}).items():
            events.append(
                e.TaskCommitted(
                    job_id=job_id,
                    worker=command.worker,
                    incarnation=command.incarnation,
                    commit=chosen.pop(index),
                    owed=owed,
                )
            )
        if chosen:
            events.append(
                e.TasksCompleted(
                    job_id=job_id,
                    worker=command.worker,
                    incarnation=command.incarnation,
                    commits=tuple(chosen.values()),
                )
            )
    return tuple(events)


def fail(state: State, command: c.FailAttempt, now: Instant) -> Decision:
    """An attempt ended without a result: charge its budget and decide what follows, at once."""
    report = command.failed
    if report.reason not in REPORTABLE:
        return Refused(Reason.INVALID, f"a worker cannot report an attempt as {report.reason!r}")
    if not 0.0 <= command.roll < 1.0:
        return Refused(Reason.INVALID, f"a throw lies in [0, 1); {command.roll} does not")
    task = _held(state, command, report, now)
    if isinstance(task, Lost):
        return Accepted((), (task,))
    job = state.jobs[report.job_id]
    events: list[e.AnyEvent] = []
    began = task.started_at
    if task.state == TaskState.LEASED:
        # Whatever ended had begun, though its start was not heard of before.
        began = Instant(max(now - max(report.ran_ms, 0), 1))
        start = e.Start(task.index, task.lease_id, began)
        events.append(e.AttemptsStarted(job_id=job.job_id, starts=(start,)))
    end = end_of(
        job.spec,
        task,
        EndReason(report.reason),
        now,
        started_at=began,
        roll=command.roll,
        error=report.error,
        traceback=report.traceback,
        exit_code=report.exit_code,
    )
    events.extend(settle_ends(job, (end,), now))
    return Accepted(tuple(events), ())


def release(state: State, command: c.ReleaseAttempts, now: Instant) -> Decision:
    """Attempts come back uncharged. `undelivered` is not taken for one that had started."""
    if command.reason not in RELEASABLE:
        return Refused(Reason.INVALID, f"an attempt is not released as {command.reason!r}")
    reason = EndReason(command.reason)
    lost: list[Lost] = []
    ends: dict[JobId, dict[Index, e.End]] = {}
    for report in command.released:
        task = _held(state, command, report, now)
        if isinstance(task, Lost):
            lost.append(task)
            continue
        if reason is EndReason.UNDELIVERED and task.started_at != NEVER:
            return Refused(
                Reason.INVALID_TRANSITION,
                f"task {report.job_id}/{report.index} had started; it cannot be undelivered",
            )
        spec = state.jobs[report.job_id].spec
        ends.setdefault(report.job_id, {})[report.index] = end_of(spec, task, reason, now)
    events: list[e.AnyEvent] = []
    for job_id, chosen in ends.items():
        events.extend(settle_ends(state.jobs[job_id], chosen.values(), now))
    return Accepted(tuple(events), tuple(lost))


def confirm_delivery(state: State, command: c.ConfirmDelivery, now: Instant) -> Decision:
    """The last confirmation makes the task DONE; a repeated one adds nothing."""
    job = state.jobs.get(command.job_id)
    if job is None:
        return unknown(state, command.job_id)
    if not 0 <= command.index < job.count:
        return Refused(Reason.NOT_FOUND, f"job {job.job_id} has no task {command.index}")
    task = (job.tasks or {}).get(command.index)
    if task is None or task.state != TaskState.COMMITTED:
        if state_of(job, command.index) is TaskState.SUCCEEDED:
            return Accepted(())
        return Refused(
            Reason.INVALID_TRANSITION, f"task {job.job_id}/{command.index} has not committed"
        )
    if command.entry not in task.owed:
        return Accepted(())
    if len(task.owed) == 1:
        done = e.TaskDone(job_id=job.job_id, index=command.index, entry=command.entry)
        return Accepted((done,))
    delivered = e.EffectDelivered(job_id=job.job_id, index=command.index, entry=command.entry)
    return Accepted((delivered,))


WorkerReport = c.StartAttempts | c.CommitTasks | c.FailAttempt | c.ReleaseAttempts


def _held(
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
        return Lost(job_id, index, lease_id, "another attempt holds the task, or none", settled)
    if task.worker != by.worker or task.incarnation != by.incarnation:
        return Lost(job_id, index, lease_id, "the lease is another worker's", NOWHERE)
    if task.expires_at != NEVER and task.expires_at <= now:
        return Lost(job_id, index, lease_id, "the lease had expired", NOWHERE)
    return task
