"""Rulings on the transitions of document 000, one test each, named by its number."""

import msgspec
import pytest

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.apply import apply
from holdfast.core.decide import decide
from holdfast.core.decision import Accepted, Decision, Reason, Refused
from holdfast.core.errors import ImpossibleEvent
from holdfast.core.ids import Index, JobId, LeaseId, Position, WorkerId
from holdfast.core.invariants import check
from holdfast.core.job import counts, job_reason, job_state, state_of
from holdfast.core.record import Record
from holdfast.core.spec import JobSpec, RetryPolicy, loss_delay_ms
from holdfast.core.task import TaskState
from holdfast.core.transactions import transaction_of
from holdfast.testing.stages import JOB, STAGES, stage_of
from holdfast.testing.world import World

W = WorkerId("w")
RETRYING = JobSpec(
    name="n", kind="k", target="t", retries=2, retry=RetryPolicy(kind="fixed", delay_ms=50)
)


def state(world: World, index: int = 0) -> TaskState:
    return state_of(world.state.jobs[JOB], Index(index))


def refusal(decision: Decision) -> Reason:
    assert isinstance(decision, Refused)
    return decision.code


def events(decision: Decision) -> tuple[e.AnyEvent, ...]:
    assert isinstance(decision, Accepted)
    return decision.events


def test_resolution_000_01_the_last_success_finishes_the_job_in_its_own_record() -> None:
    world = stage_of("succeeded").world
    assert job_state(world.state.jobs[JOB]) == "SUCCEEDED"
    assert world.state.jobs[JOB].unfinished == 0


def test_resolution_000_02_counts_are_read_off_the_tasks_from_the_start() -> None:
    world = World()
    world.submit("j", 7)
    tally = counts(world.state.jobs[JOB])
    assert tally[TaskState.WAITING] == 7
    assert sum(tally.values()) == 7
    assert min(tally.values()) == 0


def test_resolution_000_03_a_retry_puts_the_task_back_to_waiting() -> None:
    world = World()
    world.submit("j", 2, spec=RETRYING)
    one, two = world.grant("j", 0, 1)
    world.fail("j", 0, one)
    assert state(world) is TaskState.WAITING
    world.commit("j", 1, two)
    assert job_state(world.state.jobs[JOB]) == "RUNNING"
    (end,) = [end for _, record in world.records() for event in record.events
              if isinstance(event, e.AttemptsReturned) for end in event.ends]  # fmt: skip
    assert (end.reason, end.attempt) == ("failed", 1)


@pytest.mark.parametrize("name", ["backing off", "aside", "delayed", "dated", "fresh"])
def test_resolution_000_04_a_cancel_reaches_tasks_that_await_a_retry(name: str) -> None:
    world = stage_of(name).world
    world.did(c.KillJob(job_id=JOB))
    assert state(world) is TaskState.KILLED
    assert job_state(world.state.jobs[JOB]) == "KILLED"
    world.sleep(10**6)
    assert world.leasable() == {}


def test_resolution_000_05_a_task_that_was_never_assigned_can_be_killed() -> None:
    world = World()
    world.submit("j", 2)
    world.did(c.KillTasks(job_id=JOB, indices=(Index(1),)))
    assert state(world, 1) is TaskState.KILLED
    actions = transaction_of(world.records()[-1][1], Position(3)).actions
    assert "task_unassigned" not in {action.action for action in actions}


def test_resolution_000_06_a_worker_that_dies_before_the_start_gives_the_task_back_free() -> None:
    stage = stage_of("leased")
    stage.world.did(c.LoseWorker(worker=W, incarnation=1, error="gone"))
    task = stage.world.task(JOB)
    assert (task.state, task.losses, task.lease_id) == (TaskState.WAITING, 0, 0)
    assert (W, 1) not in stage.world.state.holders


def test_resolution_000_07_a_worker_that_comes_back_owns_nothing_of_its_former_self() -> None:
    stage = stage_of("running")
    late = stage.world.commit(JOB, 0, stage.lease_id, incarnation=2)
    assert events(late) == ()
    assert state(stage.world) is TaskState.RUNNING
    assert events(stage.world.commit(JOB, 0, stage.lease_id, incarnation=1))


def test_resolution_000_08_a_second_success_changes_no_count() -> None:
    stage = stage_of("succeeded")
    assert events(stage.world.commit(JOB, 0, stage.lease_id)) == ()
    assert stage.world.state.jobs[JOB].active == 0


@pytest.mark.parametrize("name", ["succeeded", "quarantined", "killed by a person", "aside"])
def test_resolution_000_08_a_late_start_revives_nothing(name: str) -> None:
    stage = stage_of(name)
    assert events(stage.world.start(JOB, 0, stage.lease_id)) == ()
    assert state(stage.world) is stage.state


def test_resolution_000_09_the_end_of_an_attempt_remembers_its_worker() -> None:
    stage = stage_of("running")
    (event,) = stage.world.did(c.LoseWorker(worker=W, incarnation=1, error="gone"))[:1]
    assert isinstance(event, e.AttemptsReturned)
    assert event.ends[0].worker == W
    assert stage.world.task(JOB).worker == ""


def test_resolution_000_10_counts_do_not_drift_over_many_assignments() -> None:
    world = World()
    world.submit("j")
    for _ in range(30):
        (lease_id,) = world.grant("j")
        world.release("j", 0, lease_id)
    assert world.state.jobs[JOB].active == 0
    assert world.state.jobs[JOB].unfinished == 1
    assert world.troubles() == ()


def test_resolution_000_11_a_leased_task_cannot_be_leased_again() -> None:
    world = World()
    world.submit("j")
    world.grant("j")
    assert world.leasable() == {}
    assert world.grant("j", worker="other") == ()


def test_resolution_000_12_a_cancel_names_the_attempts_to_stop() -> None:
    stage = stage_of("running")
    killed = stage.world.did(c.KillJob(job_id=JOB))[-1]
    assert isinstance(killed, e.TasksKilled)
    assert [(end.worker, end.lease_id) for end in killed.ends] == [(W, stage.lease_id)]


def test_resolution_000_13_a_scheduling_deadline_makes_what_waits_unschedulable() -> None:
    world = World()
    world.submit("j", 2, spec=JobSpec(name="n", kind="k", target="t", schedule_timeout_ms=10))
    (lease_id,) = world.grant("j", 0)
    world.sleep(10)
    world.tick()
    assert [state(world, i).name for i in (0, 1)] == ["LEASED", "UNSCHEDULABLE"]
    assert job_state(world.state.jobs[JOB]) == "RUNNING"
    world.commit("j", 0, lease_id)
    assert job_state(world.state.jobs[JOB]) == "UNSCHEDULABLE"


def test_resolution_000_14_one_bad_item_does_not_stop_the_rest() -> None:
    world = World()
    world.submit("j", 3)
    one, two = world.grant("j", 0, 1)
    world.fail("j", 0, one)
    assert job_state(world.state.jobs[JOB]) == "RUNNING"
    world.commit("j", 1, two)
    (three,) = world.grant("j", 2)
    world.commit("j", 2, three)
    assert job_state(world.state.jobs[JOB]) == "FAILED"
    assert job_reason(world.state.jobs[JOB]) == "quarantined"


def test_resolution_000_14_too_many_failed_kills_the_rest_in_the_same_record() -> None:
    world = World()
    world.submit("j", 3, spec=JobSpec(name="n", kind="k", target="t", max_failed_tasks=0))
    one, _ = world.grant("j", 0, 1)
    before = len(world.log)
    world.fail("j", 0, one)
    assert len(world.log) == before + 1
    job = world.state.jobs[JOB]
    assert (job_state(job), job_reason(job)) == ("FAILED", "too_many_failed")


@pytest.mark.parametrize(
    ("name", "cause"), [("killed by a person", "cancelled"), ("killed by a limit", "job_timed_out")]
)
def test_resolution_000_15_one_word_for_killed_with_its_cause(name: str, cause: str) -> None:
    job = stage_of(name).world.state.jobs[JOB]
    assert job_reason(job) == cause
    assert state_of(job, Index(0)) is TaskState.KILLED


@pytest.mark.parametrize("name", ["succeeded", "quarantined", "killed by a person"])
def test_resolution_000_16_a_finished_job_is_not_cancelled(name: str) -> None:
    stage = stage_of(name)
    before, ended = stage.world.fingerprint(), job_state(stage.world.state.jobs[JOB])
    assert stage.world.did(c.KillJob(job_id=JOB)) == ()
    assert stage.world.fingerprint() == before
    assert job_state(stage.world.state.jobs[JOB]) == ended


@pytest.mark.parametrize("name", STAGES)
def test_resolution_000_17_deciding_never_changes_anything(name: str) -> None:
    stage = stage_of(name)
    before = stage.world.fingerprint()
    for command in (c.KillJob(job_id=JOB), c.RetryTasks(job_id=JOB), c.Tick(wall=stage.world.wall)):
        decide(stage.world.state, command, stage.world.now)
    assert stage.world.fingerprint() == before


def test_resolution_000_17_a_batch_with_one_bad_report_is_judged_before_anything_moves() -> None:
    world = World()
    world.submit("j", 2)
    one, two = world.grant("j", 0, 1)
    lost = c.LoseWorker(worker=W, incarnation=1, error="gone")
    returned = events(decide(world.state, lost, world.now))[0]
    assert isinstance(returned, e.AttemptsReturned)
    assert [end.lease_id for end in returned.ends] == [one, two]
    bad = msgspec.structs.replace(returned.ends[1], lease_id=LeaseId(two + 1))
    lie = msgspec.structs.replace(returned, ends=(returned.ends[0], bad))
    before = world.fingerprint()
    with pytest.raises(ImpossibleEvent):
        apply(world.state, Record(world.now, "", "", "", "", (lie,)), Position(4))
    assert world.fingerprint() == before
    assert check(world.state) == ()


def test_resolution_000_18_an_unknown_command_or_event_is_an_error() -> None:
    class Teleport(c.Command, frozen=True, kw_only=True):
        pass

    class Teleported(e.Event, frozen=True, kw_only=True):
        pass

    world = World()
    with pytest.raises(KeyError):
        decide(world.state, Teleport(), world.now)
    with pytest.raises(KeyError):
        apply(world.state, Record(world.now, "", "", "", "", (Teleported(),)), Position(2))


def test_resolution_000_19_time_in_an_event_is_the_time_it_was_decided_with() -> None:
    stage = stage_of("backing off")
    task = (stage.world.replayed().jobs[JOB].tasks or {})[Index(0)]
    stage.world.sleep(10**6)
    again = (stage.world.replayed().jobs[JOB].tasks or {})[Index(0)]
    assert task.not_before == again.not_before == stage.world.now - 10**6 + 1_000


def test_resolution_000_20_a_heartbeat_that_extends_nothing_is_not_written() -> None:
    for name in ("leased", "fresh", "succeeded"):
        world = stage_of(name).world
        assert world.did(c.ExtendLeases(worker=W, incarnation=1, term_ms=1_000)) == ()


def test_resolution_000_22_a_success_is_told_with_exit_code_zero() -> None:
    world = stage_of("succeeded").world
    (succeeded,) = [
        action
        for place, record in world.records()
        for action in transaction_of(record, place).actions
        if action.action == "task_succeeded"
    ]
    assert succeeded.details == {"exit_code": 0}


def test_resolution_000_24_no_tasks_or_a_known_name_is_refused() -> None:
    world = World()
    assert refusal(world.submit("j", 0)) is Reason.INVALID
    assert refusal(world.submit("j", -3)) is Reason.INVALID
    world.submit("j", 1)
    before = world.fingerprint()
    assert refusal(world.submit("j", 1)) is Reason.CONFLICT
    assert world.fingerprint() == before


def test_resolution_000_25_losses_wait_longer_each_time_and_deliveries_are_free() -> None:
    assert [loss_delay_ms(losses) for losses in range(1, 6)] == [0, 100, 200, 400, 800]
    assert loss_delay_ms(99) == 30_000
    stage = stage_of("leased")
    stage.world.release(JOB, 0, stage.lease_id, reason="undelivered")
    assert (stage.world.task(JOB).losses, stage.world.task(JOB).failures) == (0, 0)


def test_resolution_000_26_a_worker_cannot_report_a_kill_as_if_a_person_had_asked() -> None:
    stage = stage_of("running")
    assert refusal(stage.world.fail(JOB, 0, stage.lease_id, reason="killed")) is Reason.INVALID
    assert refusal(stage.world.release(JOB, 0, stage.lease_id, reason="killed")) is Reason.INVALID
    assert state(stage.world) is TaskState.RUNNING


def test_resolution_000_26_only_what_a_limit_killed_may_return() -> None:
    back = c.RetryTasks(job_id=JobId(JOB), indices=(Index(0),))
    assert refusal(stage_of("killed by a person").world.do(back)) is Reason.INVALID_TRANSITION
    assert events(stage_of("killed by a limit").world.do(back))
