"""The attempt: one try of a task, with a fate of its own. COMMITTED is the line."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from holdfast.core import events as e


class AttemptStatus(StrEnum):
    """How far one try has come."""

    LEASED = "LEASED"
    IN_PROGRESS = "IN_PROGRESS"
    COMMITTED = "COMMITTED"
    DONE = "DONE"
    ABORTED = "ABORTED"


class EndReason(StrEnum):
    """Why an attempt was aborted. Exactly one, and it alone decides what is charged."""

    FAILED = "failed"
    TIMED_OUT = "timed_out"
    LEASE_EXPIRED = "lease_expired"
    WORKER_LOST = "worker_lost"
    PREEMPTED = "preempted"
    KILLED = "killed"
    RELEASED = "released"
    UNDELIVERED = "undelivered"
    DUPLICATE = "duplicate"
    SIBLING_FAILED = "sibling_failed"
    STOPPED = "stopped"


TRANSITIONS: Final[Mapping[AttemptStatus, Mapping[type[e.Event], AttemptStatus]]] = {
    AttemptStatus.LEASED: {
        e.AttemptsStarted: AttemptStatus.IN_PROGRESS,
        e.AttemptsReturned: AttemptStatus.ABORTED,
        e.TasksQuarantined: AttemptStatus.ABORTED,
        e.TasksKilled: AttemptStatus.ABORTED,
        e.TasksSetAside: AttemptStatus.ABORTED,
    },
    AttemptStatus.IN_PROGRESS: {
        # A commit that owes nothing passes COMMITTED and DONE in one record.
        e.TasksCompleted: AttemptStatus.DONE,
        e.TaskCommitted: AttemptStatus.COMMITTED,
        e.AttemptsReturned: AttemptStatus.ABORTED,
        e.TasksQuarantined: AttemptStatus.ABORTED,
        e.TasksKilled: AttemptStatus.ABORTED,
        e.TasksSetAside: AttemptStatus.ABORTED,
    },
    AttemptStatus.COMMITTED: {
        e.EffectsDelivered: AttemptStatus.COMMITTED,
        e.DeliveryFailed: AttemptStatus.COMMITTED,
        e.EffectsParked: AttemptStatus.COMMITTED,
        e.EffectsRetried: AttemptStatus.COMMITTED,
        e.EffectsDiscarded: AttemptStatus.COMMITTED,
        e.TasksDone: AttemptStatus.DONE,
    },
    AttemptStatus.DONE: {},
    AttemptStatus.ABORTED: {},
}

CHARGES_FAILURES: Final = frozenset({EndReason.FAILED, EndReason.TIMED_OUT})
CHARGES_LOSSES_ONCE_STARTED: Final = frozenset({EndReason.LEASE_EXPIRED, EndReason.WORKER_LOST})
DEATHS: Final = frozenset(
    {EndReason.LEASE_EXPIRED, EndReason.WORKER_LOST, EndReason.UNDELIVERED}
)
"""Ends that say nothing of the task's own doing: the next attempt runs alone to find out."""

STRAYS_FREE: Final = 5
"""So many deaths in a row before a start cost nothing; each further one charges a loss."""
