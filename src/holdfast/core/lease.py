"""The lease: sole tenure of one attempt, living and dying with its task.

A lease is fields of its task's record; this file holds its table, and the index that answers "what
does this worker hold", which is derived from those records and rebuilt from them.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from holdfast.core import events as e
from holdfast.core.ids import NEVER, Instant, LeaseId, WorkerId
from holdfast.core.task import Task


class LeaseState(StrEnum):
    """A lease is live until its attempt ends; it never comes back."""

    LIVE = "LIVE"
    ENDED = "ENDED"


TRANSITIONS: Final[Mapping[LeaseState, Mapping[type[e.Event], LeaseState]]] = {
    LeaseState.LIVE: {
        e.AttemptsStarted: LeaseState.LIVE,
        e.LeasesExtended: LeaseState.LIVE,
        e.LeasesRearmed: LeaseState.LIVE,
        e.TasksCompleted: LeaseState.ENDED,
        e.TaskCommitted: LeaseState.ENDED,
        e.AttemptsReturned: LeaseState.ENDED,
        e.TasksQuarantined: LeaseState.ENDED,
        e.TasksKilled: LeaseState.ENDED,
        e.TasksSetAside: LeaseState.ENDED,
    },
    LeaseState.ENDED: {},
}


class Holder(Struct):
    """One incarnation of a worker, as far as it holds anything. Derived, never written.

    `load` counts the leases of each slot; `soonest` is a lower bound of the expiries, so that a
    tick passes by a holder with nothing due. `changes` counts how often leases came or went.
    """

    worker: WorkerId
    incarnation: int
    leases: dict[LeaseId, Task]
    load: dict[int, int]
    soonest: Instant = NEVER
    changes: int = 0

    def add(self, task: Task) -> None:
        self.changes += 1
        self.leases[task.lease_id] = task
        self.load[task.slot] = self.load.get(task.slot, 0) + 1
        if task.expires_at != NEVER and (self.soonest == NEVER or task.expires_at < self.soonest):
            self.soonest = task.expires_at

    def find_soonest(self) -> None:
        """Bring the lower bound up to date, after renewals moved every expiry."""
        timed = [task.expires_at for task in self.leases.values() if task.expires_at != NEVER]
        self.soonest = min(timed, default=NEVER)

    def due(self, now: Instant) -> list[Task]:
        """The leases past their time, in the order they were granted."""
        if self.soonest == NEVER or self.soonest > now:
            return []
        return [t for t in self.leases.values() if t.expires_at != NEVER and t.expires_at <= now]
