"""A world with task `j/0` in every situation a task can be in.

Tests that try every command or every event against every state begin here. A stage is reached by
commands alone, never by writing into the state.
"""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.core import commands as c
from holdfast.core.ids import Index, Instant, JobId, LeaseId
from holdfast.core.owed import BLOCK, DebtName, Entry
from holdfast.core.placing import After, Placing
from holdfast.core.spec import JobSpec, RetryPolicy, ServicePolicy
from holdfast.core.task import TaskState
from holdfast.testing.world import MAIL, POST, World

JOB = JobId("j")
BEFORE = JobId("before")
FIRST_ENTRY = DebtName(JOB, Index(0), 0)
TERM_MS = 15_000
SPEC = JobSpec(
    name="work",
    kind="function",
    target="work",
    retries=1,
    max_losses=1,
    retry=RetryPolicy(kind="fixed", delay_ms=1_000, jitter=0.0),
)


SERVICE = JobSpec(
    name="serve",
    kind="service",
    target="",
    service=ServicePolicy(restarts=1, refill_ms=600_000, delay_ms=1_000),
)
GANG = msgspec.structs.replace(SPEC, placing=Placing(gang=True))


class Stage(Struct):
    """The world, the state its task is in, and the lease it is or was last held under."""

    world: World
    state: TaskState
    lease_id: LeaseId = LeaseId(0)


def _submitted(spec: JobSpec = SPEC, *, sealed: bool = True) -> World:
    world = World()
    world.submit(JOB, spec=spec, items=(b"item",), sealed=sealed)
    return world


def _fresh() -> Stage:
    return Stage(_submitted(), TaskState.WAITING)


def _open() -> Stage:
    return Stage(_submitted(sealed=False), TaskState.WAITING)


def _delayed_job() -> Stage:
    world = World()
    world.submit(JOB, spec=SPEC, items=(b"item",), delay_ms=60_000)
    return Stage(world, TaskState.WAITING)


def _dated_job() -> Stage:
    world = World()
    world.submit(JOB, spec=SPEC, items=(b"item",), not_before_wall=world.wall + 60_000)
    return Stage(world, TaskState.WAITING)


def _leased(*, term_ms: int = 0, alone: bool = False, spec: JobSpec = SPEC) -> Stage:
    world = _submitted(spec)
    (lease_id,) = world.grant(JOB, 0, term_ms=term_ms, alone=alone)
    return Stage(world, TaskState.LEASED, lease_id)


def _running(*, term_ms: int = 0, spec: JobSpec = SPEC) -> Stage:
    stage = _leased(term_ms=term_ms, spec=spec)
    stage.world.start(JOB, 0, stage.lease_id)
    stage.state = TaskState.RUNNING
    return stage


def _run_out() -> Stage:
    stage = _running(term_ms=TERM_MS)
    stage.world.sleep(TERM_MS)
    return stage


def _aside() -> Stage:
    stage = _leased()
    stage.world.release(JOB, 0, stage.lease_id)
    stage.state = TaskState.WAITING
    return stage


def _backing_off() -> Stage:
    stage = _running()
    stage.world.fail(JOB, 0, stage.lease_id)
    stage.state = TaskState.WAITING
    return stage


def _delayed() -> Stage:
    stage = _fresh()
    stage.world.did(c.RescheduleTask(job_id=JOB, index=Index(0), delay_ms=60_000))
    return stage


def _dated() -> Stage:
    stage = _fresh()
    wall = Instant(stage.world.wall + 60_000)
    stage.world.did(c.RescheduleTask(job_id=JOB, index=Index(0), not_before_wall=wall))
    return stage


def _committed(*owed: Entry) -> Stage:
    stage = _running()
    stage.world.commit(JOB, 0, stage.lease_id, owed=owed)
    stage.state = TaskState.COMMITTED
    return stage


def _failed_delivery() -> Stage:
    stage = _committed(MAIL)
    stage.world.did(
        c.FailDelivery(name=FIRST_ENTRY, error="no answer", most_tries=20, delay_ms=1_000)
    )
    return stage


def _parked() -> Stage:
    stage = _committed(MAIL)
    stage.world.did(c.ParkEffects(names=(FIRST_ENTRY,), error="nobody can"))
    return stage


def _succeeded() -> Stage:
    stage = _running()
    stage.world.commit(JOB, 0, stage.lease_id)
    stage.state = TaskState.SUCCEEDED
    return stage


def _interrupted() -> Stage:
    world = _submitted(sealed=False)
    (lease_id,) = world.grant(JOB, 0)
    world.commit(JOB, 0, lease_id)
    world.did(c.SealJob(job_id=JOB, count=1, interrupted=True))
    return Stage(world, TaskState.SUCCEEDED, lease_id)


def _quarantined() -> Stage:
    stage = _backing_off()
    stage.world.sleep(1_000)
    (stage.lease_id,) = stage.world.grant(JOB, 0)
    stage.world.fail(JOB, 0, stage.lease_id)
    stage.state = TaskState.QUARANTINED
    return stage


def _set_aside() -> Stage:
    stage = _aside()
    stage.world.did(c.SetAside(job_id=JOB, indices=(Index(0),), note="by hand"))
    stage.state = TaskState.QUARANTINED
    return stage


def _given_up() -> Stage:
    stage = _quarantined()
    stage.world.did(c.PurgeTasks(job_id=JOB, indices=(Index(0),), reason="old"))
    stage.state = TaskState.KILLED
    return stage


def _given_up_unplaced() -> Stage:
    stage = _unschedulable()
    stage.world.did(c.PurgeTasks(job_id=JOB, indices=(Index(0),), reason="old"))
    stage.state = TaskState.KILLED
    return stage


def _killed_by_person() -> Stage:
    stage = _running()
    stage.world.did(c.KillJob(job_id=JOB, reason="enough"))
    stage.state = TaskState.KILLED
    return stage


def _killed_by_limit() -> Stage:
    spec = JobSpec(name="work", kind="function", target="work", job_timeout_ms=1_000)
    stage = _running(spec=spec)
    stage.world.sleep(1_000)
    stage.world.tick()
    stage.state = TaskState.KILLED
    return stage


def _unschedulable() -> Stage:
    spec = JobSpec(name="work", kind="function", target="work", schedule_timeout_ms=1_000)
    world = _submitted(spec)
    world.sleep(1_000)
    world.tick()
    return Stage(world, TaskState.UNSCHEDULABLE)


def _blocked() -> Stage:
    world = World()
    world.submit(BEFORE)
    world.submit(JOB, spec=SPEC, items=(b"item",), after=(After(BEFORE),))
    world.settle()
    return Stage(world, TaskState.WAITING)


def _blocked_and_aside() -> Stage:
    stage = _blocked()
    stage.world.did(c.RescheduleTask(job_id=JOB, index=Index(0)))
    return stage


def _killed_by_dependency() -> Stage:
    stage = _blocked()
    stage.world.did(c.KillJob(job_id=BEFORE))
    stage.world.settle()
    stage.state = TaskState.KILLED
    return stage


def _waiting_gang() -> Stage:
    world = World()
    world.submit(JOB, 2, spec=GANG)
    return Stage(world, TaskState.WAITING)


def _leased_gang() -> Stage:
    stage = _waiting_gang()
    stage.lease_id, _ = stage.world.grant_gang(JOB, "w", "other")
    stage.state = TaskState.LEASED
    return stage


def _running_gang() -> Stage:
    stage = _leased_gang()
    stage.world.start(JOB, 0, stage.lease_id)
    stage.state = TaskState.RUNNING
    return stage


def _served() -> Stage:
    world = _submitted(SERVICE, sealed=False)
    (lease_id,) = world.grant(JOB, 0)
    world.start(JOB, 0, lease_id)
    return Stage(world, TaskState.RUNNING, lease_id)


def _restarting() -> Stage:
    stage = _served()
    stage.world.fail(JOB, 0, stage.lease_id)
    stage.state = TaskState.WAITING
    return stage


STAGES: Final[dict[str, Callable[[], Stage]]] = {
    "fresh": _fresh,
    "fresh in an open job": _open,
    "fresh in a delayed job": _delayed_job,
    "fresh in a dated job": _dated_job,
    "fresh in a blocked job": _blocked,
    "fresh in a gang": _waiting_gang,
    "aside": _aside,
    "aside in a blocked job": _blocked_and_aside,
    "backing off": _backing_off,
    "delayed": _delayed,
    "dated": _dated,
    "leased": _leased,
    "leased alone": lambda: _leased(alone=True),
    "leased in a gang": _leased_gang,
    "leased by time": lambda: _leased(term_ms=TERM_MS),
    "running": _running,
    "running in a gang": _running_gang,
    "running by time": lambda: _running(term_ms=TERM_MS),
    "running past its time": _run_out,
    "committed, owing one": lambda: _committed(MAIL),
    "committed, owing two": lambda: _committed(MAIL, POST),
    "committed, its delivery failed": _failed_delivery,
    "committed, its entry parked": _parked,
    "committed, in its block": lambda: _committed(Entry(BLOCK, "", "", b"")),
    "succeeded": _succeeded,
    "succeeded in an interrupted job": _interrupted,
    "quarantined": _quarantined,
    "set aside": _set_aside,
    "given up": _given_up,
    "given up, never placed": _given_up_unplaced,
    "killed by a person": _killed_by_person,
    "killed by a limit": _killed_by_limit,
    "killed by its dependency": _killed_by_dependency,
    "unschedulable": _unschedulable,
    "running in a service": _served,
    "restarting in a service": _restarting,
}


def stage_of(name: str) -> Stage:
    """A world of its own in this situation; whatever a test does to it stays in it."""
    return STAGES[name]()
