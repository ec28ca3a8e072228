"""Corners where the core once went wrong, or could: one test each."""

import msgspec
import pytest

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.apply import FOLDS, apply
from holdfast.core.decide import decide, jobs
from holdfast.core.decision import Accepted, Reason, Refused
from holdfast.core.errors import BrokenInvariant, ImpossibleEvent
from holdfast.core.freeze import FREEZE_VERSION, fingerprint, freeze, thaw
from holdfast.core.ids import Index, Instant, JobId, LeaseId, Position, WorkerId
from holdfast.core.invariants import check
from holdfast.core.job import job_state
from holdfast.core.reports import Done, Started
from holdfast.core.spec import JobSpec
from holdfast.core.task import TaskState
from holdfast.testing.stages import JOB, Stage, stage_of
from holdfast.testing.world import MAIL, World, in_line

FRAGILE = JobSpec(name="n", kind="k", target="t", max_losses=0, max_failed_tasks=0)


def names(events: tuple[e.AnyEvent, ...]) -> list[str]:
    return [type(event).__name__ for event in events]


def test_leases_of_one_job_that_expire_at_two_workers_settle_the_job_once() -> None:
    world = World()
    world.submit("j", 4, spec=FRAGILE)
    for place, worker in enumerate(("a", "b")):
        (lease_id,) = world.grant("j", place, worker=worker, term_ms=100)
        world.start("j", place, lease_id, worker=worker)
    world.sleep(100)
    events = world.tick()
    assert names(events) == ["TasksQuarantined", "JobCancelled", "TasksKilled"]
    assert world.troubles() == ()


def test_workers_of_one_job_that_died_with_the_program_settle_the_job_once() -> None:
    world = World()
    world.submit("j", 4, spec=FRAGILE)
    for place, worker in enumerate(("a", "b")):
        (lease_id,) = world.grant("j", place, worker=worker)
        world.start("j", place, lease_id, worker=worker)
    world.crash()
    assert names(world.open()).count("JobCancelled") == 1
    assert world.troubles() == ()


def test_an_open_job_that_its_losses_stop_is_not_sealed_a_second_time() -> None:
    world = World()
    world.submit("j", items=(b"a", b"b"), spec=FRAGILE, sealed=False)
    (lease_id,) = world.grant("j")
    world.start("j", 0, lease_id)
    world.crash()
    assert "JobSealed" not in names(world.open())
    assert job_state(world.state.jobs[JOB]) == "FAILED"
    assert world.troubles() == ()


def test_nobody_commits_a_task_that_nobody_holds() -> None:
    for name in ("aside", "committed, owing one"):
        stage = stage_of(name)
        done = (Done(JOB, Index(0), LeaseId(0), 0, b""),)
        command = c.CommitTasks(worker=WorkerId(""), incarnation=0, done=done)
        decision = decide(stage.world.state, command, stage.world.now)
        assert isinstance(decision, Accepted)
        assert decision.events == ()


def test_a_release_for_a_reason_nobody_knows_is_refused() -> None:
    stage = stage_of("leased")
    decision = stage.world.release(JOB, 0, stage.lease_id, reason="boredom")
    assert isinstance(decision, Refused)
    assert decision.code is Reason.INVALID


def test_a_dated_job_whose_tasks_were_all_moved_comes_due() -> None:
    stage = stage_of("fresh in a dated job")
    stage.world.did(c.RescheduleTask(job_id=JOB, index=Index(0)))
    stage.world.sleep(60_000)
    assert names(stage.world.tick()) == ["JobDue"]
    assert stage.world.leasable() == {JOB: [0]}


def test_a_moved_task_goes_by_its_own_time_and_not_by_its_jobs() -> None:
    stage = stage_of("fresh in a delayed job")
    assert stage.world.leasable() == {}
    stage.world.did(c.RescheduleTask(job_id=JOB, index=Index(0)))
    assert stage.world.leasable() == {JOB: [0]}
    stage.world.crash(snapshot=True)
    assert stage.world.leasable() == {JOB: [0]}
    assert isinstance(stage.world.do(c.RescheduleTask(job_id=JOB, index=Index(0))), Accepted)
    stage.world.grant(JOB)


def test_a_retried_job_is_no_longer_among_the_finished() -> None:
    stage = stage_of("quarantined")
    stage.world.did(c.RetryTasks(job_id=JOB))
    assert list(stage.world.state.finished) == []
    (lease_id,) = stage.world.grant(JOB)
    stage.world.commit(JOB, 0, lease_id)
    assert list(stage.world.state.finished) == [JOB]


def test_a_stopped_job_that_only_owes_deliveries_is_not_stopped_again_by_every_tick() -> None:
    world = World()
    world.submit("j", 2, spec=JobSpec(name="n", kind="k", target="t", job_timeout_ms=100))
    (lease_id,) = world.grant("j")
    world.commit("j", 0, lease_id, owed=(MAIL,))
    world.sleep(100)
    assert names(world.tick()) == ["JobCancelled", "TasksKilled"]
    assert world.tick() == ()
    again = c.KillJob(job_id=JOB, cause="job_timed_out")
    assert world.did(again) == ()
    assert world.did(c.KillJob(job_id=JOB)) == ()


@pytest.mark.parametrize(
    "submit",
    [
        c.SubmitJob(spec=FRAGILE, count=10**18),
        c.SubmitJob(spec=FRAGILE, count=100_000_001),
    ],
)
def test_a_job_too_large_for_memory_is_refused_before_it_is_written(submit: c.SubmitJob) -> None:
    decision = World().do(submit)
    assert isinstance(decision, Refused)
    assert decision.code is Reason.TOO_LARGE


@pytest.mark.parametrize("field", ["job_timeout_ms", "schedule_timeout_ms", "memory_bytes"])
@pytest.mark.parametrize("amount", [-1, 2**64, 10**400], ids=["negative", "wide", "endless"])
def test_an_amount_that_cannot_be_written_is_refused(field: str, amount: int) -> None:
    spec = msgspec.structs.replace(FRAGILE, **{field: amount})
    decision = World().submit("j", spec=spec)
    assert isinstance(decision, Refused)
    assert decision.code is Reason.INVALID


@pytest.mark.parametrize("job_id", ["9" * 16, "9" * 5_000, "1" * 20], ids=["16", "5000", "20"])
def test_a_name_that_is_an_endless_number_is_refused_and_never_read_as_one(job_id: str) -> None:
    world = World()
    assert isinstance(world.submit(job_id), Refused)
    assert world.do(c.KillJob(job_id=JobId(job_id))) == Refused(
        Reason.NOT_FOUND, f"there is no job {job_id}"
    )


@pytest.mark.parametrize("job_id", ["²", "٣", "1\n", " 1", "+1", "1_0", "0", "00"])
def test_a_name_that_only_looks_like_a_number_is_a_name(job_id: str) -> None:
    world = World()
    world.do(c.SubmitJob(spec=FRAGILE, count=1))
    assert world.do(c.KillJob(job_id=JobId(job_id))) == Refused(
        Reason.NOT_FOUND, f"there is no job {job_id}"
    )


def test_a_number_that_was_given_is_never_given_again() -> None:
    world = World()
    decision = world.do(c.SubmitJob(spec=FRAGILE, count=1))
    assert isinstance(decision, Accepted)
    job_id = decision.answer
    assert isinstance(job_id, str)
    (lease_id,) = world.grant(job_id)
    world.commit(job_id, 0, lease_id)
    world.sleep(1)
    world.tick(keep_finished=0, keep_finished_ms=0)
    assert world.state.jobs == {}
    again = world.submit(job_id)
    assert isinstance(again, Refused)
    assert again.code is Reason.CONFLICT


def test_a_lease_cannot_end_before_it_begins() -> None:
    stage = stage_of("fresh")
    assert stage.world.grant(JOB, term_ms=-1) == ()


def fold(stage: Stage, event: e.Event) -> None:
    FOLDS[type(event)](stage.world.state, event, Position(99), stage.world.now)


def two_leased() -> Stage:
    stage = stage_of("fresh")
    world = World()
    world.submit(JOB, 2)
    world.grant(JOB, 0, 1, term_ms=100)
    stage.world = world
    return stage


START = e.Start(Index(0), LeaseId(1), Instant(5))
BACKWARDS, BEYOND = e.Span(Index(99), Index(0)), e.Span(Index(0), Index(1 << 60))
COMMIT = e.Commit(Index(0), LeaseId(1), 1, Position(3), Instant(5), Position(0), 0, 0, b"")


@pytest.mark.parametrize(
    "event",
    [
        e.AttemptsStarted(job_id=JOB, starts=(START, START)),
        e.AttemptsStarted(
            job_id=JOB, starts=(START, msgspec.structs.replace(START, lease_id=LeaseId(9)))),
        e.LeasesGranted(
            job_id=JOB, worker=WorkerId("w"), incarnation=1, slot=0, first_lease=LeaseId(9),
            indices=(Index(0),), attempts=(1, 2), expires_at=Instant(0), alone=False),
        e.TasksCompleted(job_id=JOB, worker=WorkerId("v"), incarnation=1, commits=(COMMIT,)),
        e.TasksCompleted(
            job_id=JOB, worker=WorkerId("w"), incarnation=1, commits=(COMMIT, COMMIT)),
        e.TasksRetried(job_id=JOB, generation=2, spans=(e.Span(Index(0), Index(99)),)),
        e.TasksRetried(
            job_id=JOB, generation=2, spans=(BACKWARDS,), former=(TaskState.QUARANTINED,)),
        e.TasksRestored(job_id=JOB, generation=2, spans=(BEYOND,), items=(), shared=b""),
        e.TaskDue(job_id=JOB, index=Index(0)),
        e.TaskDue(job_id=JOB, index=Index(-1)),
        e.TasksKilled(
            job_id=JOB, cause="x", ends=(), stopped=(),
            spans=(e.Span(Index(0), Index(0)), e.Span(Index(0), Index(0))),
        ),
        e.LeasesExtended(worker=WorkerId("w"), incarnation=1, until=Instant(1), exceptions=()),
        e.JobsForgotten(job_ids=(JOB, JOB)),
        e.KeysForgotten(keys=("a", "b")),
    ],
    ids=lambda event: type(event).__name__,
)  # fmt: skip
def test_an_event_that_cannot_be_leaves_nothing_half_done(event: e.Event) -> None:
    stage = two_leased()
    before = fingerprint(stage.world.state)
    with pytest.raises(BrokenInvariant):
        fold(stage, event)
    assert fingerprint(stage.world.state) == before
    assert check(stage.world.state) == ()


def test_a_completion_that_names_the_running_task_twice_is_impossible() -> None:
    stage = stage_of("running")
    before = fingerprint(stage.world.state)
    event = e.TasksCompleted(
        job_id=JOB, worker=WorkerId("w"), incarnation=1, commits=(COMMIT, COMMIT)
    )
    with pytest.raises(ImpossibleEvent):
        fold(stage, event)
    assert fingerprint(stage.world.state) == before


def test_a_fresh_task_is_not_made_aside_by_an_event_that_cannot_be() -> None:
    stage = stage_of("fresh")
    before = fingerprint(stage.world.state)
    with pytest.raises(ImpossibleEvent):
        fold(stage, e.TaskDue(job_id=JOB, index=Index(0)))
    assert fingerprint(stage.world.state) == before
    assert stage.world.leasable() == {JOB: [0]}


def test_positions_and_time_have_no_gaps_and_no_way_back() -> None:
    world = World()
    place, record = world.records()[0]
    with pytest.raises(BrokenInvariant):
        world.append(msgspec.structs.replace(record, at=Instant(record.at - 1)))
    assert len(world.log) == 1
    with pytest.raises(BrokenInvariant):
        apply(world.state, record, Position(place + 2))


def test_a_snapshot_that_cannot_be_read_is_refused() -> None:
    data = freeze(stage_of("running").world.state)
    with pytest.raises(BrokenInvariant):
        thaw(data[:-1])
    of_another = [99, *msgspec.msgpack.decode(data)[1:]]
    with pytest.raises(BrokenInvariant, match="of version 99; this release reads version"):
        thaw(msgspec.msgpack.encode(of_another))
    with pytest.raises(BrokenInvariant, match="of version 99; this release reads version"):
        thaw(msgspec.msgpack.encode([99, "another shape"]))
    with pytest.raises(BrokenInvariant, match="cannot be read"):
        thaw(msgspec.msgpack.encode([FREEZE_VERSION, "another shape"]))


def test_jobs_stand_in_line_after_a_restart_as_they_came() -> None:
    world = World()
    for job_id, count in (("a", 1), ("b", 2), ("c", 1), ("d", 1)):
        world.submit(job_id, count)
    for job_id in ("b", "d"):
        (lease_id,) = world.grant(job_id)
        world.release(job_id, 0, lease_id)
    thawed = thaw(freeze(world.state))
    line = [job.job_id for job in in_line(thawed, world.now)]
    assert line == ["a", "b", "c", "d"]


def test_a_job_whose_time_has_not_come_sleeps_through_a_restart() -> None:
    world = World()
    world.submit("later", 1, delay_ms=50)
    world.crash(snapshot=True)
    assert world.leasable() == {}
    world.sleep(50)
    assert world.leasable() == {JobId("later"): [0]}


def test_a_start_report_of_a_batch_with_one_lease_twice_is_one_start() -> None:
    stage = stage_of("leased")
    started = (Started(JOB, Index(0), stage.lease_id, 0),) * 2
    command = c.StartAttempts(worker=WorkerId("w"), incarnation=1, started=started)
    (event,) = stage.world.did(command)
    assert isinstance(event, e.AttemptsStarted)
    assert len(event.starts) == 1


def test_an_open_job_cannot_be_fed_beyond_what_memory_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jobs, "MOST_TASKS", 3)
    world = World()
    world.submit("j", items=(b"a", b"b"), sealed=False)
    decision = world.do(c.AddTasks(job_id=JOB, first=2, items=(b"c", b"d")))
    assert isinstance(decision, Refused)
    assert decision.code is Reason.TOO_LARGE
    assert world.did(c.AddTasks(job_id=JOB, first=2, items=(b"c",)))


def test_a_job_with_the_largest_number_for_a_name_does_not_end_the_numbering() -> None:
    world = World()
    assert isinstance(world.submit("9" * 15), Accepted)
    answers = [world.do(c.SubmitJob(spec=FRAGILE, count=1)) for _ in range(2)]
    assert [getattr(a, "answer", a) for a in answers] == ["1" + "0" * 15, "1" + "0" * 14 + "1"]


def test_a_key_of_a_forgotten_job_of_its_own_name_is_gone_and_makes_no_second_job() -> None:
    world = World()
    world.submit("report", key="k", digest=b"1")
    (lease_id,) = world.grant("report")
    world.commit("report", 0, lease_id)
    world.tick(keep_finished=0, keep_finished_ms=0)
    assert world.state.jobs == {}
    repeat = world.submit("report", key="k", digest=b"1")
    assert isinstance(repeat, Refused)
    assert (repeat.code, "job report" in repeat.message) == (Reason.GONE, True)


def test_a_worker_of_both_kinds_of_lease_loses_only_those_that_died_with_the_program() -> None:
    world = World()
    world.submit("j", 2)
    world.grant("j", 0)
    world.grant("j", 1, term_ms=100)
    world.crash()
    opened = world.open(term_ms=1_000)
    assert names(opened) == ["LogOpened", "AttemptsReturned", "LeasesRearmed"]
    assert world.task("j", 1).expires_at == world.now + 1_000
    assert world.troubles() == ()


def test_however_many_jobs_run_out_of_time_one_tick_stops_them_all() -> None:
    world = World()
    for number in range(20):
        spec = JobSpec(name="n", kind="k", target="t", job_timeout_ms=100 + number * 7 % 20)
        world.submit(f"j{number}", spec=spec)
    late = JobSpec(name="n", kind="k", target="t", job_timeout_ms=1_000)
    world.submit("late", spec=late)
    world.sleep(120)
    stopped = [event.job_id for event in world.tick() if isinstance(event, e.JobCancelled)]
    assert sorted(stopped) == sorted(f"j{number}" for number in range(20))
    assert job_state(world.state.jobs[JobId("late")]) == "PENDING"


def test_a_deadline_that_comes_after_its_job_was_forgotten_is_nobodys() -> None:
    world = World()
    world.submit("j", deadline_wall=world.wall + 1_000)
    (lease_id,) = world.grant("j")
    world.commit("j", 0, lease_id)
    world.tick(keep_finished=0, keep_finished_ms=0)
    assert world.state.jobs == {}
    world.sleep(1_000)
    assert world.tick() == ()


def test_a_task_that_was_moved_and_never_leased_misses_its_scheduling_deadline_too() -> None:
    world = World()
    spec = JobSpec(name="n", kind="k", target="t", schedule_timeout_ms=100)
    world.submit("j", 3, spec=spec)
    (lease_id,) = world.grant("j", 0)
    world.release("j", 0, lease_id)
    world.did(c.RescheduleTask(job_id=JOB, index=Index(2), delay_ms=5_000))
    world.sleep(100)
    (event,) = world.tick()
    assert isinstance(event, e.TasksUnschedulable)
    assert event.spans == (e.Span(Index(1), Index(2)),)
    assert world.leasable() == {JOB: [0]}
    assert world.troubles() == ()


def test_a_delayed_job_has_its_whole_scheduling_time_once_it_may_begin() -> None:
    world = World()
    spec = JobSpec(name="n", kind="k", target="t", schedule_timeout_ms=100)
    world.submit("j", spec=spec, delay_ms=1_000)
    world.sleep(1_099)
    assert world.tick() == ()
    assert world.leasable() == {JOB: [0]}
    world.sleep(1)
    assert names(world.tick()) == ["TasksUnschedulable"]
