"""Which records outlive the segments they were written in: those that tell how the tasks of jobs in
memory came to where they are."""

from collections.abc import Iterator
from typing import Final, Protocol

from holdfast.core import events as e
from holdfast.core.record import Record, decode_record
from holdfast.core.state import State
from holdfast.wal import Frame, KeptRecord

_TELLING: Final = frozenset({"commit", "commits", "ends", "stopped", "purged"})

ENDS: Final = tuple(kind for kind in e.EVENT_TYPES if _TELLING & set(kind.__struct_fields__))
"""Events that end attempts, or tasks that wait. The history of a task is a chain of these."""


class Keeping(Protocol):
    """Whatever still has records: a log, or what is left of one."""

    @property
    def oldest(self) -> int: ...

    def kept_positions(self) -> list[int]: ...

    def record(self, position: int) -> tuple[Frame, bytes]: ...

    def read(self, position: int = 1) -> Iterator[Frame]: ...


def kept_records(
    reader: Keeping, state: State, before: int, lost: list[int] | None = None
) -> Iterator[KeptRecord]:
    """The records older than `before` that ended an attempt of a job in memory, in order.

    Not only what memory points at: the last end of a task may stand in history that stays, and
    point at one in history that goes. What earlier snapshots have kept is looked through too,
    because its file goes with them. Where some may be lost, `lost` takes their positions.
    """
    wanted = _pointed_at(state, before)
    for position, frame, data in _going(reader, before):
        if position in wanted or _ends_something(decode_record(data), state):
            wanted.discard(position)
            yield position, frame.at, frame.wall, frame.epoch, data
    for position in sorted(wanted):
        if lost is not None:
            lost.append(position)
            continue
        # It is nowhere, and whoever reads it says so: a snapshot must not make that final.
        reader.record(position)


def _pointed_at(state: State, before: int) -> set[int]:
    wanted: set[int] = set()
    for job in state.jobs.values():
        wanted.update(end for end in job.ends or () if 0 < end < before)
        for task in (job.tasks or {}).values():
            wanted.update(p for p in (task.previous, task.committed) if 0 < p < before)
    return wanted


def _going(reader: Keeping, before: int) -> Iterator[tuple[int, Frame, bytes]]:
    """Everything older than `before` that is still here: kept before, or kept now or never."""
    for position in reader.kept_positions():
        yield position, *reader.record(position)
    if reader.oldest >= before:
        return
    for frame in reader.read(reader.oldest):
        for position, data in enumerate(frame.records, start=frame.first):
            if position >= before:
                return
            if position >= reader.oldest:
                yield position, frame, data


def _ends_something(record: Record, state: State) -> bool:
    return any(
        isinstance(event, ENDS) and getattr(event, "job_id", None) in state.jobs
        for event in record.events
    )
