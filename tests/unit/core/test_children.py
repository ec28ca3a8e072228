"""A child ends with its parent, however that ends, unless it was detached."""

import pytest

from holdfast.core import commands as c
from holdfast.core.decision import Accepted, Decision, Reason, Refused
from holdfast.core.ids import JobId
from holdfast.core.job import job_reason, job_state
from holdfast.core.placing import After
from holdfast.core.spec import JobSpec
from holdfast.testing.world import World

P, J = JobId("p"), JobId("j")
BRIEF = JobSpec(name="n", kind="k", target="t", job_timeout_ms=1_000)


def succeed(world: World, job_id: str = P) -> None:
    (lease,) = world.grant(job_id, 0)
    world.commit(job_id, 0, lease)


def fail(world: World) -> None:
    (lease,) = world.grant(P, 0)
    world.fail(P, 0, lease)


def time_out(world: World) -> None:
    world.sleep(1_000)
    world.tick()


def cancel(world: World) -> None:
    world.did(c.KillJob(job_id=P, reason="enough"))


ENDS = {"succeed": succeed, "fail": fail, "time out": time_out, "cancel": cancel}


def code(decision: Decision) -> Reason | None:
    return decision.code if isinstance(decision, Refused) else None


def outcome(world: World, job_id: JobId = J) -> tuple[str, str]:
    job = world.state.jobs[job_id]
    return job_state(job), job_reason(job)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("running", [False, True])
def test_a_child_ends_with_its_parent(end: str, running: bool) -> None:
    world = World()
    world.submit(P, spec=BRIEF)
    world.submit(J, 3, parent=P)
    world.submit("free", 1, parent=P, detached=True)
    if running:
        world.grant(J, 1)
    world.settle()
    ENDS[end](world)
    world.settle()
    by_person = end == "cancel"
    ended = ("KILLED", "cancelled") if by_person else ("FAILED", "parent_ended")
    assert outcome(world) == ended
    assert world.state.holders == {}
    assert outcome(world, JobId("free")) == ("PENDING", "")
    assert world.leasable() == {JobId("free"): [0]}
    assert world.troubles() == ()


def test_grandchildren_end_too_and_a_finished_child_stays_as_it_ended() -> None:
    world = World()
    world.submit(P)
    world.submit(J, parent=P)
    world.submit("g", parent=J)
    world.submit("done", parent=P)
    succeed(world, "done")
    cancel(world)
    world.settle()
    assert outcome(world) == outcome(world, JobId("g")) == ("KILLED", "cancelled")
    assert outcome(world, JobId("done")) == ("SUCCEEDED", "")
    assert world.state.children == {}


def test_an_open_child_is_sealed_and_takes_no_more() -> None:
    world = World()
    world.submit(P)
    world.submit(J, items=(b"a",), sealed=False, parent=P)
    succeed(world)
    world.settle()
    assert outcome(world) == ("FAILED", "parent_ended")
    assert code(world.do(c.AddTasks(job_id=J, first=1, items=(b"b",)))) is Reason.JOB_SEALED


def test_a_parent_that_has_ended_takes_no_more_children() -> None:
    world = World()
    world.submit(P)
    succeed(world)
    assert code(world.submit(J, parent=P)) is Reason.CONFLICT
    assert code(world.submit(J, parent=JobId("nobody"))) is Reason.NOT_FOUND
    assert code(world.submit(J, parent=J)) is Reason.INVALID
    assert code(world.submit(J, detached=True)) is Reason.INVALID


def test_a_child_cannot_come_after_the_parent_it_ends_with() -> None:
    world = World()
    world.submit(P)
    assert code(world.submit(J, parent=P, after=(After(P),))) is Reason.INVALID
    assert isinstance(world.submit(J, parent=P, detached=True, after=(After(P),)), Accepted)
    succeed(world)
    world.settle()
    assert world.leasable() == {J: [0]}


def test_a_child_comes_back_only_when_its_parent_does() -> None:
    world = World()
    world.submit(P)
    world.submit(J, parent=P)
    fail(world)
    world.settle()
    assert code(world.do(c.RetryTasks(job_id=J))) is Reason.CONFLICT
    world.did(c.RetryTasks(job_id=P))
    world.did(c.RetryTasks(job_id=J))
    assert outcome(world)[0] == "PENDING"
    succeed(world)
    world.settle()
    assert outcome(world) == ("FAILED", "parent_ended")
    assert world.troubles() == ()


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_child_that_outlived_its_parent_by_a_crash_ends_after_it(snapshot: bool) -> None:
    world = World()
    world.submit(P)
    world.submit(J, parent=P)
    world.grant(J, 0, term_ms=15_000)
    succeed(world)
    world.sleep(10**6)
    world.tick(keep_finished=0, keep_finished_ms=0)
    assert P in world.state.jobs, "its children are still judged by it"
    world.crash(snapshot=snapshot)
    assert list(world.state.unsettled) == [J]
    world.settle()
    assert outcome(world) == ("FAILED", "parent_ended")
