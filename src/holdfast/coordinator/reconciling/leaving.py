"""Replicas that were told to end and may still run: for everybody else they are over.

A process has its grace. Until its worker no longer tells of it, what belongs to a runtime is not
gone, and takes room. A worker that is silent for a term is lost, and with it whatever ran there:
should it ever come back, it is told to end it. Kept in memory: a coordinator that finds a runtime
in the middle of its deletion gives every worker a term to say what it still ends of it.
"""

from collections.abc import Iterable
from typing import Final

from holdfast.coordinator.reconciling.deployment import owner_of
from holdfast.coordinator.reconciling.replicas import Stood
from holdfast.coordinator.registry import Registry
from holdfast.core.ids import NEVER, Instant, LeaseId, WorkerId
from holdfast.core.state import State
from holdfast.runtimes.resource import KIND as RUNTIME
from holdfast.wire.exchange import Lingering

LOOK_MS: Final = 500
"""How often it is looked whether they are gone: no event says so."""


class Leaving:
    """`opened` is when this coordinator began."""

    def __init__(self, state: State, registry: Registry, opened: Instant) -> None:
        self._state = state
        self._registry = registry
        self._opened = opened
        self._inherited = {
            name
            for (kind, name), resource in state.resources.items()
            if kind == RUNTIME and resource.deleted_at != NEVER
        }
        self._of: dict[str, dict[LeaseId, tuple[WorkerId, int]]] = {}

    def note(self, name: str, replicas: Iterable[Stood]) -> None:
        """These are about to be told to end."""
        for replica in replicas:
            job = self._state.jobs.get(replica.job_id)
            task = (job.tasks or {}).get(replica.index) if job is not None else None
            if task is not None and task.lease_id:
                known = self._of.setdefault(name, {})
                known[task.lease_id] = (task.worker, task.incarnation)

    def count(self, name: str) -> int:
        """How many of a deployment may still run."""
        known = self._of.get(name)
        if not known:
            return 0
        gone = [lease_id for lease_id, where in known.items() if not self._runs(lease_id, *where)]
        for lease_id in gone:
            del known[lease_id]
        if not known:
            del self._of[name]
        return len(known)

    def is_unheard(self, owner: str, now: Instant) -> bool:
        """Whether workers may still have to tell what they end of a runtime, because a coordinator
        before this one told them to."""
        return self._is_inherited(owner) and now - self._opened < self._registry.term_ms

    def left_of(self, owner: str) -> int:
        """How many processes of such a runtime workers tell of."""
        if not self._is_inherited(owner):
            return 0
        return sum(
            self._owner_of(attempt) == owner
            for worker in self._registry.workers.values()
            if worker.lingering and self._registry.is_alive(worker)
            for attempt in worker.lingering
        )

    def _is_inherited(self, owner: str) -> bool:
        resource = self._state.resources.get((RUNTIME, owner))
        is_going = resource is not None and resource.deleted_at != NEVER
        return is_going and owner in self._inherited

    def _owner_of(self, attempt: Lingering) -> str:
        job = self._state.jobs.get(attempt.job_id)
        return owner_of(job.spec) if job is not None else ""

    def _runs(self, lease_id: LeaseId, name: WorkerId, incarnation: int) -> bool:
        worker = self._registry.workers.get(name)
        if worker is None or worker.incarnation != incarnation:
            return False
        if not self._registry.is_alive(worker):
            return False
        is_told = any(attempt.lease_id == lease_id for attempt in worker.lingering)
        return is_told or lease_id in worker.known()
