"""The moves of tasks that a record made: from where, to where, under which attempt and why.

Every event tells its whole outcome, so a record alone tells its moves: whoever reads a log at any
position needs no state for it. Neighbours that took the same step under nobody's lease are one
move, so a million tasks that are born or killed together are told in one line.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core import events as e
from holdfast.core.action import Details
from holdfast.core.attempt import AttemptStatus
from holdfast.core.ids import NEVER, task_name
from holdfast.core.record import Record
from holdfast.core.task import TaskState

NEW: Final = "NEW"
"""Where a task comes from that was not there before."""

UNTOLD: Final = "UNTOLD"
"""Where tasks came from in records of releases that did not say so."""

WAITING, LEASED, RUNNING = (s.name for s in (TaskState(0), TaskState(1), TaskState(2)))
COMMITTED, SUCCEEDED = TaskState.COMMITTED.name, TaskState.SUCCEEDED.name
QUARANTINED = TaskState.QUARANTINED.name


class Move(Struct, frozen=True):
    """What became of the tasks `first` to `last` of a job. `metadata` is what else is known of
    the step: attempt, lease, worker, what became of the attempt."""

    job_id: str
    first: int
    last: int
    source: str
    target: str
    reason: str
    metadata: Details

    @property
    def tasks(self) -> str:
        """`JOB/3`, or `JOB/0-999`."""
        name = task_name(self.job_id, self.first)
        return name if self.first == self.last else f"{name}-{self.last}"

    @property
    def action(self) -> str:
        return f"transition_{self.source}_to_{self.target}"

    @property
    def count(self) -> int:
        return self.last - self.first + 1


Teller = Callable[[Any, Record], Iterator[Move]]


def moves_of(record: Record) -> list[Move]:
    """Every move of a task in this record, in the order it became true."""
    return [
        move
        for event in record.events
        if (tell := TELLERS.get(type(event))) is not None
        for move in tell(event, record)
    ]


def _one(
    job_id: str, index: int, source: str, target: str, reason: str, metadata: Details
) -> Move:
    return Move(job_id, index, index, source, target, reason, metadata)


def _attempt(
    attempt: int, lease_id: int, worker: str, status: AttemptStatus | None = None
) -> Details:
    details: Details = {"attempt": attempt, "lease_id": int(lease_id), "worker": worker}
    return details if status is None else {**details, "attempt_status": status.value}


def _submitted(event: e.JobSubmitted, record: Record) -> Iterator[Move]:
    if event.count:
        yield Move(event.job_id, 0, event.count - 1, NEW, WAITING, record.reason, {})


def _added(event: e.TasksAdded, record: Record) -> Iterator[Move]:
    last = event.first + len(event.items) - 1
    yield Move(event.job_id, event.first, last, NEW, WAITING, record.reason, {})


def _granted(event: e.LeasesGranted, record: Record) -> Iterator[Move]:
    leased = zip(event.indices, event.attempts, e.lease_ids(event), strict=True)
    for index, attempt, lease_id in leased:
        told = _attempt(attempt, lease_id, event.worker, AttemptStatus.LEASED)
        yield _one(event.job_id, index, WAITING, LEASED, record.reason, told)


def _started(event: e.AttemptsStarted, record: Record) -> Iterator[Move]:
    status = AttemptStatus.IN_PROGRESS.value
    for start in event.starts:
        told: Details = {"lease_id": int(start.lease_id), "attempt_status": status}
        yield _one(event.job_id, start.index, LEASED, RUNNING, record.reason, told)


def _completed(event: e.TasksCompleted, record: Record) -> Iterator[Move]:
    for commit in event.commits:
        told = _attempt(commit.attempt, commit.lease_id, event.worker, AttemptStatus.DONE)
        yield _one(event.job_id, commit.index, RUNNING, SUCCEEDED, record.reason, told)


def _committed(event: e.TaskCommitted, record: Record) -> Iterator[Move]:
    commit = event.commit
    told = _attempt(commit.attempt, commit.lease_id, event.worker, AttemptStatus.COMMITTED)
    told["owed"] = len(event.owed)
    yield _one(event.job_id, commit.index, RUNNING, COMMITTED, record.reason, told)


def ends_told(
    job_id: str, ends: Iterable[e.End], target: TaskState, record: Record
) -> Iterator[Move]:
    """Attempts that ended without a commit, and where their tasks went. An attempt that ended had
    been running exactly where it has a start."""
    for end in ends:
        source = LEASED if end.started_at == NEVER else RUNNING
        told = _attempt(end.attempt, end.lease_id, end.worker, AttemptStatus.ABORTED)
        told["end"] = end.reason
        if end.charged:
            told["charged"] = end.charged
        if end.exit_code is not None:
            told["exit_code"] = end.exit_code
        reason = record.reason or end.reason
        yield _one(job_id, end.index, source, target.name, reason, told)


def _returned(event: e.AttemptsReturned, record: Record) -> Iterator[Move]:
    yield from ends_told(event.job_id, event.ends, TaskState.WAITING, record)


def _quarantined(event: e.TasksQuarantined, record: Record) -> Iterator[Move]:
    yield from ends_told(event.job_id, event.ends, TaskState.QUARANTINED, record)


def _stopped(
    event: e.TasksKilled | e.TasksSetAside, target: TaskState, record: Record
) -> Iterator[Move]:
    """Somebody or some rule stopped tasks: those that waited, and those that were held."""
    reason = record.reason or event.cause
    for span in event.spans:
        told: Details = {"cause": event.cause}
        yield Move(event.job_id, span.first, span.last, WAITING, target.name, reason, told)
    for move in ends_told(event.job_id, event.ends, target, record):
        move.metadata["cause"] = event.cause
        yield move


def _killed(event: e.TasksKilled, record: Record) -> Iterator[Move]:
    yield from _stopped(event, TaskState.KILLED, record)


def _set_aside(event: e.TasksSetAside, record: Record) -> Iterator[Move]:
    """A decision has a note; that an attempt was ended for it is no reason."""
    why = record.reason or event.note or event.cause
    for move in _stopped(event, TaskState.QUARANTINED, record):
        yield replace(move, reason=why)


def _purged(event: e.TasksPurged, record: Record) -> Iterator[Move]:
    told: Details = {"cause": "purged"}
    reason = record.reason or event.reason
    sources = (
        (TaskState.QUARANTINED, event.purged), (TaskState.UNSCHEDULABLE, event.unplaced),
    )  # fmt: skip
    for source, given_up in sources:
        for one in given_up:
            yield _one(event.job_id, one.index, source.name, TaskState.KILLED.name, reason, told)


def _unschedulable(event: e.TasksUnschedulable, record: Record) -> Iterator[Move]:
    target = TaskState.UNSCHEDULABLE.name
    for span in event.spans:
        yield Move(event.job_id, span.first, span.last, WAITING, target, event.reason, {})


def _rescheduled(event: e.TaskRescheduled, record: Record) -> Iterator[Move]:
    reason = record.reason or "rescheduled"
    yield _one(event.job_id, event.index, WAITING, WAITING, reason, {})


def _due(event: e.TaskDue, record: Record) -> Iterator[Move]:
    yield _one(event.job_id, event.index, WAITING, WAITING, "due", {})


def _retried(event: e.TasksRetried, record: Record) -> Iterator[Move]:
    told: Details = {"generation": event.generation}
    former = [TaskState(number).name for number in event.former]
    for span, source in zip(event.spans, former or [UNTOLD] * len(event.spans), strict=True):
        reason = record.reason or "retried"
        yield Move(event.job_id, span.first, span.last, source, WAITING, reason, told)


def _restored(event: e.TasksRestored, record: Record) -> Iterator[Move]:
    told: Details = {"generation": event.generation}
    reason, source = record.reason or "restored", TaskState.KILLED.name
    for span in event.spans:
        yield Move(event.job_id, span.first, span.last, source, WAITING, reason, told)


def _stays(event: Any, index: int, number: int, reason: str) -> Move:
    """Something became of what a commit owes, and the task still owes."""
    told: Details = {"effect": number}
    return _one(event.job_id, index, COMMITTED, COMMITTED, reason, told)


def _delivered(event: e.EffectsDelivered, record: Record) -> Iterator[Move]:
    for one in event.settled:
        yield _stays(event, one.index, one.number, "delivered")


def _undelivered(event: e.DeliveryFailed, record: Record) -> Iterator[Move]:
    yield _stays(event, event.index, event.number, "delivery_failed")


def _parked(event: e.EffectsParked, record: Record) -> Iterator[Move]:
    for one in event.parked:
        yield _stays(event, one.index, one.number, record.reason or "parked")


def _sent_again(event: e.EffectsRetried, record: Record) -> Iterator[Move]:
    for one in event.settled:
        yield _stays(event, one.index, one.number, record.reason or "retried")


def _discarded(event: e.EffectsDiscarded, record: Record) -> Iterator[Move]:
    for one in event.settled:
        yield _stays(event, one.index, one.number, record.reason or event.reason)


def _done(event: e.TasksDone, record: Record) -> Iterator[Move]:
    status: Details = {"attempt_status": AttemptStatus.DONE.value}
    for index in event.indices:
        yield _one(event.job_id, index, COMMITTED, SUCCEEDED, record.reason, status)


TELLERS: Final[dict[type[e.Event], Teller]] = {
    e.JobSubmitted: _submitted,
    e.TasksAdded: _added,
    e.LeasesGranted: _granted,
    e.AttemptsStarted: _started,
    e.TasksCompleted: _completed,
    e.TaskCommitted: _committed,
    e.AttemptsReturned: _returned,
    e.TasksQuarantined: _quarantined,
    e.TasksKilled: _killed,
    e.TasksSetAside: _set_aside,
    e.TasksPurged: _purged,
    e.TasksUnschedulable: _unschedulable,
    e.TaskRescheduled: _rescheduled,
    e.TaskDue: _due,
    e.TasksRetried: _retried,
    e.TasksRestored: _restored,
    e.EffectsDelivered: _delivered,
    e.DeliveryFailed: _undelivered,
    e.EffectsParked: _parked,
    e.EffectsRetried: _sent_again,
    e.EffectsDiscarded: _discarded,
    e.TasksDone: _done,
}
"""What a record says of tasks, by its events. Whatever the table of tasks takes is in here."""
