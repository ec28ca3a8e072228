"""Which job the code belongs to that is running: told by its environment, or in a thread by its
lane."""

import os
from contextvars import ContextVar
from typing import Final

JOB_VARIABLE: Final = "HOLDFAST_JOB_ID"

# A thread has no environment of its own.
_JOB: Final[ContextVar[str]] = ContextVar("holdfast_job", default="")


def enter_job(job_id: str) -> None:
    """What this thread runs from now on belongs to this job."""
    _JOB.set(job_id)


def current_job() -> str:
    """The job that the caller is part of; empty outside any."""
    return _JOB.get() or os.environ.get(JOB_VARIABLE, "")
