"""The job: what a user asked for. A projection of its tasks, computed and never stored.

A job keeps one byte a task (the cells) and, once tasks finish, two columns: how many attempts each
took and the position of the record that ended it. Everything else about a finished task is in the
log at that position.
"""

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, MutableSequence, Sequence
from enum import StrEnum
from itertools import repeat
from operator import itemgetter
from typing import Final, cast

from msgspec import Struct

from holdfast.core.ids import NEVER, Index, Instant, JobId, Position
from holdfast.core.owed import Stored
from holdfast.core.placing import FAIL, After
from holdfast.core.service import Service
from holdfast.core.spec import JobSpec
from holdfast.core.task import (
    FRESH,
    GIVEN_UP,
    GIVEN_UP_UNPLACED,
    KILLED_BY_LIMIT,
    STATE_OF_CELL,
    Task,
    TaskState,
)


class JobState(StrEnum):
    """What the tasks of a job amount to."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    KILLED = "KILLED"
    UNSCHEDULABLE = "UNSCHEDULABLE"


CANCELLED = "cancelled"
REPLACED = "replaced"
STOPPED = "stopped"
BY_PERSON = frozenset({CANCELLED, REPLACED, STOPPED})
"""The causes that are a person's will; every other cause is a rule's."""

DEPENDENCY_FAILED = "dependency_failed"
PARENT_ENDED = "parent_ended"
GANG_FAILED = "gang_failed"
TOO_MANY_FAILED = "too_many_failed"
JOB_TIMED_OUT = "job_timed_out"
DEADLINE = "deadline"
INTERRUPTED = "interrupted"

UNKNOWN_SPEC = JobSpec(name="", kind="", target="")
"""Stands in a job only between the reading of a snapshot's row and the look into its specs."""


class Job(Struct, gc=False, array_like=True, kw_only=True):
    """Cells, columns and the records of tasks under way.

    `payloads` has an entry a task, dropped when the task can never run again; an array has one
    `shared` payload instead. `after` is what the job waits for while it is `blocked`, and `fate`
    what becomes of it when that cannot be; with its `parent` it ends, unless `detached`.
    `tasks` holds the records. `cursor` is the first cell that may be fresh. `due` and `later` order
    the waiting tasks that have a record; they and `queued` are an index, rebuilt from the records.
    `stored` says which results lie in the store, for the few tasks that have one there. `service`
    is how the replicas of a service have fared; None for every other job.

    A snapshot holds jobs as rows of these fields in this order, up to `detached`, and a row may
    stop where only defaults follow: what a waiting job of one task needs comes first, and what few
    jobs have, last. From `spec` on they are kept apart or rebuilt.
    """

    job_id: JobId
    position: Position
    created_at: Instant
    updated_at: Instant
    states: bytearray
    payloads: list[bytes | None] | None
    unfinished: int = 0
    sealed: bool = False
    shared: bytes = b""
    key: str = ""
    digest: bytes = b""
    active: int = 0
    quarantined: int = 0
    generation: int = 1
    ever_started: bool = False
    interrupted: bool = False
    cause: str = ""
    not_before: Instant = NEVER
    not_before_wall: Instant = NEVER
    times_out_at: Instant = NEVER
    deadline_wall: Instant = NEVER
    schedule_by: Instant = NEVER
    chunks: tuple[tuple[Index, Position], ...] = ()
    after: tuple[After, ...] = ()
    blocked: bool = False
    fate: str = FAIL
    parent: JobId = JobId("")
    detached: bool = False
    spec: JobSpec = UNKNOWN_SPEC
    tasks: dict[Index, Task] | None = None
    attempts: MutableSequence[int] | None = None
    ends: MutableSequence[int] | None = None
    cursor: int = 0
    queued: bool = False
    due: deque[Index] | None = None
    later: list[tuple[Instant, Index]] | None = None
    stored: dict[Index, Stored] | None = None
    service: Service | None = None

    @property
    def count(self) -> int:
        return len(self.states)

    def payloads_of(self, indices: Sequence[Index]) -> Iterable[bytes]:
        """What these tasks run with: theirs, or for an array the shared one again and again."""
        if self.payloads is None:
            return repeat(self.shared)
        return cast(Iterable[bytes], map(self.payloads.__getitem__, indices))


def is_finished(job: Job) -> bool:
    return job.sealed and job.unfinished == 0


def only_owes(job: Job) -> bool:
    """Whether nothing is left to run: what is unfinished has committed and is being delivered."""
    return job.sealed and job.unfinished == job.states.count(TaskState.COMMITTED)


def job_state(job: Job) -> JobState:
    """A pure function of the tasks and the seal. Only a sealed job can end."""
    if not is_finished(job):
        running = job.active > 0 or job.ever_started
        return JobState.RUNNING if running else JobState.PENDING
    if job.interrupted:
        return JobState.FAILED
    states = job.states
    if states.count(TaskState.SUCCEEDED) == len(states) and not job.cause:
        return JobState.SUCCEEDED
    if TaskState.UNSCHEDULABLE in states or GIVEN_UP_UNPLACED in states:
        return JobState.UNSCHEDULABLE
    # A cancelled job that was still being fed may have no killed task to show for it.
    if TaskState.KILLED in states or job.cause in BY_PERSON:
        return JobState.KILLED
    return JobState.FAILED


def job_reason(job: Job) -> str:
    """Why the job is as it is, where its state alone does not tell."""
    if job.interrupted:
        return INTERRUPTED
    if job.cause:
        return job.cause
    if is_finished(job) and (job.quarantined or GIVEN_UP in job.states):
        return "quarantined"
    return ""


def counts(job: Job) -> dict[TaskState, int]:
    """How many tasks are in each state, read off the cells."""
    folded = job.states.translate(STATE_OF_CELL.ljust(256, b"\0"))
    return {state: folded.count(state) for state in TaskState}


def state_of(job: Job, index: Index) -> TaskState:
    return TaskState(STATE_OF_CELL[job.states[index]])


def columns(job: Job) -> tuple["array[int]", "array[int]"]:
    """The attempts and end positions, made when the first task finishes and kept as long as the
    cells: a job that waits costs a byte a task."""
    if job.attempts is None or job.ends is None:
        job.attempts, job.ends = array("I"), array("Q")
    attempts, ends = cast("array[int]", job.attempts), cast("array[int]", job.ends)
    missing = len(job.states) - len(attempts)
    if missing:
        attempts.frombytes(bytes(attempts.itemsize * missing))
        ends.frombytes(bytes(ends.itemsize * missing))
    return attempts, ends


RETRYABLE: Final = (TaskState.QUARANTINED, KILLED_BY_LIMIT, TaskState.UNSCHEDULABLE)
"""The cells of tasks that a manual retry may send back."""


def retryable(job: Job, index: Index) -> bool:
    return job.states[index] in RETRYABLE


def may_come_back(job: Job) -> bool:
    """Whether a manual retry finds anything of it to send back. A gang comes back whole."""
    found = (job.states.count(cell) for cell in RETRYABLE)
    return sum(found) == job.count if job.spec.placing.gang else any(found)


def birth_of(job: Job, index: Index) -> Position:
    """Where a task came to be: with its job, or with the items that were added later."""
    place = bisect_right(job.chunks, index, key=itemgetter(0))
    return job.chunks[place - 1][1] if place else job.position


def let_go_of_payloads(job: Job) -> None:
    """What a finished job ran with is kept only as long as a task of it may come back."""
    if not any(cell in job.states for cell in RETRYABLE):
        job.payloads, job.shared = None, b""


def is_fresh_run(job: Job, indices: tuple[Index, ...]) -> bool:
    """Neighbours that never were leased: seen without a look at each."""
    if not indices:
        return False
    first, stop = indices[0], indices[-1] + 1
    return (
        0 <= first < stop <= len(job.states)
        and job.states.count(FRESH, first, stop) == len(indices)
        and indices == tuple(range(first, stop))
    )


def first_fresh(job: Job, start: int) -> int:
    """The first task at or after `start` that was never leased, or the count if there is none."""
    found = job.states.find(FRESH, start)
    return len(job.states) if found < 0 else found
