"""Whose an attempt is or was: who may speak of it after it has ended.

What is under way is in the state. What is over is in the log, and a small memory spares the disk,
because the output of a short task comes right after its end.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from holdfast.coordinator.history import last_end, walk_ends
from holdfast.coordinator.serving import Served
from holdfast.core.ids import NEVER, Index, Instant, JobId, LeaseId, Position, WorkerId
from holdfast.core.job import Job
from holdfast.core.state import State

REMEMBERED: Final = 10_000

AttemptKey = tuple[JobId, Index, int]


class Tenant(Struct, frozen=True, gc=False):
    """Who held an attempt, and when that was over; `over_at` zero while they hold it.
    `incarnation` zero: the log does not say which."""

    worker: WorkerId
    incarnation: int
    lease_id: LeaseId
    over_at: Instant = NEVER


class Tenants:
    """Used on the loop of `served`."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._over: dict[AttemptKey, Tenant] = {}

    async def of(self, job_of: Callable[[State], Job], index: Index, attempt: int) -> Tenant | None:
        """Who holds or held this attempt; None where nobody did, as far as the log still tells.
        `job_of` finds the job, or raises."""
        state_then = await self._served.ask(lambda k: _look(job_of(k.state), index, attempt))
        found, job_id, position = state_then
        if found is not None or not position:
            return found
        key = (job_id, index, attempt)
        if key not in self._over:
            tenant = await asyncio.to_thread(self._walk, job_id, index, attempt, position)
            if tenant is None:
                return None
            while len(self._over) >= REMEMBERED:
                del self._over[next(iter(self._over))]
            self._over[key] = tenant
        return self._over[key]

    def _walk(self, job_id: JobId, index: Index, attempt: int, position: Position) -> Tenant | None:
        for ended in walk_ends(self._served.told, job_id, index, position):
            if ended.fate.attempt == attempt:
                lease_id, at = ended.fate.lease_id, ended.told.record.at
                return Tenant(WorkerId(ended.worker), 0, lease_id, at)
            if ended.fate.attempt < attempt:
                return None
        return None


def is_live(job: Job | None, index: int, attempt: int) -> bool:
    """Whether somebody holds this attempt now."""
    task = (job.tasks or {}).get(Index(index)) if job is not None else None
    return task is not None and bool(task.lease_id) and task.attempt == attempt


def attempts_so_far(job: Job, index: Index) -> int:
    """How many attempts of a task there were, the one under way included."""
    task = (job.tasks or {}).get(index)
    if task is not None:
        return task.attempt
    if job.attempts is None or index >= len(job.attempts):
        return 0
    return job.attempts[index]


def _look(job: Job, index: Index, attempt: int) -> tuple[Tenant | None, JobId, Position]:
    task = (job.tasks or {}).get(index)
    if task is not None and is_live(job, index, attempt):
        tenant = Tenant(task.worker, task.incarnation, task.lease_id)
        return tenant, job.job_id, Position(0)
    return None, job.job_id, last_end(job, index) if index < job.count else Position(0)
