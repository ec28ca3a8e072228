"""A job that comes after others is given out when all of that came true, and not before."""

from itertools import product

import pytest

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decision import Accepted, Decision, Reason, Refused
from holdfast.core.freeze import fingerprint, freeze, thaw
from holdfast.core.ids import Index, JobId
from holdfast.core.invariants import check
from holdfast.core.job import job_reason, job_state, state_of
from holdfast.core.placing import CONDITIONS, FATES, After
from holdfast.core.spec import JobSpec
from holdfast.core.task import TaskState
from holdfast.core.transactions import transaction_of
from holdfast.testing.world import MAIL, World

P, Q, J = JobId("p"), JobId("q"), JobId("j")
ONCE = JobSpec(name="n", kind="k", target="t")


def succeed(world: World, job_id: str, index: int = 0) -> None:
    (lease,) = world.grant(job_id, index)
    world.commit(job_id, index, lease)


def fail(world: World, job_id: str, index: int = 0) -> None:
    (lease,) = world.grant(job_id, index)
    world.fail(job_id, index, lease)


def cancel(world: World, job_id: str, index: int = 0) -> None:
    world.did(c.KillTasks(job_id=JobId(job_id), indices=(Index(index),)))


def deliver(world: World, job_id: str, index: int = 0) -> None:
    """It has committed and is not done before its delivery is."""
    (lease,) = world.grant(job_id, index)
    world.commit(job_id, index, lease, owed=(MAIL,))
    world.settle()
    assert not is_leasable(world)
    world.confirm(job_id, index, 0)


ENDS = {"succeed": succeed, "deliver": deliver, "fail": fail, "cancel": cancel}
GOOD = ("succeed", "deliver")


def code(decision: Decision) -> Reason | None:
    return decision.code if isinstance(decision, Refused) else None


def is_leasable(world: World, job_id: JobId = J) -> bool:
    return job_id in world.leasable()


@pytest.mark.parametrize(("end", "condition", "fate", "index"),
                         list(product(ENDS, CONDITIONS, FATES, (-1, 0))))  # fmt: skip
def test_every_end_meets_every_condition_and_every_fate(
    end: str, condition: str, fate: str, index: int
) -> None:
    world = World()
    # Where a single task is waited for, its job goes on.
    world.submit(P, 1 if index < 0 else 2)
    world.submit(J, 2, after=(After(P, index, condition),), fate=fate)
    world.settle()
    assert not is_leasable(world)
    ENDS[end](world, P)
    assert not is_leasable(world)
    world.settle()
    holds = condition == "finish" or (end in GOOD) == (condition == "success")
    job = world.state.jobs[J]
    assert is_leasable(world) == holds
    assert job.blocked is not holds
    if holds or fate == "wait":
        assert (job_state(job), job_reason(job)) == ("PENDING", "")
    else:
        assert (job_state(job), job_reason(job)) == ("FAILED", "dependency_failed")
    assert world.troubles() == ()


@pytest.mark.parametrize("end", ENDS)
def test_a_parent_that_ended_before_counts_from_the_submit_on(end: str) -> None:
    for condition in CONDITIONS:
        world = World()
        world.submit(P)
        ENDS[end](world, P)
        holds = condition == "finish" or (end in GOOD) == (condition == "success")
        decision = world.submit(J, after=(After(P, condition=condition),))
        assert isinstance(decision, Accepted)
        kinds = [type(event) for event in decision.events]
        assert kinds == [e.JobSubmitted, e.JobUnblocked][: 1 + holds]
        assert is_leasable(world) == holds
        world.settle()
        assert job_state(world.state.jobs[J]) == ("PENDING" if holds else "FAILED")


def test_a_job_waits_for_all_of_many() -> None:
    world = World()
    world.submit(P, 2)
    world.submit(Q)
    world.submit(J, after=(After(P, 1), After(Q), After(P, 1)))
    assert world.state.jobs[J].after == (After(P, 1), After(Q))
    for job_id, index in ((P, 1), (Q, 0)):
        assert not is_leasable(world)
        succeed(world, job_id, index)
        world.settle()
    assert is_leasable(world)
    assert state_of(world.state.jobs[P], Index(0)) is TaskState.WAITING


def test_only_the_task_it_waits_for_has_it_judged() -> None:
    world = World()
    world.submit(P, 100)
    world.submit(J, after=(After(P, 99),))
    world.settle()
    for index in range(99):
        succeed(world, P, index)
        assert world.state.unsettled == {}
    succeed(world, P, 99)
    assert list(world.state.unsettled) == [J]


def test_a_task_that_may_still_come_can_be_waited_for_and_one_that_never_will_cannot() -> None:
    world = World()
    world.submit(P, items=(b"a",), sealed=False)
    world.submit(J, after=(After(P, 1),))
    world.submit("k", after=(After(P, 2),))
    world.settle()
    world.did(c.AddTasks(job_id=P, first=1, items=(b"b",)))
    world.did(c.SealJob(job_id=P, count=2))
    world.settle()
    assert job_reason(world.state.jobs[JobId("k")]) == "dependency_failed"
    assert code(world.submit("l", after=(After(P, 2),))) is Reason.NOT_FOUND
    succeed(world, P, 1)
    world.settle()
    assert is_leasable(world)


def test_the_end_of_one_is_handed_down_the_whole_line() -> None:
    world = World()
    world.submit("0")
    for number in range(1, 6):
        world.submit(f"j{number}", after=(After(JobId(f"j{number - 1}" if number > 1 else "0")),))
    world.did(c.KillJob(job_id=JobId("0")))
    world.settle()
    told = [job_reason(world.state.jobs[JobId(f"j{number}")]) for number in range(1, 6)]
    assert told == ["dependency_failed"] * 5
    assert world.troubles() == ()


def test_a_retry_of_the_job_has_its_dependencies_judged_anew() -> None:
    world = World()
    world.submit(P, spec=ONCE)
    world.submit(J, after=(After(P),))
    fail(world, P)
    world.settle()
    assert job_state(world.state.jobs[J]) == "FAILED"
    world.did(c.RetryTasks(job_id=J))
    assert not is_leasable(world)
    world.settle()
    assert job_reason(world.state.jobs[J]) == "dependency_failed"
    world.did(c.RetryTasks(job_id=P))
    world.did(c.RetryTasks(job_id=J))
    world.settle()
    assert job_state(world.state.jobs[J]) == "PENDING"
    succeed(world, P)
    world.settle()
    succeed(world, J)
    assert job_state(world.state.jobs[J]) == "SUCCEEDED"
    assert world.troubles() == ()


def test_whoever_waits_though_it_failed_is_unblocked_by_a_retry_of_its_parent() -> None:
    world = World()
    world.submit(P, spec=ONCE)
    world.submit(J, after=(After(P),), fate="wait")
    fail(world, P)
    world.settle()
    assert job_state(world.state.jobs[J]) == "PENDING"
    world.did(c.RetryTasks(job_id=P))
    succeed(world, P)
    world.settle()
    assert is_leasable(world)


def test_a_retry_of_the_parent_takes_back_no_unblocking() -> None:
    world = World()
    world.submit(P, spec=ONCE)
    world.submit(J, after=(After(P, condition="failure"),))
    fail(world, P)
    world.settle()
    world.did(c.RetryTasks(job_id=P))
    succeed(world, P)
    world.settle()
    assert is_leasable(world)
    assert not world.state.jobs[J].blocked


def test_a_circle_can_only_be_a_job_that_names_itself_and_that_is_refused() -> None:
    world = World()
    before = world.fingerprint()
    assert code(world.submit(J, after=(After(J),))) is Reason.INVALID
    # The number it would get is its name too.
    numbered = c.SubmitJob(spec=ONCE, count=1, after=(After(JobId("1")),))
    assert code(world.do(numbered)) is Reason.INVALID
    # Of two that would wait for each other the first names one that is not there.
    assert code(world.submit(P, after=(After(Q),))) is Reason.NOT_FOUND
    assert world.fingerprint() == before
    assert isinstance(world.submit(Q), Accepted)
    assert isinstance(world.submit(P, after=(After(Q),)), Accepted)
    assert code(world.submit(Q, after=(After(P),))) is Reason.CONFLICT


def test_a_parent_that_was_forgotten_is_gone_and_one_that_never_was_is_not_found() -> None:
    world = World()
    world.do(c.SubmitJob(spec=ONCE, count=1))
    succeed(world, "1")
    world.tick(keep_finished=0, keep_finished_ms=0)
    assert JobId("1") not in world.state.jobs
    assert code(world.submit(J, after=(After(JobId("1")),))) is Reason.GONE
    assert code(world.submit(J, after=(After(JobId("7")),))) is Reason.NOT_FOUND


def test_a_parent_is_kept_as_long_as_somebody_is_judged_by_it() -> None:
    world = World()
    world.submit(P)
    world.submit(Q)
    world.submit(J, after=(After(P), After(Q)))
    succeed(world, P)
    world.settle()
    world.sleep(10**6)
    world.tick(keep_finished=0, keep_finished_ms=0)
    assert P in world.state.jobs
    succeed(world, Q)
    world.settle()
    world.tick(keep_finished=0, keep_finished_ms=0)
    assert P not in world.state.jobs
    assert is_leasable(world)
    assert world.troubles() == ()


def test_the_scheduling_deadline_counts_from_the_unblocking() -> None:
    world = World()
    spec = JobSpec(name="n", kind="k", target="t", schedule_timeout_ms=1_000)
    world.submit(P)
    world.submit(J, spec=spec, after=(After(P),))
    world.sleep(5_000)
    assert world.tick() == ()
    succeed(world, P)
    world.settle()
    assert world.state.jobs[J].schedule_by == world.now + 1_000
    world.sleep(999)
    assert world.tick() == ()
    world.sleep(1)
    world.tick()
    assert job_state(world.state.jobs[J]) == "UNSCHEDULABLE"


def test_a_delay_and_a_dependency_both_have_to_pass() -> None:
    world = World()
    world.submit(P)
    world.submit(J, delay_ms=5_000, after=(After(P),))
    world.submit("k", delay_ms=5_000, after=(After(P),))
    succeed(world, P)
    world.settle()
    assert not is_leasable(world)
    world.sleep(5_000)
    assert is_leasable(world)
    late = World()
    late.submit(P)
    late.submit(J, delay_ms=5_000, after=(After(P),))
    late.sleep(5_000)
    assert not is_leasable(late)
    succeed(late, P)
    late.settle()
    assert is_leasable(late)


def test_a_task_moved_in_time_while_its_job_was_blocked_is_found_afterwards() -> None:
    world = World()
    world.submit(P)
    world.submit(J, 2, after=(After(P),))
    world.did(c.RescheduleTask(job_id=J, index=Index(0)))
    world.did(c.RescheduleTask(job_id=J, index=Index(1), delay_ms=1_000))
    world.sleep(1_000)
    assert not is_leasable(world)
    assert world.troubles() == ()
    succeed(world, P)
    world.settle()
    assert world.leasable() == {J: [0, 1]}


def test_what_is_not_settled_before_a_crash_is_settled_after_it() -> None:
    for snapshot in (False, True):
        world = World()
        world.submit(P)
        world.submit(J, after=(After(P),))
        world.settle()
        succeed(world, P)
        world.crash(snapshot=snapshot)
        assert J in world.state.unsettled
        world.settle()
        assert is_leasable(world)


def test_a_snapshot_keeps_the_ties() -> None:
    world = World()
    world.submit(P, 2)
    world.submit(J, after=(After(P, 1, "finish"),), fate="wait", parent=P, detached=True)
    thawed = thaw(freeze(world.state))
    assert fingerprint(thawed) == world.fingerprint()
    assert check(thawed) == ()
    assert thawed.awaited == {P: {1: {J: None}}}
    job = thawed.jobs[J]
    assert (job.after, job.fate, job.blocked) == ((After(P, 1, "finish"),), "wait", True)
    assert (job.parent, job.detached) == (P, True)


def test_the_story_says_what_it_waited_for() -> None:
    world = World()
    world.submit(P, 2)
    world.submit(J, after=(After(P, 1), After(P)))
    submitted = transaction_of(world.records()[-1][1], world.state.position).actions[-1]
    assert submitted.details == {"num_tasks": 1, "after": "p/1,p"}
    world.did(c.KillJob(job_id=P))
    world.settle()
    actions = transaction_of(world.records()[-1][1], world.state.position).actions
    (told,) = [act.details for act in actions if act.action == "job_cancelled"]
    assert told["cause"] == "dependency_failed"
    assert "p/1" in str(told["reason"])
