"""A record as a story: who asked for what, and every single thing that was done about it.

Transactions are rendered from records when somebody looks, and never stored: the log is the only
trail. Whatever a command caused along the way (tasks killed with their job, attempts lost with
their worker) is in the same transaction as its cause. Neighbouring tasks that took the same step
are one action on a range, so a million of them read as one line.
"""

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from holdfast.core import events as e
from holdfast.core.action import LOG, Action, Details, Renderer, ranges
from holdfast.core.attempt import CHARGES_FAILURES, DEATHS, EndReason
from holdfast.core.ids import NEVER, Instant, Position, task_name
from holdfast.core.job import STOPPED
from holdfast.core.placing import ALL_TASKS, After
from holdfast.core.record import Record
from holdfast.core.transactions_circuits import CIRCUITS
from holdfast.core.transactions_fleet import FLEET
from holdfast.core.transactions_lineage import LINEAGE
from holdfast.core.transactions_operations import OPERATION_RENDERERS
from holdfast.core.transactions_owed import OWED
from holdfast.core.transactions_resources import RESOURCES
from holdfast.core.transactions_schedules import SCHEDULES

__all__ = [
    "LOG",
    "RENDERERS",
    "Action",
    "Transaction",
    "to_json",
    "transaction_of",
    "worker_registered",
]

class Transaction(Struct, frozen=True):
    """One accepted command with all it caused. `time` is log time, in milliseconds."""

    position: Position
    time: Instant
    command: str
    actor: str
    request_id: str
    reason: str
    events: tuple[e.AnyEvent, ...]
    actions: tuple[Action, ...]


def transaction_of(record: Record, position: Position) -> Transaction:
    """What this record tells, in the order it became true."""
    actions = [act for event in record.events for act in RENDERERS[type(event)](event, record)]
    return Transaction(
        position=position,
        time=record.at,
        command=record.command,
        actor=record.actor,
        request_id=record.request_id,
        reason=record.reason,
        events=record.events,
        actions=tuple(actions),
    )


def to_json(transaction: Transaction) -> dict[str, Any]:
    """The transaction as plain values under names that stay.

    Payloads and results appear as their size alone: they are the user's, they may be large, and
    whoever may see them reads them where they belong.
    """
    return {
        "position": transaction.position,
        "time": transaction.time,
        "command": transaction.command,
        "actor": transaction.actor,
        "request_id": transaction.request_id,
        "reason": transaction.reason,
        "events": [
            {"type": type(event).__name__, **_fields(event)} for event in transaction.events
        ],
        "actions": [_fields(action) for action in transaction.actions],
    }


def worker_registered(worker: str, address: str) -> Action:
    """A worker announced itself. The registry is safe to lose and never in the log, so this
    action belongs to no record; it is spelled here to be spelled once."""
    return Action("worker_registered", worker, {"address": address})


def _fields(value: Struct) -> dict[str, Any]:
    return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return _fields(value)
    if isinstance(value, bytes):
        return {"bytes": len(value)}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def _log_opened(event: e.LogOpened, record: Record) -> Iterator[Action]:
    yield Action("log_opened", LOG, {"epoch": event.epoch, "host": event.host, "pid": event.pid})


def _job_submitted(event: e.JobSubmitted, record: Record) -> Iterator[Action]:
    created: Details = {"job_id": event.job_id}
    if event.count:
        yield from ranges("task_created", event.job_id, [(0, event.count - 1, created)])
    details: Details = {"num_tasks": event.count}
    if event.after:
        details["after"] = ",".join(_after_name(after) for after in event.after)
    if event.parent:
        details["parent"] = event.parent
    yield Action("job_submitted", event.job_id, details)


def _after_name(after: After) -> str:
    whole = after.index == ALL_TASKS
    return after.job_id if whole else task_name(after.job_id, after.index)


def _job_unblocked(event: e.JobUnblocked, record: Record) -> Iterator[Action]:
    yield Action("job_unblocked", event.job_id, {})


def _job_respecified(event: e.JobRespecified, record: Record) -> Iterator[Action]:
    yield Action("job_respecified", event.job_id, {})


def _tasks_added(event: e.TasksAdded, record: Record) -> Iterator[Action]:
    last = event.first + len(event.items) - 1
    created: Details = {"job_id": event.job_id}
    yield from ranges("task_created", event.job_id, [(event.first, last, created)])


def _job_sealed(event: e.JobSealed, record: Record) -> Iterator[Action]:
    details: Details = {"num_tasks": event.count, "interrupted": event.interrupted}
    yield Action("job_sealed", event.job_id, details)


def _leases_granted(event: e.LeasesGranted, record: Record) -> Iterator[Action]:
    steps: list[tuple[int, int, Details]] = [
        (index, index, {"worker_id": event.worker, "attempt": attempt})
        for index, attempt in zip(event.indices, event.attempts, strict=True)
    ]
    yield from ranges("task_assigned", event.job_id, steps)


def _attempts_started(event: e.AttemptsStarted, record: Record) -> Iterator[Action]:
    steps: list[tuple[int, int, Details]] = [(s.index, s.index, {}) for s in event.starts]
    yield from ranges("task_running", event.job_id, steps)


def _leases_extended(event: e.LeasesExtended, record: Record) -> Iterator[Action]:
    details: Details = {"until": event.until, "exceptions": len(event.exceptions)}
    yield Action("leases_extended", event.worker, details)


def _leases_rearmed(event: e.LeasesRearmed, record: Record) -> Iterator[Action]:
    yield Action("leases_rearmed", LOG, {"until": event.until})


def _tasks_completed(event: e.TasksCompleted, record: Record) -> Iterator[Action]:
    """A result was accepted, which only an attempt that ended well can have: its code is zero."""
    indices = [commit.index for commit in event.commits]
    done: list[tuple[int, int, Details]] = [(i, i, {"exit_code": 0}) for i in indices]
    freed: list[tuple[int, int, Details]] = [(i, i, {"worker_id": event.worker}) for i in indices]
    yield from ranges("task_succeeded", event.job_id, done)
    yield from ranges("task_unassigned", event.job_id, freed)


def _end(job_id: str, end: e.End, *, can_retry: bool, why: str = "") -> Iterator[Action]:
    """How one attempt ended, and that its worker has it no more."""
    name = task_name(job_id, end.index)
    if end.reason in CHARGES_FAILURES:
        details: Details = {"error": end.error, "can_retry": can_retry, "exit_code": end.exit_code}
        yield Action("task_failed", name, {**details, "reason": end.reason})
    elif end.reason in DEATHS:
        lost: Details = {"worker_id": end.worker, "can_retry": can_retry, "error": end.error}
        yield Action("task_worker_failed", name, {**lost, "reason": end.reason})
    elif end.reason in (EndReason.KILLED, EndReason.STOPPED):
        action = "task_killed" if end.reason == EndReason.KILLED else "task_stopped"
        yield Action(action, name, {"reason": end.error or why})
    else:
        yield Action("task_released", name, {"worker_id": end.worker, "reason": end.reason})
    yield Action("task_unassigned", name, {"worker_id": end.worker})


def _attempts_returned(event: e.AttemptsReturned, record: Record) -> Iterator[Action]:
    for end in event.ends:
        yield from _end(event.job_id, end, can_retry=True)
        waits: Details = {} if end.not_before == NEVER else {"not_before": end.not_before}
        yield Action("task_requeued", task_name(event.job_id, end.index), waits)


def _tasks_quarantined(event: e.TasksQuarantined, record: Record) -> Iterator[Action]:
    for end in event.ends:
        yield from _end(event.job_id, end, can_retry=False)
        used: Details = {"failures": end.failures, "losses": end.losses, "spent": end.charged}
        yield Action("task_quarantined", task_name(event.job_id, end.index), used)


def _tasks_set_aside(event: e.TasksSetAside, record: Record) -> Iterator[Action]:
    told: Details = {"cause": event.cause, "note": event.note}
    spans = [(span.first, span.last, told) for span in event.spans]
    yield from ranges("task_set_aside", event.job_id, spans)
    for end in event.ends:
        yield from _end(event.job_id, end, can_retry=False, why=event.note or event.cause)
        yield Action("task_set_aside", task_name(event.job_id, end.index), told)


def _tasks_killed(event: e.TasksKilled, record: Record) -> Iterator[Action]:
    cancels = [c for c in record.events if isinstance(c, e.JobCancelled)]
    told = [cancel.reason for cancel in cancels if cancel.job_id == event.job_id]
    reason = "".join(told) or record.reason or event.cause
    spans: list[tuple[int, int, Details]] = [
        (span.first, span.last, {"reason": reason}) for span in event.spans
    ]
    yield from ranges("task_killed", event.job_id, spans)
    for end in event.ends:
        yield from _end(event.job_id, end, can_retry=False, why=reason)
        if end.reason not in (EndReason.KILLED, EndReason.STOPPED):
            yield Action("task_killed", task_name(event.job_id, end.index), {"reason": reason})


def _job_cancelled(event: e.JobCancelled, record: Record) -> Iterator[Action]:
    details: Details = {"reason": event.reason, "cause": event.cause}
    is_end = event.cause == STOPPED
    yield Action("service_ended" if is_end else "job_cancelled", event.job_id, details)


def _tasks_unschedulable(event: e.TasksUnschedulable, record: Record) -> Iterator[Action]:
    spans: list[tuple[int, int, Details]] = [
        (span.first, span.last, {"reason": event.reason}) for span in event.spans
    ]
    yield from ranges("task_unschedulable", event.job_id, spans)


def _task_rescheduled(event: e.TaskRescheduled, record: Record) -> Iterator[Action]:
    details: Details = {"not_before": event.not_before, "not_before_wall": event.not_before_wall}
    yield Action("task_rescheduled", task_name(event.job_id, event.index), details)


def _task_due(event: e.TaskDue, record: Record) -> Iterator[Action]:
    yield Action("task_due", task_name(event.job_id, event.index), {})


def _job_due(event: e.JobDue, record: Record) -> Iterator[Action]:
    yield Action("job_due", event.job_id, {})


def _tasks_retried(event: e.TasksRetried, record: Record) -> Iterator[Action]:
    details: Details = {"generation": event.generation}
    spans = [(span.first, span.last, details) for span in event.spans]
    yield from ranges("task_retried", event.job_id, spans)
    yield from ranges("task_requeued", event.job_id, [(s.first, s.last, {}) for s in event.spans])


def _worker_lost(event: e.WorkerLost, record: Record) -> Iterator[Action]:
    yield Action("worker_failed", event.worker, {"error": event.error})


def _jobs_forgotten(event: e.JobsForgotten, record: Record) -> Iterator[Action]:
    for job_id in event.job_ids:
        yield Action("job_forgotten", job_id, {})


def _keys_forgotten(event: e.KeysForgotten, record: Record) -> Iterator[Action]:
    for key in event.keys:
        yield Action("key_forgotten", key, {})


def _snapshot_installed(event: e.SnapshotInstalled, record: Record) -> Iterator[Action]:
    details: Details = {"at_position": event.at_position, "state_hash": event.state_hash}
    yield Action("snapshot_installed", LOG, details)


def _tasks_purged(event: e.TasksPurged, record: Record) -> Iterator[Action]:
    told: Details = {"reason": event.reason}
    yield from ranges("task_purged", event.job_id, [(s.index, s.index, told) for s in event.all])


def _task_forced(event: e.TaskForced, record: Record) -> Iterator[Action]:
    told: Details = {"from": event.source, "to": event.target, "reason": event.reason}
    yield Action("task_forced", task_name(event.job_id, event.index), told)


RENDERERS: Final[dict[type[e.Event], Renderer]] = {
    **FLEET,
    e.LogOpened: _log_opened,
    e.JobSubmitted: _job_submitted,
    e.TasksAdded: _tasks_added,
    e.JobSealed: _job_sealed,
    e.LeasesGranted: _leases_granted,
    e.AttemptsStarted: _attempts_started,
    e.LeasesExtended: _leases_extended,
    e.LeasesRearmed: _leases_rearmed,
    e.TasksCompleted: _tasks_completed,
    e.AttemptsReturned: _attempts_returned,
    e.TasksQuarantined: _tasks_quarantined,
    e.TasksKilled: _tasks_killed,
    e.TasksSetAside: _tasks_set_aside,
    e.TasksPurged: _tasks_purged,
    e.TaskForced: _task_forced,
    e.JobCancelled: _job_cancelled,
    e.TasksUnschedulable: _tasks_unschedulable,
    e.TaskRescheduled: _task_rescheduled,
    e.TaskDue: _task_due,
    e.JobDue: _job_due,
    e.TasksRetried: _tasks_retried,
    e.WorkerLost: _worker_lost,
    e.JobsForgotten: _jobs_forgotten,
    e.KeysForgotten: _keys_forgotten,
    e.SnapshotInstalled: _snapshot_installed,
    e.JobUnblocked: _job_unblocked,
    e.JobRespecified: _job_respecified,
    **SCHEDULES,
    **OWED,
    **CIRCUITS,
    **LINEAGE,
    **OPERATION_RENDERERS,
    **RESOURCES,
}
