"""Replicas that were told to end and may still run: for everybody else they are over.

A process has its grace. Until its worker no longer tells of it, what belongs to a runtime is not
gone, and takes room. A worker that is silent for a term is lost, and with it whatever ran there:
should it ever come back, it is told to end it. Kept in memory: after a restart of the coordinator
nobody waits for them, though the workers end them all the same.
"""

from collections.abc import Iterable
from typing import Final

from holdfast.coordinator.reconciling.replicas import Stood
from holdfast.coordinator.registry import Registry
from holdfast.core.ids import LeaseId, WorkerId
from holdfast.core.state import State

LOOK_MS: Final = 500
"""How often it is looked whether they are gone: no event says so."""


class Leaving:
    def __init__(self, state: State, registry: Registry) -> None:
        self._state = state
        self._registry = registry
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

    def _runs(self, lease_id: LeaseId, name: WorkerId, incarnation: int) -> bool:
        worker = self._registry.workers.get(name)
        if worker is None or worker.incarnation != incarnation:
            return False
        if not self._registry.is_alive(worker):
            return False
        is_told = any(attempt.lease_id == lease_id for attempt in worker.lingering)
        return is_told or lease_id in worker.known()
