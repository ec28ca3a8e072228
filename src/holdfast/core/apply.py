"""Folding events into the state: look up, move, never consult policy.

Live traffic and replay both come through `apply`. Handlers are found in one dict keyed by event
type; a test proves that it names every type of the union. Each handler checks before it moves
anything, so an event that cannot be leaves the state as it was.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from holdfast.core import (
    apply_circuits,
    apply_decided,
    apply_ends,
    apply_fleet,
    apply_jobs,
    apply_leases,
    apply_lineage,
    apply_operations,
    apply_owed,
    apply_resources,
    apply_schedules,
)
from holdfast.core import events as e
from holdfast.core.errors import BrokenInvariant
from holdfast.core.ids import Instant, Position
from holdfast.core.record import Record
from holdfast.core.state import State

Fold = Callable[[State, Any, Position, Instant], None]


def _log_opened(state: State, event: e.LogOpened, position: Position, at: Instant) -> None:
    if event.epoch <= state.epoch:
        raise BrokenInvariant(f"epoch {event.epoch} was opened after epoch {state.epoch}")
    state.log_id = state.log_id or event.log_id
    state.epoch = event.epoch


def _snapshot_installed(
    state: State, event: e.SnapshotInstalled, position: Position, at: Instant
) -> None:
    state.snapshot_position = event.at_position


FOLDS: Final[dict[type[e.Event], Fold]] = {
    e.LogOpened: _log_opened,
    e.JobSubmitted: apply_jobs.job_submitted,
    e.TasksAdded: apply_jobs.tasks_added,
    e.JobSealed: apply_jobs.job_sealed,
    e.LeasesGranted: apply_leases.leases_granted,
    e.AttemptsStarted: apply_leases.attempts_started,
    e.LeasesExtended: apply_leases.leases_extended,
    e.LeasesRearmed: apply_leases.leases_rearmed,
    e.TasksCompleted: apply_ends.tasks_completed,
    e.TaskCommitted: apply_ends.task_committed,
    e.EffectsDelivered: apply_owed.settled,
    e.DeliveryFailed: apply_owed.delivery_failed,
    e.EffectsParked: apply_owed.effects_parked,
    e.EffectsRetried: apply_owed.effects_retried,
    e.EffectsDiscarded: apply_owed.settled,
    e.TasksDone: apply_owed.tasks_done,
    e.AttemptsReturned: apply_ends.attempts_returned,
    e.TasksQuarantined: apply_ends.tasks_quarantined,
    e.TasksKilled: apply_ends.tasks_killed,
    e.JobCancelled: apply_jobs.job_cancelled,
    e.TasksUnschedulable: apply_ends.tasks_unschedulable,
    e.TaskRescheduled: apply_jobs.task_rescheduled,
    e.TaskDue: apply_jobs.task_due,
    e.JobDue: apply_jobs.job_due,
    e.TasksRetried: apply_jobs.tasks_retried,
    e.WorkerLost: apply_leases.worker_lost,
    e.JobsForgotten: apply_jobs.jobs_forgotten,
    e.KeysForgotten: apply_jobs.keys_forgotten,
    e.SnapshotInstalled: _snapshot_installed,
    e.RequestNoted: apply_fleet.request_noted,
    e.RequestsForgotten: apply_fleet.requests_forgotten,
    e.WorkerCordoned: apply_fleet.worker_cordoned,
    e.WorkerUncordoned: apply_fleet.worker_uncordoned,
    e.QueuePaused: apply_fleet.queue_paused,
    e.QueueResumed: apply_fleet.queue_resumed,
    e.EndpointRegistered: apply_fleet.endpoint_registered,
    e.EndpointRemoved: apply_fleet.endpoint_removed,
    e.TokenIssued: apply_fleet.token_issued,
    e.TokenRevoked: apply_fleet.token_revoked,
    e.TokensExpired: apply_fleet.tokens_expired,
    e.JobUnblocked: apply_jobs.job_unblocked,
    e.JobRespecified: apply_jobs.job_respecified,
    e.LimitSet: apply_fleet.limit_set,
    e.LimitCleared: apply_fleet.limit_cleared,
    e.ScheduleSet: apply_schedules.schedule_set,
    e.ScheduleRemoved: apply_schedules.schedule_removed,
    e.SchedulePaused: apply_schedules.schedule_paused,
    e.ScheduleResumed: apply_schedules.schedule_resumed,
    e.ScheduleFired: apply_schedules.schedule_fired,
    e.ScheduleSkipped: apply_schedules.schedule_skipped,
    e.CircuitCounted: apply_circuits.counted,
    e.CircuitOpened: apply_circuits.opened,
    e.CircuitHalfOpened: apply_circuits.half_opened,
    e.CircuitProbed: apply_circuits.probed,
    e.CircuitClosed: apply_circuits.closed,
    e.TasksSetAside: apply_ends.tasks_set_aside,
    e.LogForked: apply_lineage.log_forked,
    e.LogResumed: apply_lineage.log_resumed,
    e.Repaired: apply_lineage.repaired,
    e.TasksPurged: apply_decided.tasks_purged,
    e.OperationBegun: apply_operations.operation_begun,
    e.OperationEnded: apply_operations.operation_ended,
    e.TasksRestored: apply_operations.tasks_restored,
    e.TaskForced: apply_decided.task_forced,
    e.ResourcePut: apply_resources.resource_put,
    e.ResourceStatusPut: apply_resources.status_put,
    e.ResourceLabelled: apply_resources.labelled,
    e.ResourceFinalizersSet: apply_resources.finalizers_set,
    e.ResourceDeletionMarked: apply_resources.deletion_marked,
    e.ResourceRemoved: apply_resources.removed,
}


def apply(state: State, record: Record, position: Position) -> None:
    """Fold one record. Positions have no gaps and time never goes back."""
    if position != state.position + 1:
        raise BrokenInvariant(f"record {position} follows {state.position}")
    if record.at < state.time:
        raise BrokenInvariant(f"record {position} is of {record.at}, before {state.time}")
    # One object for equal instants: of a million jobs that come at once, few are of a time of
    # their own, and each keeps the instant it came at.
    at = state.time if record.at == state.time else record.at
    for event in record.events:
        FOLDS[type(event)](state, event, position, at)
    state.position = position
    state.time = at


def replay(state: State, records: Iterable[tuple[Position, Record]]) -> State:
    for position, record in records:
        apply(state, record, position)
    return state
