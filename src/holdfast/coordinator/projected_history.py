"""The rows of the SQL projection that come from the records: what happened, as far as is kept."""

from collections.abc import Iterator
from functools import lru_cache

import msgspec

from holdfast.coordinator.inspect import Reading, Told
from holdfast.coordinator.projected import Row
from holdfast.coordinator.views import rfc3339, time_of
from holdfast.core import events as e
from holdfast.core.attempt import AttemptStatus
from holdfast.core.ids import NEVER, attempt_name, task_name
from holdfast.core.job import state_of
from holdfast.core.moves import moves_of
from holdfast.core.state import State
from holdfast.core.task import TaskState
from holdfast.core.transactions import transaction_of

_time = lru_cache(maxsize=4_096)(rfc3339)
"""Many attempts begin and end within one millisecond."""

_ENDING = e.AttemptsReturned | e.TasksQuarantined | e.TasksKilled | e.TasksSetAside


def attempt_rows(reading: Reading) -> Iterator[Row]:
    """Attempts that are over, in the order they ended, then those under way."""
    state = reading.state
    for told in _kept(reading):
        for event in told.record.events:
            if isinstance(event, e.TasksCompleted):
                for commit in event.commits:
                    status = AttemptStatus.DONE
                    yield _committed(told, event.job_id, event.worker, commit, status)
            elif isinstance(event, e.TaskCommitted):
                status = _after_commit(state, event)
                yield _committed(told, event.job_id, event.worker, event.commit, status)
            elif isinstance(event, _ENDING):
                for end in event.ends:
                    yield _aborted(told, event.job_id, end)
    for holder in state.holders.values():
        for task in holder.leases.values():
            running = task.state is TaskState.RUNNING
            status = AttemptStatus.IN_PROGRESS if running else AttemptStatus.LEASED
            yield (
                attempt_name(task.job_id, task.index, task.attempt),
                task_name(task.job_id, task.index),
                task.job_id,
                int(task.index),
                task.attempt,
                status.value,
                None,
                task.worker,
                int(task.lease_id),
                time_of(task.started_at, reading.wall),
                *(None,) * 6,
                int(task.granted),
            )


def transaction_rows(reading: Reading) -> Iterator[Row]:
    for told in _kept(reading):
        record = told.record
        yield (
            int(told.position),
            rfc3339(told.wall(record.at)),
            record.command,
            record.actor,
            record.request_id or None,
            record.reason or None,
            len(record.events),
        )


def event_rows(reading: Reading) -> Iterator[Row]:
    for told in _kept(reading):
        for place, event in enumerate(told.record.events):
            job_id = getattr(event, "job_id", None)
            yield int(told.position), place, type(event).__name__, job_id


def action_rows(reading: Reading) -> Iterator[Row]:
    for told in _kept(reading):
        actions = transaction_of(told.record, told.position).actions
        for place, action in enumerate(actions):
            details = msgspec.json.encode(action.details).decode()
            yield int(told.position), place, action.action, action.entity, details


def transition_rows(reading: Reading) -> Iterator[Row]:
    for told in _kept(reading):
        for place, move in enumerate(moves_of(told.record)):
            yield (
                int(told.position),
                place,
                _time(told.wall(told.record.at)),
                move.job_id,
                move.first,
                move.last,
                move.source,
                move.target,
                move.reason or None,
                told.record.actor,
                move.metadata.get("attempt"),
                move.metadata.get("worker"),
            )


def _kept(reading: Reading) -> Iterator[Told]:
    return reading.records(0, int(reading.state.position))


def _after_commit(state: State, event: e.TaskCommitted) -> AttemptStatus:
    """Whether what it owed was paid. A job that was forgotten had ended, so it was."""
    job = state.jobs.get(event.job_id)
    if job is not None and state_of(job, event.commit.index) is TaskState.COMMITTED:
        return AttemptStatus.COMMITTED
    return AttemptStatus.DONE


def _committed(
    told: Told, job_id: str, worker: str, commit: e.Commit, status: AttemptStatus
) -> Row:
    size = len(commit.result) if commit.stored is None else commit.stored.size
    return _ended(told, job_id, worker, commit, (status.value, None), (0, None, None, size))


def _aborted(told: Told, job_id: str, end: e.End) -> Row:
    fate = (end.exit_code, end.charged or None, end.error or None, None)
    return _ended(
        told, job_id, end.worker, end, (AttemptStatus.ABORTED.value, end.reason), fate
    )


def _ended(
    told: Told, job_id: str, worker: str, fate: e.Commit | e.End, how: Row, what: Row
) -> Row:
    at = told.record.at
    return (
        attempt_name(job_id, fate.index, fate.attempt),
        task_name(job_id, fate.index),
        job_id,
        int(fate.index),
        fate.attempt,
        *how,
        worker,
        int(fate.lease_id),
        None if fate.started_at == NEVER else _time(told.wall(fate.started_at)),
        _time(told.wall(at)),
        None if fate.started_at == NEVER else at - fate.started_at,
        *what,
        int(told.position),
    )
