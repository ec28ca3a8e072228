"""Rulings on the lease authority of document 003, one test each, named by its number."""

import pytest

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decide import decide
from holdfast.core.decision import Accepted, Decision, Reason, Refused
from holdfast.core.errors import BrokenInvariant
from holdfast.core.freeze import fingerprint
from holdfast.core.ids import Index, Instant, WorkerId
from holdfast.core.job import state_of
from holdfast.core.spec import JobSpec, RetryPolicy
from holdfast.core.task import TaskState
from holdfast.testing.stages import JOB, TERM_MS, stage_of
from holdfast.testing.world import World

W = WorkerId("w")


def events(decision: Decision) -> tuple[e.AnyEvent, ...]:
    assert isinstance(decision, Accepted)
    return decision.events


def state(world: World) -> TaskState:
    return state_of(world.state.jobs[JOB], Index(0))


def test_resolution_003_01_replay_never_expires_a_lease_by_itself() -> None:
    stage = stage_of("running by time")
    stage.world.sleep(100 * TERM_MS)
    assert fingerprint(stage.world.replayed()) == stage.world.fingerprint()
    assert state(stage.world) is TaskState.RUNNING
    stage.world.tick()
    assert state(stage.world) is TaskState.WAITING


def test_resolution_003_01_recovery_rearms_remote_leases_by_one_record() -> None:
    stage = stage_of("running past its time")
    stage.world.crash()
    opened = stage.world.open(term_ms=TERM_MS)
    assert [type(event) for event in opened] == [e.LogOpened, e.LeasesRearmed]
    assert stage.world.task(JOB).expires_at == stage.world.now + TERM_MS
    assert stage.world.tick() == ()


@pytest.mark.parametrize(
    ("name", "reason"), [("running", "worker_lost"), ("leased", "undelivered")]
)
def test_resolution_003_01_in_process_attempts_end_with_the_program(name: str, reason: str) -> None:
    stage = stage_of(name)
    stage.world.crash()
    returned = stage.world.open()[1]
    assert isinstance(returned, e.AttemptsReturned)
    assert returned.ends[0].reason == reason


def test_resolution_003_02_the_policy_is_in_the_log_and_the_outcome_in_the_event() -> None:
    world = stage_of("backing off").world
    submitted = world.records()[1][1].events[0]
    assert isinstance(submitted, e.JobSubmitted)
    assert submitted.spec.retries == 1
    (returned,) = world.records()[-1][1].events
    assert isinstance(returned, e.AttemptsReturned)
    end = returned.ends[0]
    assert (end.charged, end.failures, end.not_before) == ("failures", 1, world.now + 1_000)


@pytest.mark.parametrize("name", ["aside", "running past its time", "succeeded", "quarantined"])
def test_resolution_003_03_a_failure_needs_what_a_completion_needs(name: str) -> None:
    stage = stage_of(name)
    assert events(stage.world.fail(JOB, 0, stage.lease_id)) == ()
    assert events(stage.world.commit(JOB, 0, stage.lease_id)) == ()


def test_resolution_003_04_a_spent_budget_has_an_event_and_an_end() -> None:
    world = stage_of("quarantined").world
    assert isinstance(world.records()[-1][1].events[-1], e.TasksQuarantined)
    assert world.state.jobs[JOB].quarantined == 1
    assert world.state.jobs[JOB].unfinished == 0


def test_resolution_003_05_a_bad_worker_cannot_make_the_log_grow() -> None:
    stage = stage_of("succeeded")
    before = len(stage.world.log)
    for lease_id in range(50):
        for report in (stage.world.commit, stage.world.fail, stage.world.release):
            decision = report(JOB, 0, lease_id, worker="mallory")
            assert events(decision) == ()
            assert decision.answer  # type: ignore[union-attr]
    assert len(stage.world.log) == before


def test_resolution_003_06_one_record_renews_all_that_a_worker_holds() -> None:
    world = World()
    world.submit("j", 100)
    world.grant("j", *range(100), term_ms=100)
    world.sleep(50)
    (event,) = world.did(c.ExtendLeases(worker=W, incarnation=1, term_ms=100))
    assert isinstance(event, e.LeasesExtended)
    tasks = (world.state.jobs[JOB].tasks or {}).values()
    assert {task.expires_at for task in tasks} == {world.now + 100}


def test_resolution_003_06_a_renewal_names_its_exceptions() -> None:
    world = World()
    world.submit("j", 2)
    one, _two = world.grant("j", 0, 1, term_ms=100)
    world.sleep(50)
    world.did(c.ExtendLeases(worker=W, incarnation=1, term_ms=100, exceptions=(one,)))
    assert world.task("j", 0).expires_at == world.now + 50
    assert world.task("j", 1).expires_at == world.now + 100


def test_resolution_003_07_a_task_that_kills_its_workers_does_not_loop_for_ever() -> None:
    world = World()
    world.submit("j", spec=JobSpec(name="n", kind="k", target="t", max_losses=3))
    attempts = 0
    while state(world) is not TaskState.QUARANTINED:
        attempts += 1
        (lease_id,) = world.grant("j", term_ms=100)
        world.start("j", 0, lease_id)
        world.sleep(100)
        world.tick()
        world.sleep(60_000)
    assert attempts == 4


@pytest.mark.parametrize("name", ["succeeded", "committed, owing one"])
def test_resolution_003_09_a_completion_repeated_under_its_lease_finds_its_commit(
    name: str,
) -> None:
    stage = stage_of(name)
    decision = stage.world.commit(JOB, 0, stage.lease_id)
    assert isinstance(decision, Accepted)
    (lost,) = decision.answer  # type: ignore[misc]
    record = stage.world.records()[lost.settled - 1][1]
    (event,) = record.events
    (commit,) = [event.commit] if isinstance(event, e.TaskCommitted) else event.commits
    assert commit.lease_id == stage.lease_id


def test_resolution_003_09_a_late_report_is_told_where_the_last_attempt_ended() -> None:
    stage = stage_of("backing off")
    ended = len(stage.world.log)
    decision = stage.world.commit(JOB, 0, stage.lease_id)
    assert isinstance(decision, Accepted)
    assert [lost.settled for lost in decision.answer] == [ended]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("early", "heard"), [(1, True), (0, False), (-1, False)])
def test_resolution_003_11_a_lease_has_ended_at_its_very_instant(early: int, heard: bool) -> None:
    stage = stage_of("running by time")
    stage.world.sleep(TERM_MS - early)
    assert bool(events(stage.world.commit(JOB, 0, stage.lease_id))) is heard


def test_resolution_003_11_time_in_the_log_never_goes_back() -> None:
    world = World()
    world.now = Instant(world.now - 1)
    with pytest.raises(BrokenInvariant):
        world.submit("j")


def test_resolution_003_12_a_lease_past_its_time_gives_no_rights_before_the_tick() -> None:
    stage = stage_of("running past its time")
    assert state(stage.world) is TaskState.RUNNING
    for report in (stage.world.commit, stage.world.fail, stage.world.release):
        assert events(report(JOB, 0, stage.lease_id)) == ()
    assert stage.world.did(c.ExtendLeases(worker=W, incarnation=1, term_ms=TERM_MS)) == ()
    assert stage.world.did(c.ExpireLeases(worker=W, incarnation=1))


def test_resolution_003_13_a_submit_repeated_by_its_key_is_one_job() -> None:
    world = World()
    first = world.submit("a", key="k", digest=b"body")
    again = world.submit("b", key="k", digest=b"body")
    other = world.submit("c", key="k", digest=b"else")
    assert isinstance(first, Accepted)
    assert isinstance(again, Accepted)
    assert (first.answer, again.answer, again.events) == ("a", "a", ())
    assert isinstance(other, Refused)
    assert other.code is Reason.KEY_REUSED
    assert list(world.state.jobs) == ["a"]


def test_resolution_003_14_the_tick_proposes_and_moves_nothing() -> None:
    stage = stage_of("running past its time")
    before = stage.world.fingerprint()
    decision = decide(stage.world.state, c.Tick(wall=stage.world.wall), stage.world.now)
    assert events(decision)
    assert stage.world.fingerprint() == before


def test_resolution_003_15_a_renewal_only_ever_moves_an_expiry_later() -> None:
    stage = stage_of("running by time")
    until = stage.world.task(JOB).expires_at
    for term_ms in (0, 1, TERM_MS - 1, TERM_MS):
        assert stage.world.did(c.ExtendLeases(worker=W, incarnation=1, term_ms=term_ms)) == ()
    assert stage.world.task(JOB).expires_at == until
    assert stage.world.did(c.ExtendLeases(worker=W, incarnation=1, term_ms=TERM_MS + 1))


def test_resolution_003_02_replay_under_another_policy_of_chance_is_the_same() -> None:
    world = World()
    policy = RetryPolicy(kind="exponential", delay_ms=1_000, jitter=1.0)
    world.submit("j", spec=JobSpec(name="n", kind="k", target="t", retries=9, retry=policy))
    for roll in (0.1, 0.9, 0.5):
        (lease_id,) = world.grant("j")
        world.fail("j", 0, lease_id, roll=roll)
        world.sleep(10**6)
    assert fingerprint(world.replayed()) == world.fingerprint()
