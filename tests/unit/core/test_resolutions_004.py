"""Rulings on the commit boundary of document 004, and on where the documents disagree."""

import pytest

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.attempt import TRANSITIONS, AttemptStatus, EndReason
from holdfast.core.decision import Accepted, Decision, Reason, Refused
from holdfast.core.freeze import fingerprint
from holdfast.core.ids import Index, WorkerId
from holdfast.core.invariants import check
from holdfast.core.job import job_reason, job_state, state_of
from holdfast.core.task import FINISHED, TaskState
from holdfast.testing.stages import FIRST_ENTRY, JOB, STAGES, TERM_MS, stage_of
from holdfast.testing.world import MAIL, POST, World

W = WorkerId("w")


def events(decision: Decision) -> tuple[e.AnyEvent, ...]:
    assert isinstance(decision, Accepted)
    return decision.events


def state(world: World) -> TaskState:
    return state_of(world.state.jobs[JOB], Index(0))


def test_resolution_004_01_a_job_can_fail_and_says_why() -> None:
    job = stage_of("quarantined").world.state.jobs[JOB]
    assert (job_state(job), job_reason(job)) == ("FAILED", "quarantined")


def test_resolution_004_01_every_aborted_attempt_has_one_reason() -> None:
    for name in STAGES:
        for _, record in stage_of(name).world.records():
            for event in record.events:
                for end in getattr(event, "ends", ()):
                    assert EndReason(end.reason)


def test_resolution_004_02_a_duplicate_execution_never_counts_as_success() -> None:
    stage = stage_of("running past its time")
    stage.world.tick()
    (second,) = stage.world.grant(JOB, 0, worker="b")
    stage.world.fail(JOB, 0, second, worker="b")
    assert events(stage.world.commit(JOB, 0, stage.lease_id)) == ()
    assert state(stage.world) is not TaskState.SUCCEEDED


def test_resolution_004_03_what_a_commit_owes_is_in_its_record_and_done_comes_after() -> None:
    stage = stage_of("running")
    (event,) = events(stage.world.commit(JOB, 0, stage.lease_id, owed=(MAIL, POST)))
    assert isinstance(event, e.TaskCommitted)
    assert event.owed == (MAIL, POST)
    stage.world.crash()
    stage.world.open()
    assert state(stage.world) is TaskState.COMMITTED
    assert [debt.number for debt in stage.world.task(JOB).owed] == [0, 1]
    for entry in (0, 1):
        assert job_state(stage.world.state.jobs[JOB]) == "RUNNING"
        stage.world.confirm(JOB, 0, entry)
    assert job_state(stage.world.state.jobs[JOB]) == "SUCCEEDED"


@pytest.mark.parametrize(
    "name", ["aside", "running past its time", "committed, owing one", "succeeded", "quarantined"]
)
def test_resolution_004_04_a_commit_needs_the_current_unexpired_lease_of_its_owner(
    name: str,
) -> None:
    stage = stage_of(name)
    assert events(stage.world.commit(JOB, 0, stage.lease_id)) == ()


def test_resolution_004_05_a_task_that_is_done_cannot_commit_again() -> None:
    stage = stage_of("committed, owing one")
    stage.world.confirm(JOB, 0, 0)
    assert state(stage.world) is TaskState.SUCCEEDED
    assert events(stage.world.commit(JOB, 0, stage.lease_id)) == ()
    assert stage.world.grant(JOB) == ()


def test_resolution_004_06_a_committed_task_is_never_leased_again() -> None:
    stage = stage_of("committed, owing one")
    stage.world.sleep(100 * TERM_MS)
    stage.world.tick()
    stage.world.crash()
    stage.world.open()
    assert stage.world.leasable() == {}
    assert stage.world.grant(JOB) == ()


def test_resolution_004_07_going_back_to_waiting_is_forward_in_attempts() -> None:
    world = World()
    world.submit("j")
    for attempt in range(1, 6):
        (lease_id,) = world.grant("j")
        assert world.task("j").attempt == attempt
        world.release("j", 0, lease_id)


def test_resolution_004_08_the_state_of_a_job_is_computed_each_time() -> None:
    world = stage_of("running").world
    assert not hasattr(world.state.jobs[JOB], "state")
    assert check(world.state) == ()


def test_resolution_004_09_an_aborted_attempt_sends_its_task_back_to_waiting() -> None:
    stage = stage_of("leased")
    stage.world.release(JOB, 0, stage.lease_id)
    assert state(stage.world) is TaskState.WAITING
    assert job_state(stage.world.state.jobs[JOB]) == "PENDING"


def test_resolution_004_10_no_delivery_is_confirmed_before_the_commit() -> None:
    for name in ("fresh", "leased", "running", "aside", "quarantined"):
        decision = stage_of(name).world.do(c.ConfirmDeliveries(names=(FIRST_ENTRY,)))
        assert isinstance(decision, Refused)
        assert decision.code is Reason.INVALID_TRANSITION


def test_resolution_004_11_a_long_attempt_keeps_its_lease_by_renewal() -> None:
    stage = stage_of("running by time")
    for _ in range(20):
        stage.world.sleep(TERM_MS - 1)
        stage.world.did(c.ExtendLeases(worker=W, incarnation=1, term_ms=TERM_MS))
    assert events(stage.world.commit(JOB, 0, stage.lease_id))


@pytest.mark.parametrize("reason", ["failed", "timed_out", "worker_lost"])
def test_resolution_004_12_a_worker_can_say_that_its_attempt_failed(reason: str) -> None:
    stage = stage_of("running")
    (event,) = events(stage.world.fail(JOB, 0, stage.lease_id, reason=reason))
    assert isinstance(event, e.AttemptsReturned)
    assert event.ends[0].reason == reason


def test_004_28_committed_is_the_line_no_attempt_crosses_back() -> None:
    reachable = set(TRANSITIONS[AttemptStatus.COMMITTED].values())
    assert AttemptStatus.ABORTED not in reachable
    assert TRANSITIONS[AttemptStatus.DONE] == {}


# --- between the documents: what one product must choose -----------------------------------------


def test_resolution_between_retry_the_attempt_keeps_its_fate_and_the_task_waits() -> None:
    world = stage_of("backing off").world
    assert world.task(JOB).state is TaskState.WAITING
    (returned,) = world.records()[-1][1].events
    assert isinstance(returned, e.AttemptsReturned)
    assert returned.ends[0].reason == "failed"


def test_resolution_between_attempts_count_at_the_grant_and_budgets_count_outcomes() -> None:
    world = World()
    world.submit("j")
    (lease_id,) = world.grant("j")
    assert world.task("j").attempt == 1
    world.release("j", 0, lease_id)
    assert (world.task("j").attempt, world.task("j").failures) == (1, 0)


def test_resolution_between_liveness_the_lease_is_authority_and_a_dead_worker_ends_it_early() -> (
    None
):
    stage = stage_of("running by time")
    stage.world.did(c.LoseWorker(worker=W, incarnation=1, error="exited"))
    assert state(stage.world) is TaskState.WAITING
    assert stage.world.task(JOB).losses == 1


def test_resolution_between_truth_is_the_log_and_all_else_is_rebuilt() -> None:
    for name in STAGES:
        world = stage_of(name).world
        assert fingerprint(world.replayed()) == world.fingerprint()


def test_resolution_between_late_results_are_answered_and_not_written() -> None:
    stage = stage_of("aside")
    before = len(stage.world.log)
    decision = stage.world.commit(JOB, 0, stage.lease_id)
    assert isinstance(decision, Accepted)
    assert decision.answer
    assert len(stage.world.log) == before


def test_resolution_between_cancel_works_in_every_unfinished_state() -> None:
    for name in STAGES:
        stage = stage_of(name)
        if stage.state in FINISHED or stage.state is TaskState.COMMITTED:
            continue
        stage.world.did(c.KillJob(job_id=JOB, reason="enough"))
        assert state(stage.world) is TaskState.KILLED


def test_resolution_between_a_repeat_is_known_by_its_lease_not_by_the_state() -> None:
    stage = stage_of("running")
    assert events(stage.world.start(JOB, 0, stage.lease_id)) == ()
    other = stage.world.start(JOB, 0, stage.lease_id + 1)
    assert isinstance(other, Accepted)
    assert other.answer
    assert stage.world.grant(JOB) == ()


def test_resolution_between_quarantine_can_be_sent_back_and_a_persons_kill_cannot() -> None:
    assert events(stage_of("quarantined").world.do(c.RetryTasks(job_id=JOB)))
    assert events(stage_of("killed by a person").world.do(c.RetryTasks(job_id=JOB))) == ()
