"""The records that outlive their segments: those that tasks of kept jobs point into."""

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush

from holdfast.core import events as e
from holdfast.core.record import Record, decode_record
from holdfast.core.state import State
from holdfast.wal import Frame, HistoryGone, KeptRecord, LogDamaged

ReadFrame = Callable[[int], tuple[Frame, bytes]]


def kept_records(
    read: ReadFrame, state: State, before: int, lost: list[int] | None = None
) -> Iterator[KeptRecord]:
    """The records older than `before` that the tasks of the jobs in memory point into, and those
    that these point into: results, errors and the attempts before them. Where some may be lost,
    `lost` takes their positions."""
    wanted: set[int] = set()
    for job in state.jobs.values():
        wanted.update(end for end in job.ends or () if 0 < end < before)
        for task in (job.tasks or {}).values():
            wanted.update(p for p in (task.previous, task.committed) if 0 < p < before)
    found: dict[int, KeptRecord] = {}
    waiting = [-position for position in wanted]
    heapify(waiting)
    while waiting:
        position = -heappop(waiting)
        try:
            frame, data = read(position)
        except (LogDamaged, HistoryGone):
            if lost is None:
                raise
            lost.append(position)
            continue
        found[position] = (position, frame.at, frame.wall, frame.epoch, data)
        for earlier in _pointed_at(decode_record(data), state):
            if 0 < earlier < before and earlier not in wanted:
                wanted.add(earlier)
                heappush(waiting, -earlier)
    yield from (found[position] for position in sorted(found))


def _pointed_at(record: Record, state: State) -> Iterator[int]:
    """Where the attempts before those that this record ended had ended, for jobs in memory."""
    for event in record.events:
        if getattr(event, "job_id", None) not in state.jobs:
            continue
        if isinstance(event, e.TasksCompleted):
            yield from (commit.previous for commit in event.commits)
        elif isinstance(event, e.TaskCommitted):
            yield event.commit.previous
        elif isinstance(event, e.WithEnds):
            yield from (end.previous for end in event.ends)
            if isinstance(event, e.TasksKilled | e.TasksSetAside):
                yield from (stopped.previous for stopped in event.stopped)
