"""Why a task is in quarantine, in one word.

The word is derived from what is recorded: the end that spent the budget, with what the worker said
of how it died, or the decision that put the task aside. Nothing of it is stored.
"""

from enum import StrEnum
from typing import Final

from holdfast.core import events as e
from holdfast.core.attempt import EndReason
from holdfast.core.commands_decided import ASIDE_CAUSES


class Why(StrEnum):
    """The reasons people filter by. They stay."""

    FAILED = "failed"
    TIMEOUT = "timeout"
    OOM = "oom"
    WORKER_LOST = "worker_lost"
    UNENCODABLE = "unencodable"
    DEPENDENCY = "dependency"
    OPERATOR = "operator"
    UNKNOWN = "unknown"


TOOK_TOO_MUCH: Final = "took more memory than"
RAN_OUT: Final = "ran out of memory"
"""How a worker says that memory was the cause. A kill that may as well have come from a person is
told otherwise, and counts as a lost worker."""

_OF_MEMORY: Final = ("MemoryError", "bad_alloc")
_UNENCODABLE: Final = "CannotEncode"

_BY_END: Final = {
    EndReason.FAILED: Why.FAILED,
    EndReason.TIMED_OUT: Why.TIMEOUT,
    EndReason.LEASE_EXPIRED: Why.WORKER_LOST,
    EndReason.WORKER_LOST: Why.WORKER_LOST,
    EndReason.UNDELIVERED: Why.WORKER_LOST,
}

_BY_CAUSE: Final = {cause: Why(cause) for cause in ASIDE_CAUSES}


def reason_of(end: e.End) -> Why:
    """Why the task of this end, which spent its budget, is in quarantine."""
    why = _BY_END.get(EndReason(end.reason), Why.UNKNOWN)
    headline = end.error.partition("\n")[0]
    if why in (Why.FAILED, Why.WORKER_LOST):
        kind = headline.partition(":")[0].rpartition(".")[2]
        if TOOK_TOO_MUCH in headline or RAN_OUT in headline or kind in _OF_MEMORY:
            return Why.OOM
        if kind == _UNENCODABLE and why is Why.FAILED:
            return Why.UNENCODABLE
    return why


def cause_of(event: e.TasksSetAside) -> Why:
    """Why the tasks of a decision are in quarantine: whose it was."""
    return _BY_CAUSE.get(event.cause, Why.UNKNOWN)
