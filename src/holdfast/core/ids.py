"""One type per identifier. An instant is integer milliseconds; a duration ends in `_ms`."""

from typing import NewType

JobId = NewType("JobId", str)
WorkerId = NewType("WorkerId", str)

# The fencing token: strictly increasing over the life of a log, never reused.
LeaseId = NewType("LeaseId", int)

# A task is named by its job and its place in it; `JOB/INDEX` is only its spelling.
Index = NewType("Index", int)

# The place of a record in the log: 1, 2, 3 … without gaps.
Position = NewType("Position", int)

# Milliseconds of log time: anchored once at open, never going back.
Instant = NewType("Instant", int)

NEVER = Instant(0)
"""An instant that has not come (`started_at`) or never will (`expires_at`)."""

NOWHERE = Position(0)
"""Before the first record: nothing was written yet."""


def task_name(job_id: str, index: int) -> str:
    return f"{job_id}/{index}"


def attempt_name(job_id: str, index: int, attempt: int) -> str:
    return f"{job_id}/{index}:{attempt}"


def effect_name(job_id: str, index: int, number: int) -> str:
    """How people call an entry that a task's commit owes: `JOB/INDEX.N`."""
    return f"{job_id}/{index}.{number}"


def parse_task_name(name: str) -> tuple[JobId, Index] | None:
    """The job and index of `JOB/INDEX`, or None where the text is not of that form."""
    job_id, slash, index = name.rpartition("/")
    if not slash or not job_id or not (index.isascii() and index.isdigit()):
        return None
    return JobId(job_id), Index(int(index))


def parse_effect_name(name: str) -> tuple[JobId, Index, int] | None:
    """The job, index and number of `JOB/INDEX.N`, or None where the text is not of that form."""
    task, dot, number = name.rpartition(".")
    named = parse_task_name(task)
    if not dot or named is None or not (number.isascii() and number.isdigit()):
        return None
    return (*named, int(number))
