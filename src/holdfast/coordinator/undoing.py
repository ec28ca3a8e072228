"""What an operation did, read from its records, and how each of it is taken back.

Only what nobody has touched since is: a task that has begun, or was moved or stopped again, stays
as it is, and is counted.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec import Struct

from holdfast.coordinator.inspect import HistoryGone, Told
from holdfast.coordinator.selecting import TASKS_A_RECORD
from holdfast.core import commands as c
from holdfast.core import commands_operations as o
from holdfast.core import events as e
from holdfast.core.ids import NEVER, Index, Instant, JobId, Position
from holdfast.core.job import Job, state_of
from holdfast.core.state import State
from holdfast.core.task import Task, TaskState

BYTES_A_RECORD: Final = 4 * 1024 * 1024

TASKS: Final = "tasks"
STARTED: Final = "started"
MOVED_ON: Final = "moved_on"
GONE: Final = "gone"
FINAL: Final = "final"
"""Why something cannot be taken back: it had begun, something else has happened to it since, its
job or its history is no longer kept, or it was meant to be for good."""


_CHANGES: Final = (
    e.JobCancelled, e.TasksKilled, e.TasksRetried, e.TaskRescheduled, e.TasksPurged,
    e.TasksRestored, e.TasksSetAside,
)  # fmt: skip


class Kill(Struct, frozen=True):
    """Tasks that were stopped: those that had not begun, and how many had."""

    job_id: JobId
    position: Position
    indices: tuple[Index, ...]
    started: int


class Retry(Struct, frozen=True):
    job_id: JobId
    position: Position
    indices: tuple[Index, ...]


class Shift(Struct, frozen=True):
    """A task that was moved in time, and when it might have begun before."""

    job_id: JobId
    position: Position
    index: Index
    not_before: Instant
    not_before_wall: Instant
    before: Instant
    before_wall: Instant


class Deeds(Struct):
    """Everything an operation did so far, and to which jobs. `final` counts what was done for
    good, `returned` what was itself an undo."""

    kills: list[Kill] = []
    retries: list[Retry] = []
    shifts: list[Shift] = []
    final: int = 0
    returned: int = 0
    jobs: dict[JobId, None] = {}

    @property
    def tasks(self) -> int:
        """How many tasks it changed."""
        stopped = sum(len(kill.indices) + kill.started for kill in self.kills)
        retried = sum(len(retry.indices) for retry in self.retries)
        return stopped + retried + len(self.shifts) + self.final + self.returned


def deeds_of(records: Iterable[Told], operation_id: str) -> Deeds:
    """What the records of an operation say it did. Waits for a disk."""
    deeds = Deeds()
    for told in records:
        if told.record.request_id != operation_id:
            continue
        for event in told.record.events:
            _note(deeds, event, told.position)
            if isinstance(event, _CHANGES):
                deeds.jobs[event.job_id] = None
    return deeds


def _note(deeds: Deeds, event: e.AnyEvent, position: Position) -> None:
    if isinstance(event, e.TasksKilled):
        unbegun = [end.index for end in event.ends if end.started_at == NEVER]
        indices = tuple(sorted([*_within(event.spans), *unbegun]))
        started = len(event.ends) - len(unbegun)
        deeds.kills.append(Kill(event.job_id, position, indices, started))
    elif isinstance(event, e.TasksRetried):
        deeds.retries.append(Retry(event.job_id, position, tuple(_within(event.spans))))
    elif isinstance(event, e.TaskRescheduled):
        deeds.shifts.append(
            Shift(
                event.job_id, position, event.index, event.not_before, event.not_before_wall,
                event.before, event.before_wall,
            )
        )  # fmt: skip
    elif isinstance(event, e.TasksPurged):
        deeds.final += len(event.all)
    elif isinstance(event, e.TasksRestored):
        deeds.returned += sum(1 for _ in _within(event.spans))
    elif isinstance(event, e.TasksSetAside):
        deeds.returned += sum(1 for _ in _within(event.spans)) + len(event.ends)


def _within(spans: Iterable[e.Span]) -> Iterator[Index]:
    for span in spans:
        yield from map(Index, range(span.first, span.last + 1))


class Origin(Struct, frozen=True):
    """Where the log has what the tasks of a job run with."""

    position: Position
    chunks: tuple[tuple[Index, Position], ...]


def origin_of(state: State, job_id: JobId) -> Origin | None:
    job = state.jobs.get(job_id)
    return None if job is None else Origin(job.position, job.chunks)


def restorations(
    read: Callable[[int], Told], kill: Kill, origin: Origin
) -> list[o.RestoreTasks] | None:
    """The commands that have the tasks wait again, each of a bearable size; None where the log no
    longer has what they run with. Waits for a disk."""
    try:
        submitted = _submission(read(origin.position), kill.job_id)
        items: dict[int, bytes] = dict(enumerate(submitted.items))
        for first, position in origin.chunks if submitted.items or not submitted.count else ():
            items.update(enumerate(_added(read(position), kill.job_id, first), start=first))
    except (HistoryGone, FileNotFoundError, LookupError):
        return None
    if not items:
        parts = range(0, len(kill.indices), TASKS_A_RECORD)
        cut = [kill.indices[at : at + TASKS_A_RECORD] for at in parts]
        return [_restore(kill, indices, (), submitted.shared) for indices in cut]
    if any(index not in items for index in kill.indices):
        return None
    return [
        _restore(kill, indices, tuple(items[index] for index in indices), b"")
        for indices in _by_size(kill.indices, items)
    ]


def _restore(
    kill: Kill, indices: tuple[Index, ...], items: tuple[bytes, ...], shared: bytes
) -> o.RestoreTasks:
    return o.RestoreTasks(
        job_id=kill.job_id, killed_at=kill.position, indices=indices, items=items, shared=shared
    )


def _by_size(indices: tuple[Index, ...], items: dict[int, bytes]) -> Iterator[tuple[Index, ...]]:
    part: list[Index] = []
    size = 0
    for index in indices:
        part.append(index)
        size += len(items[index])
        if size >= BYTES_A_RECORD or len(part) >= TASKS_A_RECORD:
            yield tuple(part)
            part, size = [], 0
    if part:
        yield tuple(part)


def _submission(told: Told, job_id: JobId) -> e.JobSubmitted:
    for event in told.record.events:
        if isinstance(event, e.JobSubmitted) and event.job_id == job_id:
            return event
    raise LookupError(f"the record does not tell of job {job_id}")


def _added(told: Told, job_id: JobId, first: Index) -> tuple[bytes, ...]:
    for event in told.record.events:
        if isinstance(event, e.TasksAdded) and (event.job_id, event.first) == (job_id, first):
            return event.items
    raise LookupError(f"the record does not tell of items of job {job_id}")


def set_aside(state: State, retry: Retry, note: str) -> tuple[c.SetAside | None, Counter[str]]:
    """The command that puts retried tasks back, as far as they have not begun; and why not the
    others."""
    job, left = state.jobs.get(retry.job_id), Counter[str]()
    if job is None:
        left[GONE] = len(retry.indices)
        return None, left
    chosen = [index for index in retry.indices if _waits_since(job, index, retry.position, left)]
    if job.spec.placing.gang and len(chosen) < job.count:
        left[MOVED_ON] += len(chosen)
        chosen = []
    if not chosen:
        return None, left
    return c.SetAside(job_id=job.job_id, indices=tuple(chosen), note=note), left


def _waits_since(job: Job, index: Index, position: Position, left: Counter[str]) -> bool:
    """Whether a task waits, and no attempt of it has ended or begun since that record."""
    task = (job.tasks or {}).get(index)
    if task is not None and task.state is TaskState.WAITING and task.previous < position:
        return True
    begun = task is not None and (task.lease_id or task.previous >= position)
    left[STARTED if begun or state_of(job, index) is TaskState.SUCCEEDED else MOVED_ON] += 1
    return False


def moves_back(
    state: State, shifts: Iterable[Shift], now: Instant
) -> tuple[list[o.RescheduleTasks], Counter[str]]:
    """The commands that give tasks of one job their former times; and why not the others."""
    left = Counter[str]()
    grouped: dict[tuple[JobId, int, Instant], list[Index]] = {}
    for shift in shifts:
        job = state.jobs.get(shift.job_id)
        if job is None:
            left[GONE] += 1
        elif _waits_since(job, shift.index, shift.position, left):
            if not _is_as_moved((job.tasks or {})[shift.index], shift):
                left[MOVED_ON] += 1
                continue
            delay_ms = max(0, shift.before - now) if shift.before != NEVER else 0
            key = (shift.job_id, delay_ms, shift.before_wall)
            grouped.setdefault(key, []).append(shift.index)
    commands = [
        o.RescheduleTasks(
            job_id=job_id, indices=tuple(indices), delay_ms=delay_ms, not_before_wall=wall
        )
        for (job_id, delay_ms, wall), indices in grouped.items()
    ]
    return commands, left


def _is_as_moved(task: Task, shift: Shift) -> bool:
    """Whether nobody has moved it again. That its calendar instant has come is no move."""
    walls = (shift.not_before_wall, NEVER)
    return task.not_before == shift.not_before and task.not_before_wall in walls


def foreseen(state: State, deeds: Deeds, now: Instant) -> Counter[str]:
    """How many tasks an undo would change now, and why not the others."""
    told = Counter({FINAL: deeds.final})
    for kill in deeds.kills:
        told[STARTED] += kill.started
        job = state.jobs.get(kill.job_id)
        left = 0
        if job is not None and job.ends is not None:
            known = [i for i in kill.indices if job.states[i] == TaskState.KILLED]
            left = sum(job.ends[index] == kill.position for index in known)
        told[TASKS] += left
        told[GONE if job is None else MOVED_ON] += len(kill.indices) - left
    for retry in deeds.retries:
        command, why = set_aside(state, retry, "")
        told.update(why)
        told[TASKS] += 0 if command is None else len(command.indices)
    commands, why = moves_back(state, deeds.shifts, now)
    told.update(why)
    told[TASKS] += sum(len(command.indices) for command in commands)
    return told
