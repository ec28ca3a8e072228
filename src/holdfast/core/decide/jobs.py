"""Submitting, feeding and sealing jobs."""

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decide.endings import stop_rest
from holdfast.core.decide.ties import unblocked
from holdfast.core.decide.wishes import spec_problem, submit_problem
from holdfast.core.decision import Accepted, Decision, Reason, Refused
from holdfast.core.ids import NEVER, Index, Instant, JobId
from holdfast.core.job import REPLACED, Job, is_finished, only_owes
from holdfast.core.state import State, SubmitKey
from holdfast.core.ties import all_hold

NUMBER_DIGITS_MAX = 15

MOST_TASKS = 100_000_000
"""A task costs at least a byte of memory in every process that reads the log."""

MOST_MEMBERS = 10_000
"""A gang is granted and ends in single records, each of which names every member."""


def submit(state: State, command: c.SubmitJob, now: Instant) -> Decision:
    """A key that is known finds its job, if the body is the same; the answer is the job's id.
    Where the key's job is to be replaced, one record ends that and begins this."""
    known = _known(state, command, now)
    if known is not None and command.existing == c.KEEP:
        return _repeat(state, command, known.job_id, known.digest)
    if known is not None and command.existing == c.REFUSE:
        told = (
            f"key {command.key!r} belongs to job {known.job_id} already; "
            f"`holdfast job show {known.job_id}` shows it"
        )
        return Refused(Reason.CONFLICT, told)
    count = len(command.items) or command.count
    spec = command.spec
    problem = submit_problem(command, count)
    # A spec that a job has was judged when that job came: most submits repeat one.
    if not problem and spec not in state.spec_cache:
        problem = spec_problem(spec)
    if problem:
        return Refused(Reason.INVALID, problem)
    if count > MOST_TASKS:
        return _too_large(count)
    if spec.placing.gang and count > MOST_MEMBERS:
        return Refused(Reason.TOO_LARGE, f"{count} tasks; a gang has at most {MOST_MEMBERS}")
    job_id = command.job_id or JobId(str(state.next_job))
    if job_id in state.jobs or _is_numbered(state, job_id):
        return Refused(Reason.CONFLICT, f"job {job_id} exists already, or did")
    if command.job_id.isdigit() and len(job_id) > NUMBER_DIGITS_MAX:
        return Refused(Reason.INVALID, f"a job of its own name is called {job_id[:20]}…")
    submitted = _submitted(command, job_id, count, now)
    if known is None and not command.after and not command.parent:
        return Accepted((submitted,), job_id)
    former = known.job_id if known is not None else JobId("")
    refusal = _tie_refusal(state, command, job_id, former)
    if refusal is not None:
        return refusal
    events: list[e.AnyEvent] = [*_replaced(state, former, job_id, now), submitted]
    if command.after and all_hold(state, command.after):
        events.append(unblocked(job_id, spec, submitted.not_before, now))
    return Accepted(tuple(events), job_id)


def _submitted(command: c.SubmitJob, job_id: JobId, count: int, now: Instant) -> e.JobSubmitted:
    spec = command.spec
    # Nobody can take a task before its time, so the wait for somebody begins then; that of a
    # blocked job begins when it is unblocked.
    wait_ms = 0 if command.after else spec.schedule_timeout_ms
    return e.JobSubmitted(
        job_id=job_id,
        spec=spec,
        key=command.key,
        digest=command.digest,
        count=count,
        items=command.items,
        shared=command.shared,
        sealed=command.sealed,
        not_before=_after(now, command.delay_ms),
        not_before_wall=command.not_before_wall,
        times_out_at=_after(now, spec.job_timeout_ms),
        deadline_wall=command.deadline_wall,
        schedule_by=_after(Instant(now + command.delay_ms), wait_ms),
        after=tuple(dict.fromkeys(command.after)) if command.after else (),
        fate=command.fate,
        parent=command.parent,
        detached=command.detached,
    )


def _known(state: State, command: c.SubmitJob, now: Instant) -> SubmitKey | None:
    """The job that has the key, unless it was submitted too long ago to have it still."""
    known = state.keys.get(command.key) if command.key else None
    if known is None or 0 < command.unique_for_ms <= now - known.since:
        return None
    return known


def _replaced(
    state: State, former: JobId, job_id: JobId, now: Instant
) -> tuple[e.AnyEvent, ...]:
    job = state.jobs.get(former)
    if job is None or only_owes(job):
        return ()
    return stop_rest(job, REPLACED, f"job {job_id} was submitted in its place", now)


def _tie_refusal(
    state: State, command: c.SubmitJob, job_id: JobId, former: JobId
) -> Refused | None:
    """Why a job cannot be tied so. It names only jobs that are there, and so none that comes after
    itself: the one circle there can be is a job that names itself."""
    parent_id = command.parent
    named = [after.job_id for after in command.after]
    if job_id in named or job_id == parent_id:
        told = "come after itself" if job_id in named else "be its own parent"
        return Refused(Reason.INVALID, f"job {job_id} cannot {told}")
    if parent_id in named and not command.detached:
        told = f"it would end with its parent, job {parent_id}, and cannot come after it"
        return Refused(Reason.INVALID, told)
    for after in command.after:
        job = state.jobs.get(after.job_id)
        if job is None:
            return unknown(state, after.job_id)
        if job.sealed and after.index >= job.count:
            return no_task(job, after.index)
    if not parent_id:
        return None
    parent = state.jobs.get(parent_id)
    if parent is None:
        return unknown(state, parent_id)
    if is_finished(parent) or parent_id == former:
        return Refused(Reason.CONFLICT, f"job {parent_id} has ended; it takes no more children")
    return None


def add_tasks(state: State, command: c.AddTasks, now: Instant) -> Decision:
    """Items follow the ones that are there; a repeat of what is there adds nothing."""
    job = state.jobs.get(command.job_id)
    if job is None:
        return unknown(state, command.job_id)
    if job.sealed:
        why = "was cancelled" if job.cause else "is sealed"
        return Refused(Reason.JOB_SEALED, f"job {job.job_id} {why}; it takes no more items")
    if job.payloads is None:
        return Refused(Reason.CONFLICT, f"job {job.job_id} is an array; it takes no items")
    if command.first + len(command.items) <= job.count and command.digest == job.digest:
        return Accepted((), job.count)
    if command.first != job.count:
        return Refused(
            Reason.CONFLICT,
            f"job {job.job_id} has {job.count} items; these would start at {command.first}",
        )
    if not command.items:
        return Accepted((), job.count)
    if job.count + len(command.items) > MOST_TASKS:
        return _too_large(job.count + len(command.items))
    added = e.TasksAdded(
        job_id=job.job_id,
        first=Index(command.first),
        items=command.items,
        digest=command.digest,
    )
    return Accepted((added,), job.count + len(command.items))


def seal(state: State, command: c.SealJob, now: Instant) -> Decision:
    job = state.jobs.get(command.job_id)
    if job is None:
        return unknown(state, command.job_id)
    if job.service is not None:
        told = f"job {job.job_id} is a service: it is ended, not sealed"
        return Refused(Reason.INVALID_TRANSITION, told)
    if job.sealed:
        if job.count == command.count:
            return Accepted(())
        return Refused(Reason.JOB_SEALED, f"job {job.job_id} is sealed with {job.count} tasks")
    if command.count != job.count:
        return Refused(
            Reason.CONFLICT, f"job {job.job_id} has {job.count} items, not {command.count}"
        )
    return Accepted((sealed(job, interrupted=command.interrupted),))


def sealed(job: Job, *, interrupted: bool) -> e.JobSealed:
    return e.JobSealed(job_id=job.job_id, count=job.count, interrupted=interrupted)


def no_task(job: Job, index: int) -> Refused:
    told = f"job {job.job_id} has no task {index}; `holdfast task list {job.job_id}` has them all"
    return Refused(Reason.NOT_FOUND, told)


def unknown(state: State, job_id: JobId) -> Refused:
    """Why a job is not here: it never was, or it finished long ago and only the log has it."""
    if _is_numbered(state, job_id):
        return _gone(job_id)
    return Refused(Reason.NOT_FOUND, f"there is no job {job_id}")


def _gone(job_id: JobId) -> Refused:
    return Refused(
        Reason.GONE,
        f"job {job_id} finished and left memory; the log has it: "
        f"holdfast job show {job_id} --data DIR",
    )


def _too_large(count: int) -> Refused:
    return Refused(Reason.TOO_LARGE, f"{count} tasks; a job has at most {MOST_TASKS}")


def _is_numbered(state: State, job_id: JobId) -> bool:
    """Whether this number was given to a job. The length is bounded before it is read: a name is
    a stranger's text, and numbers of any length are slow to read and cannot be written."""
    is_number = job_id.isascii() and job_id.isdigit() and len(job_id) <= NUMBER_DIGITS_MAX
    return is_number and 0 < int(job_id) < state.next_job


def _repeat(state: State, command: c.SubmitJob, job_id: JobId, digest: bytes) -> Decision:
    if digest != command.digest:
        return Refused(
            Reason.KEY_REUSED,
            f"key {command.key!r} belongs to job {job_id}, which asked for something else; take "
            "another key, or replace that job (--existing replace, existing='replace')",
        )
    if job_id not in state.jobs:
        return _gone(job_id)
    return Accepted((), job_id)


def _after(now: Instant, span_ms: int) -> Instant:
    return Instant(now + span_ms) if span_ms else NEVER
