"""Requests, in the imperative. Each is decided whole: accepted with its events, or refused.

Chance and time come in from outside: `roll` is a throw in [0, 1), `wall` the wall clock.
"""

from holdfast.core.command import Command
from holdfast.core.commands_schedules import SCHEDULE_COMMANDS
from holdfast.core.ids import NEVER, Index, Instant, JobId, LeaseId, Position, WorkerId
from holdfast.core.reports import Done, Failed, Released, Started
from holdfast.core.spec import JobSpec

# What is defined elsewhere and belongs here all the same.
__all__ = ["COMMAND_TYPES", "Command"]


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

    Jobs are numbered in the order they come, unless the asker brings a name of its own.
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
    """Give waiting tasks of one job to one slot. `term_ms` zero: not ending by time."""

    job_id: JobId
    worker: WorkerId
    incarnation: int
    slot: int
    indices: tuple[Index, ...]
    term_ms: int
    alone: bool = False


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
    """Send tasks back with fresh budgets. No indices: everything in the job that may come back."""

    job_id: JobId
    indices: tuple[Index, ...] = ()


class ConfirmDelivery(Command, frozen=True, kw_only=True):
    """Something a commit owed has been delivered."""

    job_id: JobId
    index: Index
    entry: int


class InstallSnapshot(Command, frozen=True, kw_only=True):
    """A second process made and verified a snapshot of the state at `at_position`."""

    at_position: Position
    state_hash: str


class Tick(Command, frozen=True, kw_only=True):
    """Time has passed: whatever came due is recorded. `held` are jobs that somebody looks at,
    `silent` those whose feeder was not heard of for too long."""

    wall: Instant
    held: frozenset[JobId] = frozenset()
    keep_finished: int = 10_000
    keep_finished_ms: int = 3_600_000
    keep_keys_ms: int = 86_400_000
    keep_requests_ms: int = 900_000
    most: int = 1_000
    silent: tuple[JobId, ...] = ()


class IssueToken(Command, frozen=True, kw_only=True):
    """Let somebody ask. The secret stays with whoever made it; only its digest comes here."""

    token_id: str
    name: str
    digest: bytes
    scopes: tuple[str, ...]
    worker: str = ""
    expires_wall: Instant = NEVER


class RevokeToken(Command, frozen=True, kw_only=True):
    """Let a token open nothing any more."""

    token_id: str


class CordonWorker(Command, frozen=True, kw_only=True):
    """Give nothing more to workers of this name."""

    worker: WorkerId
    reason: str = ""


class UncordonWorker(Command, frozen=True, kw_only=True):
    """Give work to workers of this name again."""

    worker: WorkerId


class PauseQueue(Command, frozen=True, kw_only=True):
    """Give nothing more of this queue out."""

    queue: str
    reason: str = ""


class ResumeQueue(Command, frozen=True, kw_only=True):
    """Give this queue out again."""

    queue: str


class RegisterEndpoint(Command, frozen=True, kw_only=True):
    """An attempt can be reached: under its lease, by the worker that holds it."""

    worker: WorkerId
    incarnation: int
    job_id: JobId
    index: Index
    lease_id: LeaseId
    name: str
    address: str
    metadata: tuple[tuple[str, str], ...] = ()


class RemoveEndpoint(Command, frozen=True, kw_only=True):
    """An attempt takes back one of its endpoints."""

    worker: WorkerId
    incarnation: int
    job_id: JobId
    index: Index
    lease_id: LeaseId
    name: str


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
    ConfirmDelivery,
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
    *SCHEDULE_COMMANDS,
)
