"""What entries hold, read from the records that committed them: memory keeps none of it."""

from collections import OrderedDict
from typing import Final

from holdfast.coordinator.reporting import ReadRecord
from holdfast.core import events as e
from holdfast.core.debts import Owing
from holdfast.core.errors import BrokenInvariant
from holdfast.core.ids import Index, JobId, Position, task_name
from holdfast.core.owed import DebtName, Entry

CACHED_BYTES: Final = 4 * 1024 * 1024
"""So much of what was read last is kept: entries of one record are wanted one after another."""

Committed = dict[tuple[JobId, Index], e.TaskCommitted]


class Entries:
    def __init__(self, read: ReadRecord) -> None:
        self._read = read
        self._cached: OrderedDict[Position, tuple[Committed, int]] = OrderedDict()
        self._bytes = 0

    def of(self, owing: Owing) -> Entry:
        name = owing.name
        found = self._at(owing.position).get((name.job_id, name.index))
        if found is None:
            task = task_name(name.job_id, name.index)
            raise BrokenInvariant(f"record {owing.position} did not commit task {task}")
        return found.owed[name.number]

    def _at(self, position: Position) -> Committed:
        known = self._cached.get(position)
        if known is not None:
            self._cached.move_to_end(position)
            return known[0]
        commits = [x for x in self._read(position).events if isinstance(x, e.TaskCommitted)]
        read: Committed = {(event.job_id, event.commit.index): event for event in commits}
        size = sum(len(entry.body) for event in commits for entry in event.owed)
        self._cached[position] = (read, size)
        self._bytes += size
        while self._bytes > CACHED_BYTES and len(self._cached) > 1:
            self._bytes -= self._cached.popitem(last=False)[1][1]
        return read


def idempotency_key(log_id: str, name: DebtName, position: Position) -> str:
    """The same for ever, whoever delivers it and however often. `position` is its commit's."""
    return f"{log_id}:{task_name(name.job_id, name.index)}:{position}:{name.number}"
