"""The five-state view of a task (document 001), all twenty-five pairs of it, and what we do.

Many people think of a job as PENDING, RUNNING, SUCCEEDED, FAILED or QUARANTINED. Here FAILED is
the fate of an attempt and never of a task that will run again: the failure and what follows from
it are one record. Each pair says which command asks for it and which event answers, or how the
answer is no. Tests play every pair against the real decisions.
"""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from holdfast.core import commands as c
from holdfast.core import events as e


class View(StrEnum):
    """A task as five states."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    QUARANTINED = "QUARANTINED"


class Verdict(StrEnum):
    """How a pair is answered: it happens, it is a repeat that adds no fact, or it is refused."""

    MOVES = "moves"
    REPEATS = "repeats"
    REFUSED = "refused"


class Pair(Struct, frozen=True):
    """One pair of the view. `command` is what would ask for it, `event` what then becomes true.

    A pair without an event changes nothing. `note` says what the two names do not.
    """

    source: View
    target: View
    verdict: Verdict
    command: type[c.Command]
    event: type[e.Event] | None
    note: str


def _moves(
    source: View, target: View, command: type[c.Command], event: type[e.Event], note: str
) -> Pair:
    return Pair(source, target, Verdict.MOVES, command, event, note)


def _refused(source: View, target: View, command: type[c.Command], note: str) -> Pair:
    return Pair(source, target, Verdict.REFUSED, command, None, note)


def _repeats(source: View, target: View, command: type[c.Command], note: str) -> Pair:
    return Pair(source, target, Verdict.REPEATS, command, None, note)


_P, _R, _S, _F, _Q = View.PENDING, View.RUNNING, View.SUCCEEDED, View.FAILED, View.QUARANTINED

PAIRS: Final[tuple[Pair, ...]] = (
    _moves(_P, _P, c.RescheduleTask, e.TaskRescheduled, "another earliest time"),
    _moves(_P, _R, c.GrantLeases, e.LeasesGranted, "then StartAttempts when it begins"),
    _refused(_P, _S, c.CommitTasks, "nobody holds the task: lease_lost"),
    _refused(_P, _F, c.FailAttempt, "nobody holds the task: lease_lost"),
    _refused(_P, _Q, c.FailAttempt, "nobody holds the task: lease_lost"),
    _moves(_R, _P, c.ReleaseAttempts, e.AttemptsReturned, "the attempt ends, nothing is charged"),
    _moves(_R, _R, c.ExtendLeases, e.LeasesExtended, "a second StartAttempts adds no fact"),
    _moves(_R, _S, c.CommitTasks, e.TasksCompleted, "or TaskCommitted, where deliveries are owed"),
    _moves(_R, _F, c.FailAttempt, e.AttemptsReturned, "the attempt failed; its task waits again"),
    _moves(_R, _Q, c.FailAttempt, e.TasksQuarantined, "failing and giving up are one record"),
    _refused(_S, _P, c.RetryTasks, "what committed never runs again: invalid_transition"),
    _refused(_S, _R, c.GrantLeases, "what committed never runs again: invalid_transition"),
    _repeats(_S, _S, c.CommitTasks, "the same lease is told COMMITTED again"),
    _refused(_S, _F, c.FailAttempt, "its lease ended with the commit: lease_lost"),
    _refused(_S, _Q, c.FailAttempt, "its lease ended with the commit: lease_lost"),
    _moves(_F, _P, c.FailAttempt, e.AttemptsReturned, "decided in the record of the failure"),
    _refused(_F, _R, c.GrantLeases, "while the task backs off: invalid_transition"),
    _refused(_F, _S, c.CommitTasks, "its lease ended with the failure: lease_lost"),
    _repeats(_F, _F, c.FailAttempt, "a second report of the same end charges nothing"),
    _moves(_F, _Q, c.FailAttempt, e.TasksQuarantined, "decided in the record of the failure"),
    _moves(_Q, _P, c.RetryTasks, e.TasksRetried, "a new generation with fresh budgets"),
    _refused(_Q, _R, c.GrantLeases, "an operator must send it back first: invalid_transition"),
    _refused(_Q, _S, c.CommitTasks, "its lease ended with the last failure: lease_lost"),
    _refused(_Q, _F, c.FailAttempt, "its lease ended with the last failure: lease_lost"),
    _repeats(_Q, _Q, c.FailAttempt, "a second report of the same end charges nothing"),
)
