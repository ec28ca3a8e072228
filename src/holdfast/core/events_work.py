"""Facts about work: jobs, tasks, attempts and leases, and the log that holds them."""

from collections.abc import Iterable
from typing import cast

from msgspec import Struct

from holdfast.core.event import Event
from holdfast.core.ids import NEVER, Index, Instant, JobId, LeaseId, Position, WorkerId
from holdfast.core.owed import Entry, Stored
from holdfast.core.placing import FAIL, After
from holdfast.core.spec import JobSpec


class Span(
    Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True
):
    """Neighbouring tasks, first and last included."""

    first: Index
    last: Index


class Start(
    Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True
):
    """One attempt that began."""

    index: Index
    lease_id: LeaseId
    started_at: Instant


class Commit(
    Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True
):
    """One attempt that crossed the line, told so fully that the task can be shown from it.

    `previous` is the position of the record that ended the attempt before it, and `granted` that
    of its lease: the history of a task is a chain through the log.
    """

    index: Index
    lease_id: LeaseId
    attempt: int
    granted: Position
    started_at: Instant
    previous: Position
    failures: int
    losses: int
    result: bytes
    stored: Stored | None = None


class End(
    Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True
):
    """One attempt that ended without a commit: why, what it charged, what follows.

    `failures` and `losses` are what is used after this end; `strays` counts the deaths in a row
    before a start; `not_before` is when the task may be leased again. `wanted`: when it could have
    been but for the retry budget of its job, where that made it wait longer. Where a replica of a
    service was charged a restart, `restarts` says how often it ended in a row, this end included,
    and `whole_in_ms` in how long its budget will be whole again.
    """

    index: Index
    lease_id: LeaseId
    attempt: int
    reason: str
    worker: WorkerId
    granted: Position
    started_at: Instant
    previous: Position
    charged: str
    failures: int
    losses: int
    strays: int
    not_before: Instant
    error: str
    traceback: str
    exit_code: int | None
    wanted: Instant = NEVER
    restarts: int = 0
    whole_in_ms: int = 0


class Stopped(
    Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True
):
    """A task that was stopped while it waited and has a past: where its last attempt ended."""

    index: Index
    previous: Position


class LogOpened(Event, frozen=True, kw_only=True):
    """A coordinator took the log. Every earlier epoch is fenced from here on."""

    log_id: str
    epoch: int
    version: str
    host: str
    pid: int
    torn_bytes: int


class JobSubmitted(Event, frozen=True, kw_only=True):
    """A user asked for work. `items` holds one payload a task; an array of `count` tasks has one
    `shared` payload instead. An open job (not `sealed`) is fed further.

    One that comes `after` others is blocked until `JobUnblocked`; `fate` says what becomes of it
    when that can no longer be. One with a `parent` ends with it, unless it is `detached`.
    """

    job_id: JobId
    spec: JobSpec
    key: str
    digest: bytes
    count: int
    items: tuple[bytes, ...]
    shared: bytes
    sealed: bool
    not_before: Instant
    not_before_wall: Instant
    times_out_at: Instant
    deadline_wall: Instant
    schedule_by: Instant
    after: tuple[After, ...] = ()
    fate: str = FAIL
    parent: JobId = JobId("")
    detached: bool = False


class JobUnblocked(Event, frozen=True, kw_only=True):
    """All that the job came after has come true. From here on its tasks can be leased, and the
    wait for somebody to take them counts until `schedule_by`."""

    job_id: JobId
    schedule_by: Instant


class JobRespecified(Event, frozen=True, kw_only=True):
    """A finished job will be tried again under other terms; what it runs is the same."""

    job_id: JobId
    spec: JobSpec


class TasksAdded(Event, frozen=True, kw_only=True):
    """The feeder of an open job brought more items. `digest` covers all items so far; it is empty
    where the job has no key, since then nobody can come back to compare."""

    job_id: JobId
    first: Index
    items: tuple[bytes, ...]
    digest: bytes


class JobSealed(Event, frozen=True, kw_only=True):
    """The job has `count` tasks, for good. `interrupted`: its feeder died before the end."""

    job_id: JobId
    count: int
    interrupted: bool


class LeasesGranted(Event, frozen=True, kw_only=True):
    """A worker holds sole tenure of these waiting tasks, under consecutive lease ids.

    `expires_at` zero: an in-process worker, whose tenure ends with the process, not by time.
    `rank` is how urgent the tasks were when they were given out: only what is more urgent than
    that may take their place.
    """

    job_id: JobId
    worker: WorkerId
    incarnation: int
    slot: int
    first_lease: LeaseId
    indices: tuple[Index, ...]
    attempts: tuple[int, ...]
    expires_at: Instant
    alone: bool
    rank: int = 0


def lease_ids(granted: LeasesGranted) -> Iterable[LeaseId]:
    """The leases of a grant, in the order of its tasks."""
    first = granted.first_lease
    return cast(Iterable[LeaseId], range(first, first + len(granted.indices)))


class AttemptsStarted(Event, frozen=True, kw_only=True):
    """Leased attempts began."""

    job_id: JobId
    starts: tuple[Start, ...]


class LeasesExtended(Event, frozen=True, kw_only=True):
    """A worker renewed all it holds until `until`, save the exceptions."""

    worker: WorkerId
    incarnation: int
    until: Instant
    exceptions: tuple[LeaseId, ...]


class LeasesRearmed(Event, frozen=True, kw_only=True):
    """After an outage of ours every lease that ends by time gets at least until `until`.

    Another clock may be ahead of the one that counted so far: what was left, at `waits_from`, of
    the wait of a task that must not outlive its lease is left now, and at most until `until`.
    """

    until: Instant
    waits_from: Instant = NEVER


class TasksCompleted(Event, frozen=True, kw_only=True):
    """Attempts committed and owed nothing: COMMITTED and DONE are one record."""

    job_id: JobId
    worker: WorkerId
    incarnation: int
    commits: tuple[Commit, ...]


class TaskCommitted(Event, frozen=True, kw_only=True):
    """An attempt committed and owes these entries. Nobody runs this task ever again."""

    job_id: JobId
    worker: WorkerId
    incarnation: int
    commit: Commit
    owed: tuple[Entry, ...]


class AttemptsReturned(Event, frozen=True, kw_only=True):
    """Attempts ended and their tasks wait again."""

    job_id: JobId
    ends: tuple[End, ...]


class TasksQuarantined(Event, frozen=True, kw_only=True):
    """Attempts ended and spent a budget: their tasks wait for an operator."""

    job_id: JobId
    ends: tuple[End, ...]


class TasksKilled(Event, frozen=True, kw_only=True):
    """Tasks will not run: those of `spans` were waiting, those of `ends` were leased.

    `stopped` names those of `spans` that had attempts before, so that their history stays a chain.
    """

    job_id: JobId
    cause: str
    spans: tuple[Span, ...]
    ends: tuple[End, ...]
    stopped: tuple[Stopped, ...]


class JobCancelled(Event, frozen=True, kw_only=True):
    """The job takes no more items, and its unfinished tasks were killed in this same record."""

    job_id: JobId
    cause: str
    reason: str


class TasksUnschedulable(Event, frozen=True, kw_only=True):
    """The scheduling deadline passed while these tasks waited, or a person said so. `stopped`
    names those that had attempts before, which only a person sends here."""

    job_id: JobId
    spans: tuple[Span, ...]
    reason: str
    stopped: tuple[Stopped, ...] = ()


class TaskRescheduled(Event, frozen=True, kw_only=True):
    """A waiting task was given another earliest time; `not_before_wall` is a calendar instant.
    `before` and `before_wall` are what they were until then, where that was noted."""

    job_id: JobId
    index: Index
    not_before: Instant
    not_before_wall: Instant
    before: Instant = NEVER
    before_wall: Instant = NEVER


class TaskDue(Event, frozen=True, kw_only=True):
    """The calendar instant a task was waiting for has come."""

    job_id: JobId
    index: Index


class JobDue(Event, frozen=True, kw_only=True):
    """The calendar instant a job was waiting for has come."""

    job_id: JobId


class TasksRetried(Event, frozen=True, kw_only=True):
    """An operator sent tasks back with fresh budgets: the job opens a new generation.

    `former` is the state that the tasks of each span had until then, by its number."""

    job_id: JobId
    generation: int
    spans: tuple[Span, ...]
    former: tuple[int, ...] = ()


class WorkerLost(Event, frozen=True, kw_only=True):
    """An incarnation is gone for good; its attempts end in this same record."""

    worker: WorkerId
    incarnation: int
    error: str


class JobsForgotten(Event, frozen=True, kw_only=True):
    """Finished jobs left memory. The log still has them."""

    job_ids: tuple[JobId, ...]


class KeysForgotten(Event, frozen=True, kw_only=True):
    """Submit keys that had outlived their job and their day were dropped."""

    keys: tuple[str, ...]


class SnapshotInstalled(Event, frozen=True, kw_only=True):
    """A verified snapshot covers the log up to `at_position`."""

    at_position: Position
    state_hash: str
