"""Whatever runs has a worker: the holder of each lease, compared with who is there.

A worker that has just come, or has just gone, is told of by one side before the other. So a lease
is only suspected by a look, and is wrong when two looks one after the other find the same.
"""

from collections.abc import Iterator

from holdfast.coordinator.exchanges import Exchanges
from holdfast.core.ids import NEVER, Instant, LeaseId, task_name
from holdfast.core.lease import Holder
from holdfast.core.state import State
from holdfast.core.task import Task, TaskState


class Presence:
    """Remembers whom the last look suspected."""

    def __init__(self, state: State, exchanges: Exchanges, term_ms: int) -> None:
        self._state = state
        self._exchanges = exchanges
        self._term_ms = term_ms
        self._suspected: frozenset[LeaseId] = frozenset()

    def look(self, now: Instant) -> list[str]:
        """What runs and has nobody, now and when it was looked at last."""
        suspects = {task.lease_id: task for task in self._suspects(now)}
        confirmed = [suspects[lease] for lease in sorted(suspects.keys() & self._suspected)]
        self._suspected = frozenset(suspects)
        return [
            f"S2 {task_name(task.job_id, task.index)}: it runs under lease {task.lease_id}, and "
            f"its holder {task.worker}:{task.incarnation} is not there"
            for task in confirmed
        ]

    def _suspects(self, now: Instant) -> Iterator[Task]:
        for holder in self._state.holders.values():
            if holder.leases and not self._is_there(holder):
                for task in holder.leases.values():
                    # Until its lease is over, whoever has it may come back.
                    over = task.expires_at == NEVER or task.expires_at + self._term_ms < now
                    if task.state is TaskState.RUNNING and over:
                        yield task

    def _is_there(self, holder: Holder) -> bool:
        worker = self._exchanges.workers.get(holder.worker)
        return (
            worker is not None
            and worker.incarnation == holder.incarnation
            and self._exchanges.registry.is_alive(worker)
        )
