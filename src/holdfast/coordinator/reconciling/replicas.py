"""The replicas of a deployment as they stand, over all the jobs that hold them."""

from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from msgspec import Struct

from holdfast.coordinator.reconciling.deployment import bound_to, label_of
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
from holdfast.core.job import Job, state_of
from holdfast.core.service import Replica as Fared
from holdfast.core.task import TaskState
from holdfast.runtimes.resource import REVISION_LABEL
from holdfast.runtimes.rollout import Replica

FAILING: Final = 3
"""A replica that is not ready and ended by itself so often in a row fails."""

LIVING: Final = frozenset(
    {TaskState.WAITING, TaskState.LEASED, TaskState.RUNNING, TaskState.QUARANTINED}
)
"""One in quarantine has spent its budget. It has not gone: another in its place would be a way
around the budget."""


class Told(Protocol):
    """How a replica stands as its worker said last."""

    @property
    def is_ready(self) -> bool: ...

    @property
    def told(self) -> str: ...


class Standings(Protocol):
    """What workers say of replicas."""

    def standing(self, lease_id: LeaseId) -> Told | None: ...


class Stood(Struct, frozen=True, kw_only=True, gc=False):
    """One replica. `ended` is where its last end is recorded; `whole_at` when its budget will be
    whole again. `worker` is the one it may only run on, if its job is bound to one."""

    job_id: JobId
    index: Index
    revision: str
    state: TaskState
    lease_id: LeaseId
    is_ready: bool
    is_steady: bool
    restarts: int
    whole_at: Instant
    ended: Position
    problem: str
    worker: WorkerId

    @property
    def name(self) -> str:
        return task_name(self.job_id, self.index)

    @property
    def is_failing(self) -> bool:
        is_down = not self.is_ready and self.restarts >= FAILING
        return is_down or self.state is TaskState.QUARANTINED


def stood(
    jobs: Iterable[Job], standings: Standings, now: Instant, unasked: str = ""
) -> tuple[Stood, ...]:
    """Every replica that is there, the oldest first. Those of revision `unasked` are ready as soon
    as they run: nobody asks them anything."""
    return tuple(replica for job in jobs for replica in _of_job(job, standings, now, unasked))


def as_rolled(replicas: Iterable[Stood], leaving: int = 0) -> tuple[Replica, ...]:
    """The same as a rollout sees them: numbered in their order. Those that were told to end and
    have not yet take room, and nothing else."""
    living = tuple(
        Replica(
            index=place,
            revision=replica.revision,
            is_ready=replica.is_ready,
            is_failing=replica.is_failing,
        )
        for place, replica in enumerate(replicas)
    )
    gone = tuple(
        Replica(index=-place - 1, revision="", is_ready=False, is_stopping=True)
        for place in range(leaving)
    )
    return living + gone


def _of_job(
    job: Job, standings: Standings, now: Instant, unasked: str
) -> Iterator[Stood]:
    revision = label_of(job.spec, REVISION_LABEL)
    is_asked = revision != unasked
    known = job.service.replicas if job.service is not None else {}
    for place in range(job.count):
        index = Index(place)
        state = state_of(job, index)
        if state in LIVING:
            fared = known.get(index)
            yield _replica(job, index, state, revision, fared, standings, now, is_asked=is_asked)


def _replica(
    job: Job,
    index: Index,
    state: TaskState,
    revision: str,
    fared: Fared | None,
    standings: Standings,
    now: Instant,
    *,
    is_asked: bool,
) -> Stood:
    task = (job.tasks or {}).get(index)
    lease_id = task.lease_id if task is not None else LeaseId(0)
    told = standings.standing(lease_id) if lease_id else None
    has_endpoint = task is not None and bool(task.endpoints)
    # The endpoint is recorded: it outlives a restart, which what workers said does not.
    is_ready = state is TaskState.RUNNING and (
        has_endpoint or not is_asked if told is None else told.is_ready
    )
    ran_ms = now - task.started_at if task is not None and task.started_at != NEVER else 0
    is_steady = state is TaskState.RUNNING and ran_ms >= job.spec.service.steady_ms
    return Stood(
        job_id=job.job_id,
        index=index,
        revision=revision,
        state=state,
        lease_id=lease_id,
        is_ready=is_ready,
        is_steady=is_steady,
        restarts=0 if fared is None or is_steady else fared.restarts,
        whole_at=NEVER if fared is None else fared.whole_at,
        ended=task.previous if task is not None else _end_of(job, index),
        problem="" if is_ready else _problem(state, told, task is not None),
        worker=bound_to(job.spec),
    )


def _end_of(job: Job, index: Index) -> Position:
    """Where a replica without a record of its own ended last."""
    return Position(job.ends[index]) if job.ends and index < len(job.ends) else NOWHERE


NO_WORKER: Final = "it waits for a worker"

WAITS: Final = {
    TaskState.LEASED: "it is being started",
    TaskState.QUARANTINED: "its budget of restarts is spent",
}


def _problem(state: TaskState, told: Told | None, has_past: bool) -> str:
    if state is TaskState.RUNNING:
        return "nothing was heard of it yet" if told is None else told.told
    waits = "it waits to be started again" if has_past else NO_WORKER
    return WAITS.get(state, waits)
