"""The task: one unit of a job. Its states, its table, and the record of one under way.

Most tasks never need a record: a task that was never leased, or that has finished, is one byte of
its job (its cell). A record exists from the first lease to the end, and is dropped with it.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from msgspec import Struct

from holdfast.core import events as e
from holdfast.core.errors import ImpossibleEvent
from holdfast.core.ids import (
    NEVER,
    NOWHERE,
    Index,
    Instant,
    JobId,
    LeaseId,
    Position,
    WorkerId,
    task_name,
)
from holdfast.core.owed import Author, Debt


class TaskState(IntEnum):
    """Where a task is. The numbers are written into snapshots and never change."""

    WAITING = 0
    LEASED = 1
    RUNNING = 2
    COMMITTED = 3
    SUCCEEDED = 4
    QUARANTINED = 5
    KILLED = 6
    UNSCHEDULABLE = 7


FINISHED: Final = frozenset(
    {
        TaskState.SUCCEEDED,
        TaskState.QUARANTINED,
        TaskState.KILLED,
        TaskState.UNSCHEDULABLE,
    }
)

TRANSITIONS: Final[Mapping[TaskState, Mapping[type[e.Event], TaskState]]] = {
    TaskState.WAITING: {
        e.LeasesGranted: TaskState.LEASED,
        e.TaskRescheduled: TaskState.WAITING,
        e.TaskDue: TaskState.WAITING,
        e.TasksKilled: TaskState.KILLED,
        e.TasksUnschedulable: TaskState.UNSCHEDULABLE,
        e.TasksSetAside: TaskState.QUARANTINED,
    },
    TaskState.LEASED: {
        e.AttemptsStarted: TaskState.RUNNING,
        e.AttemptsReturned: TaskState.WAITING,
        e.TasksQuarantined: TaskState.QUARANTINED,
        e.TasksKilled: TaskState.KILLED,
        e.TasksSetAside: TaskState.QUARANTINED,
    },
    TaskState.RUNNING: {
        e.TasksCompleted: TaskState.SUCCEEDED,
        e.TaskCommitted: TaskState.COMMITTED,
        e.AttemptsReturned: TaskState.WAITING,
        e.TasksQuarantined: TaskState.QUARANTINED,
        e.TasksKilled: TaskState.KILLED,
        e.TasksSetAside: TaskState.QUARANTINED,
    },
    TaskState.COMMITTED: {
        e.EffectsDelivered: TaskState.COMMITTED,
        e.DeliveryFailed: TaskState.COMMITTED,
        e.EffectsParked: TaskState.COMMITTED,
        e.EffectsRetried: TaskState.COMMITTED,
        e.EffectsDiscarded: TaskState.COMMITTED,
        e.TasksDone: TaskState.SUCCEEDED,
    },
    TaskState.SUCCEEDED: {},
    TaskState.QUARANTINED: {e.TasksRetried: TaskState.WAITING, e.TasksPurged: TaskState.KILLED},
    # A retry brings back what a limit killed, an undo what a person did (see the cells below).
    TaskState.KILLED: {
        e.TasksRetried: TaskState.WAITING,
        e.TasksRestored: TaskState.WAITING,
    },
    TaskState.UNSCHEDULABLE: {
        e.TasksRetried: TaskState.WAITING,
        e.TasksPurged: TaskState.KILLED,
    },
}

# The cell: the state in the low three bits, and two bits for what the state alone does not tell.
FRESH: Final = 0
ASIDE: Final = 8
KILLED_BY_LIMIT: Final = 14
GIVEN_UP: Final = 22
GIVEN_UP_UNPLACED: Final = 30
STATE_OF_CELL: Final = bytes(
    [*range(8), 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 6, 0]
)
"""FRESH waits and never was leased; ASIDE waits and has a record; KILLED_BY_LIMIT was killed by a
rule, not by a person, so that a retry of the job may send it back. GIVEN_UP was in quarantine until
it was purged, and GIVEN_UP_UNPLACED was unschedulable: neither comes back, and neither changes how
its job ended."""


class Endpoint(Struct, frozen=True, array_like=True, gc=False):
    """Where an attempt can be reached, as long as its lease lives."""

    name: str
    address: str
    metadata: tuple[tuple[str, str], ...]


class Task(Struct, gc=False, array_like=True):
    """A task under way, or one that waits with a past. `lease_id` zero: nobody holds it.

    `alone` is set by a death: the next attempt shares its slot with nobody and its start is
    durable before it runs, so that a task that kills its host is found by name. `rank` is how
    urgent it was when it was given out. `avoid` is the worker whose attempt of it failed last.
    `owed` is what its commit still owes, in the order of the entries; `author` is who committed
    it, where that one goes on with a block of its own. `wanted` is when its retry would be due
    if its job had no retry budget, where that made it wait longer.
    """

    job_id: JobId
    index: Index
    state: TaskState = TaskState.WAITING
    attempt: int = 0
    lease_id: LeaseId = LeaseId(0)
    worker: WorkerId = WorkerId("")
    incarnation: int = 0
    slot: int = 0
    granted: Position = NOWHERE
    started_at: Instant = NEVER
    expires_at: Instant = NEVER
    failures: int = 0
    losses: int = 0
    strays: int = 0
    alone: bool = False
    not_before: Instant = NEVER
    not_before_wall: Instant = NEVER
    previous: Position = NOWHERE
    committed: Position = NOWHERE
    owed: tuple[Debt, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()
    rank: int = 0
    avoid: WorkerId = WorkerId("")
    author: Author | None = None
    wanted: Instant = NEVER


def target_of(task: Task, event: e.Event) -> TaskState:
    """The state the table sends this task to, or the proof that history is broken."""
    target = TRANSITIONS[task.state].get(type(event))
    if target is None:
        raise ImpossibleEvent(f"task {task_name(task.job_id, task.index)}", task.state.name, event)
    return target
