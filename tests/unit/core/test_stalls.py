"""How an attempt that hangs is ended: one record, its budget decides, and only the lease that was
found."""

import msgspec
import pytest

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decision import Refused
from holdfast.core.ids import Index, LeaseId
from holdfast.core.spec import STOP
from holdfast.core.task import TaskState
from holdfast.testing.stages import JOB, SPEC, Stage, stage_of
from holdfast.testing.world import World

DELAY_MS = 60_000


def recovery(lease_id: int, delay_ms: int = DELAY_MS) -> c.RecoverStalled:
    return c.RecoverStalled(
        job_id=JOB, index=Index(0), lease_id=LeaseId(lease_id), error="it hung", delay_ms=delay_ms
    )


def running(**words: object) -> Stage:
    world = World()
    world.submit(JOB, spec=msgspec.structs.replace(SPEC, **words), items=(b"item",))
    (lease_id,) = world.grant(JOB)
    world.start(JOB, 0, lease_id)
    return Stage(world, TaskState.RUNNING, lease_id)


def test_001_57_recovery_ends_the_attempt_timed_out_and_the_task_waits_a_minute() -> None:
    stage = running()
    (event,) = stage.world.did(recovery(stage.lease_id))
    assert isinstance(event, e.AttemptsReturned)
    (end,) = event.ends
    assert (end.reason, end.charged, end.failures, end.error) == (
        "timed_out", "failures", 1, "it hung",
    )  # fmt: skip
    assert end.not_before == stage.world.now + DELAY_MS
    assert not stage.world.leasable()
    stage.world.sleep(DELAY_MS)
    assert stage.world.leasable() == {JOB: [0]}


def test_resolution_001_08_a_stall_is_recovered_in_one_record_and_quarantined_when_spent() -> None:
    stage = running(retries=0)
    before = len(stage.world.log)
    (event,) = stage.world.did(recovery(stage.lease_id))
    assert isinstance(event, e.TasksQuarantined)
    assert len(stage.world.log) == before + 1
    assert stage.world.state.jobs[JOB].states[0] == TaskState.QUARANTINED


def test_resolution_001_07_whoever_hung_cannot_commit_after_the_recovery() -> None:
    stage = running()
    stage.world.did(recovery(stage.lease_id))
    late = stage.world.commit(JOB, 0, stage.lease_id)
    assert not isinstance(late, Refused)
    assert late.events == ()
    stage.world.sleep(DELAY_MS)
    (fresh,) = stage.world.grant(JOB, 0, worker="other")
    stage.world.start(JOB, 0, fresh, worker="other")
    again = stage.world.do(recovery(stage.lease_id))
    assert (again.events, again.answer) == ((), False), "the other attempt is none of its business"


@pytest.mark.parametrize(
    "stage",
    ["succeeded", "committed, owing one", "killed by a person", "quarantined", "backing off"],
)
def test_a_task_that_moved_on_is_left_alone(stage: str) -> None:
    here = stage_of(stage)
    before = here.world.fingerprint()
    decision = here.world.do(recovery(here.lease_id))
    assert (decision.events, decision.answer) == ((), False)
    assert here.world.fingerprint() == before


def test_an_attempt_that_never_began_is_undelivered_and_not_charged() -> None:
    stage = stage_of("leased")
    (event,) = stage.world.did(recovery(stage.lease_id))
    assert isinstance(event, e.AttemptsReturned)
    assert (event.ends[0].reason, event.ends[0].charged) == ("undelivered", "")


def test_the_longer_of_both_waits_counts() -> None:
    stage = running()
    (event,) = stage.world.did(recovery(stage.lease_id, delay_ms=1))
    assert isinstance(event, e.AttemptsReturned)
    assert event.ends[0].not_before == stage.world.now + SPEC.retry.delay_ms


def test_what_must_not_outlive_its_lease_waits_until_whoever_hangs_has_lost_it() -> None:
    world = World()
    world.submit(JOB, spec=msgspec.structs.replace(SPEC, on_disconnect=STOP), items=(b"item",))
    (lease_id,) = world.grant(JOB, term_ms=90_000)
    world.start(JOB, 0, lease_id)
    until = world.task(JOB).expires_at
    (event,) = world.did(recovery(lease_id))
    assert isinstance(event, e.AttemptsReturned)
    assert world.now + DELAY_MS < until == event.ends[0].not_before


@pytest.mark.parametrize("delay_ms", [-1, 1 << 62])
def test_a_wait_that_is_none_is_refused(delay_ms: int) -> None:
    stage = running()
    decision = stage.world.do(recovery(stage.lease_id, delay_ms))
    assert isinstance(decision, Refused)
    assert decision.code == "invalid"
