"""Whose an attempt is or was: who may speak of it after it has ended.

What is under way is in the state. What is over is in the log, and a small memory spares the disk,
because the output of a short task comes right after its end.
"""

import asyncio
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from msgspec import Struct

from holdfast.coordinator.history import last_end, walk_ends
from holdfast.coordinator.inspect import HistoryGone
from holdfast.coordinator.serving import Served
from holdfast.core import events as e
from holdfast.core.ids import NEVER, Index, Instant, JobId, LeaseId, Position, WorkerId
from holdfast.core.job import Job
from holdfast.core.record import Record
from holdfast.core.state import State

REMEMBERED: Final = 20_000

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
        # Many ask at once about attempts that one record ended: it is read once.
        self._reading: dict[Position, asyncio.Task[None]] = {}

    async def of(self, job_of: Callable[[State], Job], index: Index, attempt: int) -> Tenant | None:
        """Who holds or held this attempt; None where nobody did, as far as the log still tells.
        `job_of` finds the job, or raises."""
        found, job_id, position = await self._served.ask(
            lambda k: _look(job_of(k.state), index, attempt)
        )
        key = (job_id, index, attempt)
        if found is not None or not position or key in self._over:
            return found or self._over.get(key)
        if position not in self._reading:
            self._reading[position] = asyncio.ensure_future(self._learn(position))
        await asyncio.shield(self._reading[position])
        if key not in self._over:
            # An earlier attempt: its end is further back.
            tenant = await asyncio.to_thread(self._walk, job_id, index, attempt, position)
            self._remember({} if tenant is None else {key: tenant})
        return self._over.get(key)

    async def _learn(self, position: Position) -> None:
        try:
            self._remember(await asyncio.to_thread(self._ends_at, position))
        finally:
            del self._reading[position]

    def _remember(self, found: dict[AttemptKey, Tenant]) -> None:
        self._over.update(found)
        for key in list(islice(self._over, max(0, len(self._over) - REMEMBERED))):
            del self._over[key]

    def _ends_at(self, position: Position) -> dict[AttemptKey, Tenant]:
        """All attempts that this record ended."""
        try:
            told = self._served.told(position)
        except HistoryGone:
            return {}
        at = told.record.at
        return {
            (job_id, fate.index, fate.attempt): Tenant(WorkerId(worker), 0, fate.lease_id, at)
            for job_id, worker, fate in ends_in(told.record)
        }

    def _walk(self, job_id: JobId, index: Index, attempt: int, position: Position) -> Tenant | None:
        for ended in walk_ends(self._served.told, job_id, index, position):
            if ended.fate.attempt == attempt:
                lease_id, at = ended.fate.lease_id, ended.told.record.at
                return Tenant(WorkerId(ended.worker), 0, lease_id, at)
            if ended.fate.attempt < attempt:
                return None
        return None


def ends_in(record: Record) -> Iterator[tuple[JobId, str, e.Commit | e.End]]:
    """Every attempt that a record ended: its job, its worker, and how."""
    for event in record.events:
        if isinstance(event, e.TasksCompleted):
            for commit in event.commits:
                yield event.job_id, event.worker, commit
        elif isinstance(event, e.TaskCommitted):
            yield event.job_id, event.worker, event.commit
        elif isinstance(event, e.WithEnds):
            for end in event.ends:
                yield event.job_id, end.worker, end


def is_live(job: Job | None, index: int, attempt: int) -> bool:
    """Whether somebody holds this attempt now."""
    task = (job.tasks or {}).get(Index(index)) if job is not None else None
    return task is not None and bool(task.lease_id) and task.attempt == attempt


def _look(job: Job, index: Index, attempt: int) -> tuple[Tenant | None, JobId, Position]:
    task = (job.tasks or {}).get(index)
    if task is not None and is_live(job, index, attempt):
        tenant = Tenant(task.worker, task.incarnation, task.lease_id)
        return tenant, job.job_id, Position(0)
    return None, job.job_id, last_end(job, index) if index < job.count else Position(0)
