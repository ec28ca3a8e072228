"""Requests, in the imperative. Each is decided whole: accepted with its events, or refused.

Chance and time come in from outside: `roll` is a throw in [0, 1), `wall` the wall clock.
"""

from typing import Final

from holdfast.core.command import Command
from holdfast.core.commands_circuits import CIRCUIT_COMMANDS, CloseCircuit, OpenCircuit
from holdfast.core.commands_decided import (
    ASIDE_CAUSES,
    DECIDED_COMMANDS,
    ForceTask,
    Picked,
    PurgeQuarantined,
    PurgeTasks,
    RetryQuarantined,
    SetAside,
)
from holdfast.core.commands_fleet import (
    ClearLimit,
    CordonWorker,
    IssueToken,
    PauseQueue,
    RegisterEndpoint,
    RemoveEndpoint,
    ResumeQueue,
    RevokeToken,
    SetLimit,
    UncordonWorker,
)
from holdfast.core.commands_gangs import (
    GANG_COMMANDS,
    CommitGang,
    Finished,
    GrantGang,
    Member,
)
from holdfast.core.commands_lineage import LINEAGE_COMMANDS, ForkLog, ResumeLog
from holdfast.core.commands_operations import OPERATION_COMMANDS
from holdfast.core.commands_owed import (
    OWED_COMMANDS,
    ConfirmDeliveries,
    DiscardEffects,
    FailDelivery,
    ParkEffects,
    RetryEffects,
)
from holdfast.core.commands_repair import REPAIR_COMMANDS, RecordRepair
from holdfast.core.commands_resources import RESOURCE_COMMANDS
from holdfast.core.commands_schedules import SCHEDULE_COMMANDS
from holdfast.core.commands_services import SERVICE_COMMANDS, EndService, StopReplicas
from holdfast.core.commands_stalls import STALL_COMMANDS, RecoverStalled
from holdfast.core.ids import NEVER, Index, Instant, JobId, LeaseId, Position, WorkerId
from holdfast.core.placing import FAIL, After
from holdfast.core.reports import Done, Failed, Released, Started
from holdfast.core.spec import JobSpec

__all__ = [
    "ASIDE_CAUSES",
    "COMMAND_TYPES",
    "EXISTING",
    "KEEP",
    "REFUSE",
    "REPLACE",
    "AddTasks",
    "ClearLimit",
    "CloseCircuit",
    "Command",
    "CommitGang",
    "CommitTasks",
    "ConfirmDeliveries",
    "CordonWorker",
    "DiscardEffects",
    "EndService",
    "ExpireLeases",
    "ExtendLeases",
    "FailAttempt",
    "FailDelivery",
    "Finished",
    "ForceTask",
    "ForkLog",
    "GrantGang",
    "GrantLeases",
    "InstallSnapshot",
    "IssueToken",
    "KillJob",
    "KillTasks",
    "LoseWorker",
    "Member",
    "OpenCircuit",
    "OpenLog",
    "ParkEffects",
    "PauseQueue",
    "Picked",
    "PreemptAttempts",
    "PurgeQuarantined",
    "PurgeTasks",
    "RearmLeases",
    "RecordRepair",
    "RecoverStalled",
    "RegisterEndpoint",
    "ReleaseAttempts",
    "RemoveEndpoint",
    "RescheduleTask",
    "ResumeLog",
    "ResumeQueue",
    "RetryEffects",
    "RetryQuarantined",
    "RetryTasks",
    "RevokeToken",
    "SealJob",
    "SetAside",
    "SetLimit",
    "SettleTies",
    "StartAttempts",
    "StopReplicas",
    "SubmitJob",
    "Tick",
    "UncordonWorker",
]

KEEP: Final = "keep"
REPLACE: Final = "replace"
REFUSE: Final = "refuse"
EXISTING: Final = (KEEP, REPLACE, REFUSE)
"""What becomes of a submit whose key has a job already: it finds that job, it takes its place, or
it is refused."""


class OpenLog(Command, frozen=True, kw_only=True):
    """A coordinator takes the log: fence the former one and settle what died with it. `served`:
    its feeders are programs of their own, which may well have survived it."""

    log_id: str
    epoch: int
    version: str
    host: str
    pid: int
    torn_bytes: int
    term_ms: int
    served: bool = False


class SubmitJob(Command, frozen=True, kw_only=True):
    """Ask for work. Items, or `count` tasks sharing one payload; sealed, or to be fed further.

    Jobs are numbered in the order they come, unless the asker brings a name of its own. A `key`
    is known for `unique_for_ms` from its submission on, zero for as long as it is kept; `existing`
    says what follows while it is known.
    """

    spec: JobSpec
    job_id: JobId = JobId("")
    key: str = ""
    digest: bytes = b""
    items: tuple[bytes, ...] = ()
    count: int = 0
    shared: bytes = b""
    sealed: bool = True
    delay_ms: int = 0
    not_before_wall: Instant = NEVER
    deadline_wall: Instant = NEVER
    after: tuple[After, ...] = ()
    fate: str = FAIL
    parent: JobId = JobId("")
    detached: bool = False
    unique_for_ms: int = 0
    existing: str = KEEP


class SettleTies(Command, frozen=True, kw_only=True):
    """Judge these jobs again, since one that they came after, or belong to, may have ended."""

    jobs: tuple[JobId, ...]


class AddTasks(Command, frozen=True, kw_only=True):
    """Feed an open job. `first` is the count the feeder believes it has, so a repeat is known."""

    job_id: JobId
    first: int
    items: tuple[bytes, ...]
    digest: bytes = b""


class SealJob(Command, frozen=True, kw_only=True):
    """No more items will come."""

    job_id: JobId
    count: int
    interrupted: bool = False


class GrantLeases(Command, frozen=True, kw_only=True):
    """Give waiting tasks of one job to one slot. `term_ms` zero: not ending by time. `rank` is
    how urgent they have become by waiting; without it, as urgent as their job."""

    job_id: JobId
    worker: WorkerId
    incarnation: int
    slot: int
    indices: tuple[Index, ...]
    term_ms: int
    alone: bool = False
    rank: int | None = None


class PreemptAttempts(Command, frozen=True, kw_only=True):
    """End attempts to make room for something more urgent, uncharged. `by` is the job that needs
    the room, where it is to be judged whether it may."""

    leases: tuple[LeaseId, ...]
    reason: str
    by: JobId = JobId("")


class StartAttempts(Command, frozen=True, kw_only=True):
    """A worker began attempts it holds."""

    worker: WorkerId
    incarnation: int
    started: tuple[Started, ...]


class CommitTasks(Command, frozen=True, kw_only=True):
    """A worker has results and asks to commit them."""

    worker: WorkerId
    incarnation: int
    done: tuple[Done, ...]


class FailAttempt(Command, frozen=True, kw_only=True):
    """A worker reports an attempt that ended without a result."""

    worker: WorkerId
    incarnation: int
    failed: Failed
    roll: float


class ReleaseAttempts(Command, frozen=True, kw_only=True):
    """A worker gives attempts back, nobody's fault. `reason`: released, preempted, undelivered."""

    worker: WorkerId
    incarnation: int
    released: tuple[Released, ...]
    reason: str = "released"


class ExtendLeases(Command, frozen=True, kw_only=True):
    """A worker is alive and keeps what it holds for another term."""

    worker: WorkerId
    incarnation: int
    term_ms: int
    exceptions: tuple[LeaseId, ...] = ()


class ExpireLeases(Command, frozen=True, kw_only=True):
    """End the leases of this holder that are past their time."""

    worker: WorkerId
    incarnation: int


class RearmLeases(Command, frozen=True, kw_only=True):
    """The coordinator was away: no lease may end by time before one more full term."""

    term_ms: int


class LoseWorker(Command, frozen=True, kw_only=True):
    """An incarnation is known to be dead: end what it holds at once."""

    worker: WorkerId
    incarnation: int
    error: str


class KillJob(Command, frozen=True, kw_only=True):
    """Stop a job: nothing more runs, what runs is stopped. `cause` is `cancelled` for a person."""

    job_id: JobId
    cause: str = "cancelled"
    reason: str = ""


class KillTasks(Command, frozen=True, kw_only=True):
    """A person stops some tasks of a job; the others go on."""

    job_id: JobId
    indices: tuple[Index, ...]
    reason: str = ""


class RescheduleTask(Command, frozen=True, kw_only=True):
    """Move a waiting task's earliest time: after a delay, or at a calendar instant."""

    job_id: JobId
    index: Index
    delay_ms: int = 0
    not_before_wall: Instant = NEVER


class RetryTasks(Command, frozen=True, kw_only=True):
    """Send tasks back with fresh budgets. No indices: everything in the job that may come back.
    With a `spec`, under other terms than before."""

    job_id: JobId
    indices: tuple[Index, ...] = ()
    spec: JobSpec | None = None


class InstallSnapshot(Command, frozen=True, kw_only=True):
    """A second process made and verified a snapshot of the state at `at_position`."""

    at_position: Position
    state_hash: str


class Tick(Command, frozen=True, kw_only=True):
    """Time has passed: whatever came due is recorded. `held` are jobs that somebody looks at,
    `silent` those whose feeder was not heard of for too long. `reasons` tell of jobs that wait for
    a worker why none takes them."""

    wall: Instant
    held: frozenset[JobId] = frozenset()
    keep_finished: int = 10_000
    keep_finished_ms: int = 3_600_000
    keep_keys_ms: int = 86_400_000
    keep_requests_ms: int = 900_000
    most: int = 1_000
    silent: tuple[JobId, ...] = ()
    reasons: tuple[tuple[JobId, str], ...] = ()


COMMAND_TYPES: tuple[type[Command], ...] = (
    OpenLog,
    SubmitJob,
    AddTasks,
    SealJob,
    GrantLeases,
    StartAttempts,
    CommitTasks,
    FailAttempt,
    ReleaseAttempts,
    ExtendLeases,
    ExpireLeases,
    RearmLeases,
    LoseWorker,
    KillJob,
    KillTasks,
    RescheduleTask,
    RetryTasks,
    InstallSnapshot,
    Tick,
    IssueToken,
    RevokeToken,
    CordonWorker,
    UncordonWorker,
    PauseQueue,
    ResumeQueue,
    RegisterEndpoint,
    RemoveEndpoint,
    SettleTies,
    *GANG_COMMANDS,
    PreemptAttempts,
    SetLimit,
    ClearLimit,
    *SCHEDULE_COMMANDS,
    *OWED_COMMANDS,
    *CIRCUIT_COMMANDS,
    *STALL_COMMANDS,
    *OPERATION_COMMANDS,
    *DECIDED_COMMANDS,
    *LINEAGE_COMMANDS,
    *REPAIR_COMMANDS,
    *RESOURCE_COMMANDS,
    *SERVICE_COMMANDS,
)
