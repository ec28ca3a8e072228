"""One job and the log that led to it, for a look that may take longer than a turn."""

from array import array
from collections.abc import Callable, Iterator

from msgspec import structs

from holdfast.coordinator.inspect import Told, told_by, told_in
from holdfast.core.ids import Index
from holdfast.core.job import Job
from holdfast.core.state import State
from holdfast.wal import FileLog


class JobPast:
    """A job as it was copied. Records may be read by any thread; that may wait for a disk."""

    def __init__(self, log: FileLog, job: Job, wall: Callable[[int], int]) -> None:
        self.state = State()
        self.state.jobs[job.job_id] = job
        self._log = log
        self._wall = wall

    def told(self, position: int) -> Told:
        return told_by(*self._log.record(position), position)

    def records(self, first: int, last: int) -> Iterator[Told]:
        return told_in(self._log.read(first), first, last) if first <= last else iter(())

    def wall(self, instant: int) -> int:
        return self._wall(instant)


def copied(job: Job, index: Index) -> Job:
    """What a look at one task needs, out of reach of what happens meanwhile."""
    task = (job.tasks or {}).get(index)
    return structs.replace(
        job,
        states=bytearray(job.states),
        payloads=None,
        tasks={} if task is None else {index: structs.replace(task)},
        attempts=None if job.attempts is None else array("I", job.attempts),
        ends=None if job.ends is None else array("Q", job.ends),
        due=None,
        later=None,
    )
