"""Submitting, feeding and sealing jobs."""

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decision import Accepted, Decision, Reason, Refused
from holdfast.core.ids import NEVER, Index, Instant, JobId
from holdfast.core.job import Job
from holdfast.core.spec import NO_LIMIT, retry_problem
from holdfast.core.state import State

LARGEST = 10**15
"""Above every honest amount (30,000 years in milliseconds), and far from what cannot be written."""

NUMBER_DIGITS_MAX = 15

MOST_TASKS = 100_000_000
"""A task costs at least a byte of memory in every process that reads the log."""


def submit(state: State, command: c.SubmitJob, now: Instant) -> Decision:
    """A key that is known finds its job, if the body is the same; the answer is the job's id."""
    if command.key:
        known = state.keys.get(command.key)
        if known is not None:
            return _repeat(state, command, known.job_id, known.digest)
    count = len(command.items) or command.count
    problem = _problem(command, count)
    if problem:
        return Refused(Reason.INVALID, problem)
    if count > MOST_TASKS:
        return _too_large(count)
    job_id = command.job_id or JobId(str(state.next_job))
    if job_id in state.jobs or _is_numbered(state, job_id):
        return Refused(Reason.CONFLICT, f"job {job_id} exists already, or did")
    if command.job_id.isdigit() and len(job_id) > NUMBER_DIGITS_MAX:
        return Refused(Reason.INVALID, f"a job of its own name is called {job_id[:20]}…")
    spec = command.spec
    submitted = e.JobSubmitted(
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
        # Nobody can take a task before its time, so the wait for somebody begins then.
        schedule_by=_after(Instant(now + command.delay_ms), spec.schedule_timeout_ms),
    )
    return Accepted((submitted,), job_id)


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
            f"key {command.key!r} belongs to job {job_id}, which asked for something else",
        )
    if job_id not in state.jobs:
        return _gone(job_id)
    return Accepted((), job_id)


def _problem(command: c.SubmitJob, count: int) -> str:
    """What is wrong with a submit, in words; empty when nothing is."""
    spec = command.spec
    if count < 0 or (count == 0 and command.sealed):
        return f"a job needs at least one task, not {count}"
    if command.items and command.count and command.count != len(command.items):
        return f"{command.count} tasks were announced and {len(command.items)} came"
    amounts = {
        "retries": spec.retries,
        "max_losses": spec.max_losses,
        "timeout_ms": spec.timeout_ms,
        "job_timeout_ms": spec.job_timeout_ms,
        "schedule_timeout_ms": spec.schedule_timeout_ms,
        "delay_ms": command.delay_ms,
        "max_parallel": spec.max_parallel,
        "max_failed_tasks": spec.max_failed_tasks - NO_LIMIT,
        "cpus_milli": spec.cpus_milli,
        "memory_bytes": spec.memory_bytes,
        "gpus": spec.gpus,
        "not_before_wall": command.not_before_wall,
        "deadline_wall": command.deadline_wall,
    }
    wrong = [name for name, amount in amounts.items() if not 0 <= amount <= LARGEST]
    if wrong:
        return f"{', '.join(wrong)} cannot be negative, nor above {LARGEST}"
    if abs(spec.priority) > LARGEST:
        return f"a priority of {spec.priority}"
    return retry_problem(spec.retry)


def _after(now: Instant, span_ms: int) -> Instant:
    return Instant(now + span_ms) if span_ms else NEVER
