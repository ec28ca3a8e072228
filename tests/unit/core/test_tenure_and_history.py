"""Renewals that meet leases of different ends, feeders that come back, and the chain of records
that is the history of a task."""

import pytest

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.apply import FOLDS
from holdfast.core.decision import Accepted, Reason, Refused
from holdfast.core.ids import Index, Instant, JobId, Position, WorkerId
from holdfast.core.job import job_reason, job_state
from holdfast.core.reports import Done, Failed, Started
from holdfast.core.spec import JobSpec, RetryPolicy
from holdfast.testing.stages import JOB, TERM_MS, stage_of
from holdfast.testing.world import START, World

W = WorkerId("w")


def renewed(world: World, term_ms: int) -> tuple[e.AnyEvent, ...]:
    return world.did(c.ExtendLeases(worker=W, incarnation=1, term_ms=term_ms))


def test_a_renewal_leaves_alone_what_already_lasts_longer() -> None:
    world = World()
    world.submit("j", 2)
    world.grant("j", 0, term_ms=10_000)
    world.grant("j", 1, term_ms=100)
    start = world.now
    world.sleep(50)
    assert renewed(world, 1_000)
    assert world.task("j", 0).expires_at == start + 10_000
    assert world.task("j", 1).expires_at == world.now + 1_000
    assert world.troubles() == ()


def test_a_renewal_does_not_bring_back_a_lease_that_ran_out_beside_one_that_lives() -> None:
    world = World()
    world.submit("j", 2)
    dead, _ = *world.grant("j", 0, term_ms=100), *world.grant("j", 1, term_ms=1_000)
    world.sleep(100)
    assert renewed(world, 5_000)
    ended = world.tick()
    assert [end.lease_id for event in ended for end in getattr(event, "ends", ())] == [dead]
    assert world.task("j", 1).expires_at == world.now + 5_000
    assert world.troubles() == ()


def test_after_a_renewal_the_holder_knows_when_its_next_lease_ends() -> None:
    stage = stage_of("running by time")
    renewed(stage.world, 10**6)
    assert stage.world.state.holders[(W, 1)].soonest == stage.world.now + 10**6


def test_a_job_with_a_key_stays_open_for_the_feeder_that_comes_back() -> None:
    world = World()
    world.submit("j", items=(b"a",), key="k", digest=b"1", sealed=False)
    world.submit("i", items=(b"a",), sealed=False)
    world.crash()
    sealed = [event for event in world.open() if isinstance(event, e.JobSealed)]
    assert [(event.job_id, event.interrupted) for event in sealed] == [("i", True)]
    more = c.AddTasks(job_id=JOB, first=1, items=(b"b",), digest=b"2")
    assert world.did(more)
    assert world.state.jobs[JOB].count == 2


def test_a_feeder_that_comes_back_with_other_items_is_refused() -> None:
    world = World()
    world.submit("j", items=(b"a", b"b"), key="k", digest=b"12", sealed=False)
    before = world.fingerprint()
    decision = world.do(c.AddTasks(job_id=JOB, first=0, items=(b"x",), digest=b"other"))
    assert isinstance(decision, Refused)
    assert decision.code is Reason.CONFLICT
    repeat = world.do(c.AddTasks(job_id=JOB, first=0, items=(b"a", b"b"), digest=b"12"))
    assert isinstance(repeat, Accepted)
    assert (repeat.events, repeat.answer) == ((), 2)
    assert world.fingerprint() == before


def test_an_array_takes_no_items() -> None:
    world = World()
    world.submit("j", 3, sealed=False)
    decision = world.do(c.AddTasks(job_id=JOB, first=3, items=(b"x",)))
    assert isinstance(decision, Refused)
    assert decision.code is Reason.CONFLICT


def test_the_history_of_a_task_is_a_chain_through_the_log() -> None:
    world = World()
    policy = RetryPolicy(kind="none")
    world.submit("j", spec=JobSpec(name="n", kind="k", target="t", retries=3, retry=policy))
    places: list[tuple[int, int]] = []
    for attempt in range(3):
        (lease_id,) = world.grant("j")
        granted = len(world.log)
        if attempt < 2:
            world.fail("j", 0, lease_id)
        else:
            world.commit("j", 0, lease_id)
        places.append((granted, len(world.log)))
    last = world.records()[-1][1].events[-1]
    assert isinstance(last, e.TasksCompleted)
    (commit,) = last.commits
    assert (commit.granted, commit.previous) == (places[2][0], places[1][1])
    before = world.records()[commit.previous - 1][1].events[-1]
    assert isinstance(before, e.AttemptsReturned)
    assert (before.ends[0].granted, before.ends[0].previous) == (places[1][0], places[0][1])
    assert world.state.jobs[JOB].ends[0] == places[2][1]  # type: ignore[index]


def test_a_retry_by_hand_keeps_the_chain() -> None:
    stage = stage_of("quarantined")
    ended = len(stage.world.log)
    stage.world.did(c.RetryTasks(job_id=JOB))
    assert stage.world.task(JOB).previous == ended


def test_the_will_of_a_person_stands_over_a_limit() -> None:
    stage = stage_of("committed, owing one")
    stage.world.state.jobs[JOB].cause = "cancelled"
    limit = e.JobCancelled(job_id=JOB, cause="deadline", reason="")
    FOLDS[e.JobCancelled](stage.world.state, limit, Position(99), stage.world.now)
    assert job_reason(stage.world.state.jobs[JOB]) == "cancelled"


def test_a_job_is_not_stopped_without_a_cause() -> None:
    stage = stage_of("running")
    decision = stage.world.do(c.KillJob(job_id=JOB, cause=""))
    assert isinstance(decision, Refused)
    assert decision.code is Reason.INVALID


def test_a_dated_task_comes_due_though_its_scheduling_deadline_has_passed() -> None:
    world = World()
    world.submit("j", spec=JobSpec(name="n", kind="k", target="t", schedule_timeout_ms=100))
    (lease_id,) = world.grant("j")
    world.release("j", 0, lease_id)
    wall = world.wall + 1_000
    world.did(c.RescheduleTask(job_id=JOB, index=Index(0), not_before_wall=Instant(wall)))
    world.sleep(500)
    assert world.tick() == ()
    world.sleep(500)
    assert [type(event) for event in world.tick()] == [e.TaskDue]
    assert world.leasable() == {JOB: [0]}


def test_a_dated_job_that_ended_before_its_date_runs_when_it_is_retried_after_it() -> None:
    world = World()
    spec = JobSpec(name="n", kind="k", target="t", job_timeout_ms=100)
    world.submit("j", spec=spec, not_before_wall=world.wall + 1_000)
    world.sleep(100)
    world.tick()
    assert job_state(world.state.jobs[JOB]) == "FAILED"
    world.sleep(1_000)
    world.tick()
    world.did(c.RetryTasks(job_id=JobId(JOB)))
    assert [type(event) for event in world.tick()] == [e.JobDue]
    assert world.leasable() == {JOB: [0]}
    assert world.troubles() == ()


@pytest.mark.parametrize(
    ("ran_ms", "began"),
    [(0, START), (1, START - 1), (400, START - 400), (10**30, 1), (-5, START)],
)
@pytest.mark.parametrize("report", ["start", "commit", "fail"])
def test_an_attempt_began_as_long_ago_as_its_worker_says(
    report: str, ran_ms: int, began: int
) -> None:
    stage = stage_of("leased")
    at = (JOB, Index(0), stage.lease_id)
    commands: dict[str, c.Command] = {
        "start": c.StartAttempts(worker=W, incarnation=1, started=(Started(*at, ran_ms),)),
        "commit": c.CommitTasks(worker=W, incarnation=1, done=(Done(*at, ran_ms, b""),)),
        "fail": c.FailAttempt(
            worker=W, incarnation=1, roll=0.0,
            failed=Failed(*at, ran_ms, "failed", "boom", "", 1),
        ),
    }  # fmt: skip
    started, *ended = stage.world.did(commands[report])
    assert isinstance(started, e.AttemptsStarted)
    assert [start.started_at for start in started.starts] == [began]
    for event in ended:
        (told,) = getattr(event, "ends", ()) or getattr(event, "commits", ())
        assert told.started_at == began


@pytest.mark.parametrize("report", ["commit", "fail"])
def test_a_start_that_was_heard_of_is_not_moved_by_the_end(report: str) -> None:
    stage = stage_of("running")
    stage.world.sleep(500)
    (event,) = getattr(stage.world, report)(JOB, 0, stage.lease_id).events
    (told,) = getattr(event, "ends", ()) or getattr(event, "commits", ())
    assert told.started_at == START


@pytest.mark.parametrize("jump_ms", [10**9, -(10**6)])
def test_a_jump_of_the_wall_clock_neither_ends_a_lease_nor_keeps_one(jump_ms: int) -> None:
    stage = stage_of("running by time")
    stage.world.wall = Instant(stage.world.wall + jump_ms)
    assert stage.world.tick() == ()
    stage.world.sleep(TERM_MS)
    (event,) = stage.world.tick()
    assert isinstance(event, e.AttemptsReturned)
    assert event.ends[0].reason == "lease_expired"
