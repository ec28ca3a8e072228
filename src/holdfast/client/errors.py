"""Everything a user of Holdfast may want to catch.

HoldfastError
├── Refused            the request was understood and not accepted; `code` says why
│   ├── DiskLow        the disk under the log is short of room or slow; try again later
│   └── NotAllowed     the server does not know this token, or the token may not do this
├── TaskFailed         a task ended without a result; carries the traceback of user code
├── JobFailed          a whole job ended without success
├── NoEndpoint         nobody takes requests of a service now
└── Closed             this handle's program part was closed, or belongs to another process
OperatingError         the world failed (LogFailed, LogInUse, LogDamaged, NewerFormat, DiskFull,
                       Unreachable: a server did not answer, ResultLost: a large result is
                       missing or damaged on the disk)
CannotName, CannotFind, CannotEncode, MissingGuard    something about the function itself
NotInTask              `holdfast.current()` where there is no task, or not one that can do this
CannotPromise          what a task's commit cannot take along
├── UnknownSink
├── EffectTooLarge
└── DuplicateEffect
LeaseLost              a task may not commit: another attempt has it, or has committed it
"""

from holdfast.coordinator.inspect import DiskFull, LogDamaged, LogInUse, NewerFormat
from holdfast.core.errors import LogFailed, OperatingError
from holdfast.wire.errors import ResultLost, Unreachable
from holdfast.worker.errors import (
    CannotPromise,
    DuplicateEffect,
    EffectTooLarge,
    LeaseLost,
    NotInTask,
    UnknownSink,
)
from holdfast.worker.functions import CannotFind, CannotName, MissingGuard
from holdfast.worker.payloads import CannotEncode

__all__ = [
    "CannotEncode",
    "CannotFind",
    "CannotName",
    "CannotPromise",
    "Closed",
    "DiskFull",
    "DiskLow",
    "DuplicateEffect",
    "EffectTooLarge",
    "HoldfastError",
    "JobFailed",
    "LeaseLost",
    "LogDamaged",
    "LogFailed",
    "LogInUse",
    "MissingGuard",
    "NewerFormat",
    "NoEndpoint",
    "NotAllowed",
    "NotInTask",
    "OperatingError",
    "Refused",
    "ResultLost",
    "TaskFailed",
    "UnknownSink",
    "Unreachable",
]


class HoldfastError(Exception):
    """What Holdfast itself has to say to its user."""


class Refused(HoldfastError):
    """The request was understood and not accepted. Nothing changed."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class NotAllowed(Refused):
    """The server does not know this token, or the token may not do this."""


class DiskLow(Refused):
    """The disk that holds the log is short of room, or too slow for what waits already. What was
    taken before goes on; the same call succeeds when there is room again."""


def refused(code: str, message: str) -> Refused:
    """The exception for a refusal by its stable name."""
    kind = DiskLow if code in ("disk_low", "disk_full", "disk_slow") else Refused
    return kind(code, message)


class TaskFailed(HoldfastError):
    """A task ended without a result. `traceback` is that of the user's code, as text."""

    def __init__(self, task_id: str, state: str, error: str, traceback: str) -> None:
        told = f"task {task_id} is {state}"
        if error:
            told += f": {error}"
        if traceback:
            told += f"\n\n{traceback.rstrip()}"
        super().__init__(told)
        self.task_id = task_id
        self.state = state
        self.error = error
        self.traceback = traceback


class JobFailed(HoldfastError):
    """A job ended, and not well. `state` and `reason` are those of the job."""

    def __init__(self, job_id: str, state: str, reason: str, detail: str = "") -> None:
        why = f" ({reason})" if reason else ""
        super().__init__(f"job {job_id} is {state}{why}" + (f": {detail}" if detail else ""))
        self.job_id = job_id
        self.state = state
        self.reason = reason


class NoEndpoint(HoldfastError):
    """Nobody takes requests of this service now."""


class Closed(HoldfastError):
    """The folder or connection was closed, or this is a forked copy that never owned it."""
