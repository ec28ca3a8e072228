"""Which tasks, leases, jobs and epochs an event names, whatever else it says.

Read from the shape of events, so that one which is added later is seen as well: an `index` is a
task of the job that the event names, a span is many of them, a `lease_id` is a lease.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from holdfast.core import events as e
from holdfast.core.ids import Index, JobId


class Named(Struct):
    """The highest of each that was named, and every task. `forgotten` are jobs that have left
    memory: all their tasks had ended."""

    tasks: dict[JobId, set[Index]] = {}
    forgotten: dict[JobId, None] = {}
    submitted: dict[JobId, e.JobSubmitted] = {}
    fed: dict[JobId, int] = {}
    fired: dict[str, int] = {}
    lease: int = 0
    job: int = 0
    epoch: int = 0

    def take(self, event: e.AnyEvent) -> None:
        """Note what this event names."""
        job_id = getattr(event, "job_id", None)
        if job_id is not None:
            self._job(job_id)
            indices = set(indices_of(event))
            if indices:
                self.tasks.setdefault(job_id, set()).update(indices)
        self.lease = max([self.lease, *leases_of(event)])
        if isinstance(event, e.JobSubmitted):
            self.submitted[event.job_id] = event
        elif isinstance(event, e.TasksAdded):
            self.fed[event.job_id] = self.fed.get(event.job_id, 0) + len(event.items)
        elif isinstance(event, e.JobsForgotten):
            for forgotten in event.job_ids:
                self._job(forgotten)
                self.forgotten[forgotten] = None
        elif isinstance(event, e.ScheduleFired):
            self.fired[event.name] = self.fired.get(event.name, 0) + 1
        elif isinstance(event, e.LogOpened | e.LogForked):
            self.epoch = max(self.epoch, event.epoch)

    def _job(self, job_id: str) -> None:
        if job_id.isascii() and job_id.isdigit():
            self.job = max(self.job, int(job_id))


def indices_of(event: e.AnyEvent) -> Iterator[Index]:
    """The tasks that an event names. One that adds tasks names none: they were not there."""
    if isinstance(event, e.TasksAdded):
        return
    for name in event.__struct_fields__:
        value = getattr(event, name)
        if name == "index":
            yield value
        elif name == "indices":
            yield from value
        elif isinstance(value, tuple | Struct):
            for part in _parts(value):
                yield from _named_by(part)


def leases_of(event: e.AnyEvent) -> Iterator[int]:
    """The leases that an event names."""
    if isinstance(event, e.LeasesGranted):
        yield from e.lease_ids(event)
    for name in event.__struct_fields__:
        value = getattr(event, name)
        if name == "lease_id":
            yield value
        for part in _parts(value):
            if isinstance(part, Struct) and "lease_id" in part.__struct_fields__:
                yield part.lease_id  # type: ignore[attr-defined]


def _named_by(part: Any) -> Iterable[Index]:
    if isinstance(part, e.Span):
        return map(Index, range(part.first, part.last + 1))
    if isinstance(part, Struct) and "index" in part.__struct_fields__:
        return (part.index,)  # type: ignore[attr-defined]
    return ()


def _parts(value: Any) -> Iterable[Any]:
    return value if isinstance(value, tuple) else (value,)
