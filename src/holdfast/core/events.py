"""Facts, in the past tense: the only things ever written.

An event is frozen and tells its whole outcome (the retry delay, the budget verdict, the expiry),
so that replay asks neither the clock nor the configuration. Where many tasks take the same step at
once, one event names them all. The union is closed: replay refuses a type it does not know. A
recorded shape never changes; it may grow a trailing field with a default, or a new type.
"""

from typing import get_args

from holdfast.core.event import Event
from holdfast.core.events_circuits import (
    CircuitClosed,
    CircuitCounted,
    CircuitHalfOpened,
    CircuitOpened,
    CircuitProbed,
)
from holdfast.core.events_decided import TaskForced, TasksPurged, TasksSetAside
from holdfast.core.events_fleet import (
    EndpointRegistered,
    EndpointRemoved,
    LimitCleared,
    LimitSet,
    QueuePaused,
    QueueResumed,
    RequestNoted,
    RequestsForgotten,
    TokenIssued,
    TokenRevoked,
    TokensExpired,
    WorkerCordoned,
    WorkerUncordoned,
)
from holdfast.core.events_lineage import LogForked, LogResumed
from holdfast.core.events_operations import OperationBegun, OperationEnded, TasksRestored
from holdfast.core.events_owed import (
    DeliveryFailed,
    EffectsDelivered,
    EffectsDiscarded,
    EffectsParked,
    EffectsRetried,
    Parked,
    Settled,
    TasksDone,
)
from holdfast.core.events_repair import Repaired
from holdfast.core.events_resources import (
    ResourceDeletionMarked,
    ResourceFinalizersSet,
    ResourceLabelled,
    ResourcePut,
    ResourceRemoved,
    ResourceStatusPut,
)
from holdfast.core.events_schedules import (
    ScheduleFired,
    SchedulePaused,
    ScheduleRemoved,
    ScheduleResumed,
    ScheduleSet,
    ScheduleSkipped,
)
from holdfast.core.events_work import (
    AttemptsReturned,
    AttemptsStarted,
    Commit,
    End,
    JobCancelled,
    JobDue,
    JobRespecified,
    JobSealed,
    JobsForgotten,
    JobSubmitted,
    JobUnblocked,
    KeysForgotten,
    LeasesExtended,
    LeasesGranted,
    LeasesRearmed,
    LogOpened,
    SnapshotInstalled,
    Span,
    Start,
    Stopped,
    TaskCommitted,
    TaskDue,
    TaskRescheduled,
    TasksAdded,
    TasksCompleted,
    TasksKilled,
    TasksQuarantined,
    TasksRetried,
    TasksUnschedulable,
    WorkerLost,
    lease_ids,
)

__all__ = [
    "EVENT_TYPES",
    "AnyEvent",
    "AttemptsReturned",
    "AttemptsStarted",
    "CircuitClosed",
    "CircuitCounted",
    "CircuitHalfOpened",
    "CircuitOpened",
    "CircuitProbed",
    "Commit",
    "DeliveryFailed",
    "EffectsDelivered",
    "EffectsDiscarded",
    "EffectsParked",
    "EffectsRetried",
    "End",
    "EndpointRegistered",
    "EndpointRemoved",
    "Event",
    "JobCancelled",
    "JobDue",
    "JobRespecified",
    "JobSealed",
    "JobSubmitted",
    "JobUnblocked",
    "JobsForgotten",
    "KeysForgotten",
    "LeasesExtended",
    "LeasesGranted",
    "LeasesRearmed",
    "LimitCleared",
    "LimitSet",
    "LogForked",
    "LogOpened",
    "LogResumed",
    "OperationBegun",
    "OperationEnded",
    "Parked",
    "QueuePaused",
    "QueueResumed",
    "Repaired",
    "RequestNoted",
    "RequestsForgotten",
    "ResourceDeletionMarked",
    "ResourceFinalizersSet",
    "ResourceLabelled",
    "ResourcePut",
    "ResourceRemoved",
    "ResourceStatusPut",
    "ScheduleFired",
    "SchedulePaused",
    "ScheduleRemoved",
    "ScheduleResumed",
    "ScheduleSet",
    "ScheduleSkipped",
    "Settled",
    "SnapshotInstalled",
    "Span",
    "Start",
    "Stopped",
    "TaskCommitted",
    "TaskDue",
    "TaskForced",
    "TaskRescheduled",
    "TasksAdded",
    "TasksCompleted",
    "TasksDone",
    "TasksKilled",
    "TasksPurged",
    "TasksQuarantined",
    "TasksRestored",
    "TasksRetried",
    "TasksSetAside",
    "TasksUnschedulable",
    "TokenIssued",
    "TokenRevoked",
    "TokensExpired",
    "WithEnds",
    "WorkerCordoned",
    "WorkerLost",
    "WorkerUncordoned",
    "lease_ids",
]

AnyEvent = (
    LogOpened
    | JobSubmitted
    | TasksAdded
    | JobSealed
    | LeasesGranted
    | AttemptsStarted
    | LeasesExtended
    | LeasesRearmed
    | TasksCompleted
    | TaskCommitted
    | EffectsDelivered
    | DeliveryFailed
    | EffectsParked
    | EffectsRetried
    | EffectsDiscarded
    | TasksDone
    | AttemptsReturned
    | TasksQuarantined
    | TasksKilled
    | JobCancelled
    | TasksUnschedulable
    | TaskRescheduled
    | TaskDue
    | JobDue
    | TasksRetried
    | WorkerLost
    | JobsForgotten
    | KeysForgotten
    | SnapshotInstalled
    | RequestNoted
    | RequestsForgotten
    | WorkerCordoned
    | WorkerUncordoned
    | QueuePaused
    | QueueResumed
    | EndpointRegistered
    | EndpointRemoved
    | TokenIssued
    | TokenRevoked
    | TokensExpired
    | JobUnblocked
    | JobRespecified
    | LimitSet
    | LimitCleared
    | ScheduleSet
    | ScheduleRemoved
    | SchedulePaused
    | ScheduleResumed
    | ScheduleFired
    | ScheduleSkipped
    | CircuitCounted
    | CircuitOpened
    | CircuitHalfOpened
    | CircuitProbed
    | CircuitClosed
    | TasksSetAside
    | LogForked
    | LogResumed
    | Repaired
    | TasksPurged
    | TaskForced
    | OperationBegun
    | OperationEnded
    | TasksRestored
    | ResourcePut
    | ResourceStatusPut
    | ResourceLabelled
    | ResourceFinalizersSet
    | ResourceDeletionMarked
    | ResourceRemoved
)

WithEnds = AttemptsReturned | TasksQuarantined | TasksKilled | TasksSetAside
"""The events that tell of attempts which ended without a commit."""

EVENT_TYPES: tuple[type[Event], ...] = get_args(AnyEvent)
