"""The attempts of one task, walked back through the log from the last to the first.

Whatever ends an attempt, or stops a task that waits, names the record that ended the attempt before
it, so the walk reads a few records, however long the log is. Where old history was dropped the
walk ends early: what is left is true, and its first attempt has a number greater than 1.
"""

from collections.abc import Callable, Iterator
from typing import Final, Protocol

from msgspec import Struct

from holdfast.coordinator.inspect import HistoryGone, Told
from holdfast.coordinator.views import View, rfc3339, task_view, time_of
from holdfast.core import events as e
from holdfast.core.attempt import AttemptStatus
from holdfast.core.ids import (
    NEVER,
    NOWHERE,
    Index,
    JobId,
    Position,
    attempt_name,
    parse_task_name,
)
from holdfast.core.job import Job, state_of
from holdfast.core.state import State
from holdfast.core.task import Task, TaskState

_UNDER_WAY: Final = (TaskState.LEASED, TaskState.RUNNING)
_TROUBLED: Final = (
    TaskState.WAITING,
    TaskState.QUARANTINED,
    TaskState.KILLED,
    TaskState.UNSCHEDULABLE,
)


_STOPPING = e.TasksKilled | e.TasksUnschedulable | e.TasksSetAside | e.TasksPurged
"""What ends a task without an attempt of it ending."""
PURGED: Final = "purged"
"""Why a task is KILLED that had been in quarantine until it was given up."""


class Past(Protocol):
    """A state with the records that led to it: a folder read, or a log still being written."""

    @property
    def state(self) -> State: ...

    def told(self, position: int) -> Told: ...

    def records(self, first: int, last: int) -> Iterator[Told]: ...

    def wall(self, instant: int) -> int: ...


class Ended(Struct, frozen=True):
    """One attempt that is over, with the record that says so."""

    told: Told
    worker: str
    fate: e.Commit | e.End
    status: AttemptStatus


def attempts_of(past: Past, job_id: JobId, index: Index) -> list[View]:
    """Every attempt of a task that can still be told of, the first one first."""
    job = past.state.job_of(job_id)
    task = (job.tasks or {}).get(index)
    found = [_ended_view(past, job, ended) for ended in _walk(past, job, index)]
    found.reverse()
    if task is not None and task.lease_id:
        found.append(_live_view(past, task))
    return found


def task_detail(past: Past, job: Job, index: Index) -> View:
    """A task with its budgets, its last error and all its attempts."""
    task = (job.tasks or {}).get(index)
    last = next(_walk(past, job, index), None)
    stop = _stopped(past, job, index)
    failures, losses = _used(task, last)
    state = state_of(job, index)
    end = last.fate if last is not None and isinstance(last.fate, e.End) else None
    # What a former attempt came to says nothing of one that is under way or went well.
    trouble = end if state in _TROUBLED else None
    return {
        **task_view(job, index, past.wall),
        "reason": stop or (trouble.reason if trouble is not None else None),
        "failures": {"used": failures, "allowed": job.spec.retries},
        "losses": {"used": losses, "allowed": job.spec.max_losses},
        "error": (trouble.error or None) if trouble is not None else None,
        "traceback": (trouble.traceback or None) if trouble is not None else None,
        "exit_code": _exit_code(last) if state not in _UNDER_WAY else None,
        "finished_at": _finished_at(past, job, index, state),
        **_result(last),
        # How it stands is known where the debts are; see `owed_by_task`.
        "owed": [],
        "attempts": attempts_of(past, job.job_id, index),
    }


def links_of(past: Past, job: Job, index: Index) -> Iterator[Position]:
    """The positions on the chain of a task, the last one first: where it was given to a worker,
    where that ended, and where it was stopped while it waited."""
    task = (job.tasks or {}).get(index)
    if task is not None and task.lease_id:
        yield task.granted
    last = last_end(job, index)
    if last != NOWHERE:
        yield last
    for ended in _walk(past, job, index):
        yield ended.told.position
        yield ended.fate.granted


def _walk(past: Past, job: Job, index: Index) -> Iterator[Ended]:
    """The attempts that are over, the last one first."""
    return walk_ends(past.told, job.job_id, index, last_end(job, index))


def walk_ends(
    told_at: Callable[[int], Told], job_id: JobId, index: Index, position: Position
) -> Iterator[Ended]:
    """The attempts of a task that are over, back from the record that ended the last of them."""
    while position != NOWHERE:
        try:
            told = told_at(position)
        except HistoryGone:
            return
        ended = _end_in(told, job_id, index)
        if ended is None:
            position = _thread_in(told, job_id, index)
        else:
            yield ended
            position = ended.fate.previous


def last_end(job: Job, index: Index) -> Position:
    """Where the last attempt that is over ended, or the task without one."""
    task = (job.tasks or {}).get(index)
    if task is not None:
        return task.committed if task.committed != NOWHERE else task.previous
    if job.ends is None or index >= len(job.ends):
        return NOWHERE
    return Position(job.ends[index])


def _end_in(told: Told, job_id: str, index: int) -> Ended | None:
    for event in told.record.events:
        if getattr(event, "job_id", None) != job_id:
            continue
        if isinstance(event, e.TasksCompleted):
            for commit in event.commits:
                if commit.index == index:
                    return Ended(told, event.worker, commit, AttemptStatus.DONE)
        elif isinstance(event, e.TaskCommitted) and event.commit.index == index:
            return Ended(told, event.worker, event.commit, AttemptStatus.COMMITTED)
        elif isinstance(event, e.WithEnds):
            for end in event.ends:
                if end.index == index:
                    return Ended(told, end.worker, end, AttemptStatus.ABORTED)
    return None


def _thread_in(told: Told, job_id: str, index: int) -> Position:
    """Where the last attempt had ended of a task that this record stopped while it waited."""
    for event in told.record.events:
        if isinstance(event, _STOPPING) and event.job_id == job_id:
            for stopped in event.all if isinstance(event, e.TasksPurged) else event.stopped:
                if stopped.index == index:
                    return stopped.previous
    return NOWHERE


def fate_told(past: Past, name: str, position: Position) -> str:
    """What the record at this position says of how a task (`JOB/INDEX`) ended; empty where
    nothing, or where it is no longer kept."""
    parsed = parse_task_name(name)
    if parsed is None or position == NOWHERE:
        return ""
    try:
        told = past.told(position)
    except HistoryGone:
        return ""
    job_id, index = parsed
    ended = _end_in(told, job_id, index)
    if ended is not None and isinstance(ended.fate, e.End):
        return _first_line(ended.fate.error) or ended.fate.reason
    return _stop_in(told, job_id, index) or ""


def _first_line(error: str) -> str:
    lines = error.strip().splitlines()
    return lines[0] if lines else ""


def _stopped(past: Past, job: Job, index: Index) -> str | None:
    """Why a task ended without an attempt of its own ending: it was stopped while it waited."""
    position = last_end(job, index)
    if position == NOWHERE or (job.tasks or {}).get(index) is not None:
        return None
    try:
        told = past.told(position)
    except HistoryGone:
        return None
    return _stop_in(told, job.job_id, index)


def _stop_in(told: Told, job_id: str, index: int) -> str | None:
    for event in told.record.events:
        if not isinstance(event, _STOPPING) or event.job_id != job_id:
            continue
        if isinstance(event, e.TasksPurged):
            if any(one.index == index for one in event.all):
                return PURGED
        elif any(s.first <= index <= s.last for s in event.spans):
            return event.reason if isinstance(event, e.TasksUnschedulable) else event.cause
    return None


def _used(task: Task | None, last: Ended | None) -> tuple[int, int]:
    """The budgets as they stand. After a retry the record has fresh ones, which the log has not."""
    if task is not None:
        return task.failures, task.losses
    if last is None:
        return 0, 0
    return last.fate.failures, last.fate.losses


def _exit_code(last: Ended | None) -> int | None:
    if last is None:
        return None
    # A result is only ever accepted from an attempt that ended well.
    return 0 if isinstance(last.fate, e.Commit) else last.fate.exit_code


def _result(last: Ended | None) -> View:
    """How large the result is, and what a large one is called in the store."""
    commit = last.fate if last is not None and isinstance(last.fate, e.Commit) else None
    if commit is None:
        return {"result_bytes": None, "result_digest": None}
    if commit.stored is None:
        return {"result_bytes": len(commit.result), "result_digest": None}
    return {"result_bytes": commit.stored.size, "result_digest": commit.stored.digest.hex()}


def _finished_at(past: Past, job: Job, index: Index, state: TaskState) -> str | None:
    position = last_end(job, index)
    if state < TaskState.COMMITTED or position == NOWHERE:
        return None
    try:
        told = past.told(position)
    except HistoryGone:
        return None
    return rfc3339(told.wall(told.record.at))


def _ended_view(past: Past, job: Job, ended: Ended) -> View:
    fate, told = ended.fate, ended.told
    index = Index(fate.index)
    end = fate if isinstance(fate, e.End) else None
    status = ended.status
    if status is AttemptStatus.COMMITTED and state_of(job, index) is TaskState.SUCCEEDED:
        status = AttemptStatus.DONE
    granted_at, expires_at = _grant(past, fate.granted, job.job_id, index)
    return {
        "id": attempt_name(job.job_id, index, fate.attempt),
        "attempt": fate.attempt,
        "status": status.value,
        "reason": None if end is None else end.reason,
        "lease_id": int(fate.lease_id),
        "worker": ended.worker,
        "granted_at": granted_at,
        "lease_expires_at": expires_at,
        "started_at": time_of(fate.started_at, told.wall),
        "finished_at": rfc3339(told.wall(told.record.at)),
        "duration_ms": None if fate.started_at == NEVER else told.record.at - fate.started_at,
        "exit_code": _exit_code(ended),
        "charged": None if end is None else end.charged or None,
        "error": None if end is None else end.error or None,
        "position": int(told.position),
    }


def _live_view(past: Past, task: Task) -> View:
    """The attempt under way. Its expiry is the present one, renewals included."""
    granted_at, _ = _grant(past, task.granted, task.job_id, task.index)
    is_running = task.state is TaskState.RUNNING
    status = AttemptStatus.IN_PROGRESS if is_running else AttemptStatus.LEASED
    return {
        "id": attempt_name(task.job_id, task.index, task.attempt),
        "attempt": task.attempt,
        "status": status.value,
        "reason": None,
        "lease_id": int(task.lease_id),
        "worker": task.worker,
        "granted_at": granted_at,
        "lease_expires_at": time_of(task.expires_at, past.wall),
        "started_at": time_of(task.started_at, past.wall),
        "finished_at": None,
        "duration_ms": None,
        "exit_code": None,
        "charged": None,
        "error": None,
        "position": int(task.granted),
    }


def _grant(
    past: Past, position: Position, job_id: str, index: int
) -> tuple[str | None, str | None]:
    """When the lease was granted and until when, as granted. Gone with its record."""
    try:
        told = past.told(position)
    except HistoryGone:
        return None, None
    for event in told.record.events:
        if isinstance(event, e.LeasesGranted) and event.job_id == job_id and index in event.indices:
            return rfc3339(told.wall(told.record.at)), time_of(event.expires_at, told.wall)
    return None, None
