"""Rulings on the state machine of document 001, and the tests it asks for."""

from itertools import permutations
from random import Random

import msgspec
import pytest

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decision import Accepted, Decision, Reason, Refused
from holdfast.core.errors import BrokenInvariant
from holdfast.core.freeze import FrozenState, fingerprint, freeze, thaw
from holdfast.core.ids import Index, WorkerId
from holdfast.core.invariants import check
from holdfast.core.job import counts, job_state, state_of
from holdfast.core.spec import JobSpec
from holdfast.core.task import Task, TaskState
from holdfast.testing.stages import JOB, STAGES, TERM_MS, stage_of
from holdfast.testing.strategies import any_command, pass_time
from holdfast.testing.world import World

W = WorkerId("w")
BRITTLE = JobSpec(name="n", kind="k", target="t", max_losses=0)


def events(decision: Decision) -> tuple[e.AnyEvent, ...]:
    assert isinstance(decision, Accepted)
    return decision.events


def state(world: World) -> TaskState:
    return state_of(world.state.jobs[JOB], Index(0))


def test_resolution_001_02_only_a_repeat_is_silent_and_a_bad_move_is_refused() -> None:
    stage = stage_of("running")
    assert events(stage.world.start(JOB, 0, stage.lease_id)) == ()
    again = c.GrantLeases(
        job_id=JOB, worker=W, incarnation=1, slot=0, indices=(Index(0),), term_ms=0
    )
    decision = stage.world.do(again)
    assert isinstance(decision, Refused)
    assert decision.code is Reason.INVALID_TRANSITION


def test_resolution_001_02_a_completion_of_a_waiting_task_does_not_vanish() -> None:
    stage = stage_of("aside")
    decision = stage.world.commit(JOB, 0, stage.lease_id)
    assert isinstance(decision, Accepted)
    assert [lost.lease_id for lost in decision.answer] == [stage.lease_id]


@pytest.mark.parametrize("report", ["commit", "fail", "release", "start"])
def test_resolution_001_04_every_report_is_fenced_alike(report: str) -> None:
    stage = stage_of("running")
    stage.world.did(c.LoseWorker(worker=W, incarnation=1, error=""))
    stage.world.grant(JOB, 0, worker="other")
    before = stage.world.fingerprint()
    decision = getattr(stage.world, report)(JOB, 0, stage.lease_id)
    assert events(decision) == ()
    assert decision.answer[0].lease_id == stage.lease_id
    assert stage.world.fingerprint() == before


def test_resolution_001_05_a_repeat_never_counts_an_attempt() -> None:
    stage = stage_of("running")
    for _ in range(3):
        stage.world.start(JOB, 0, stage.lease_id)
    assert stage.world.task(JOB).attempt == 1


def test_resolution_001_06_a_long_task_that_renews_is_not_stalled() -> None:
    stage = stage_of("running by time")
    for _ in range(100):
        stage.world.sleep(TERM_MS // 2)
        stage.world.did(c.ExtendLeases(worker=W, incarnation=1, term_ms=TERM_MS))
        assert stage.world.tick() == ()
    assert state(stage.world) is TaskState.RUNNING


def test_resolution_001_07_recovery_fences_the_old_worker() -> None:
    stage = stage_of("running past its time")
    stage.world.tick()
    assert events(stage.world.commit(JOB, 0, stage.lease_id)) == ()
    (fresh,) = stage.world.grant(JOB, 0, worker="other")
    assert events(stage.world.commit(JOB, 0, fresh, worker="other"))


def test_resolution_001_08_recovery_is_one_record_and_the_budget_decides() -> None:
    for spec, landed in ((BRITTLE, "QUARANTINED"), (None, "WAITING")):
        world = World()
        if spec is None:
            world.submit("j")
        else:
            world.submit("j", spec=spec)
        (lease_id,) = world.grant("j", term_ms=100)
        world.start("j", 0, lease_id)
        world.sleep(100)
        before = len(world.log)
        world.tick()
        assert len(world.log) == before + 1
        assert state(world).name == landed


def test_resolution_001_09_no_record_ends_with_a_failure_undecided(dice: Random) -> None:
    world = World()
    for _ in range(150):
        pass_time(world, dice)
        world.do(any_command(world, dice))
    for place in range(1, len(world.log) + 1):
        assert check(world.replayed(place)) == ()


def test_resolution_001_10_a_repeat_leaves_no_line_in_the_history() -> None:
    stage = stage_of("succeeded")
    before = len(stage.world.log)
    stage.world.commit(JOB, 0, stage.lease_id)
    stage.world.did(c.KillJob(job_id=JOB))
    stage.world.did(c.SealJob(job_id=JOB, count=1))
    assert len(stage.world.log) == before


def test_resolution_001_11_every_way_out_has_a_command() -> None:
    assert state(stage_of("quarantined").world) is TaskState.QUARANTINED
    assert events(stage_of("fresh").world.do(c.RescheduleTask(job_id=JOB, index=Index(0))))
    stage = stage_of("running")
    assert events(stage.world.release(JOB, 0, stage.lease_id))
    assert events(stage_of("running").world.do(c.KillTasks(job_id=JOB, indices=(Index(0),))))
    assert events(stage_of("quarantined").world.do(c.RetryTasks(job_id=JOB)))


def test_resolution_001_16_a_state_that_does_not_exist_is_corruption_not_work() -> None:
    stage = stage_of("fresh")
    stage.world.state.jobs[JOB].states[0] = 77
    assert "J1" in {violation.name for violation in check(stage.world.state)}
    data = freeze(stage_of("running").world.state)
    raw = msgspec.msgpack.decode(data)
    (row,) = raw[FrozenState.__struct_fields__.index("tasks")]
    row[Task.__struct_fields__.index("state")] = 42
    with pytest.raises(BrokenInvariant):
        thaw(msgspec.msgpack.encode(raw))


def test_resolution_001_17_nothing_in_the_core_asks_a_clock() -> None:
    one, two = stage_of("backing off"), stage_of("backing off")
    assert one.world.log == two.world.log


def test_resolution_001_20_a_second_submit_does_not_replace_the_first() -> None:
    stage = stage_of("running")
    before = stage.world.fingerprint()
    assert isinstance(stage.world.submit(JOB, 5), Refused)
    assert stage.world.fingerprint() == before


# --- the tests that document 001 asks for, 74 to 92 ----------------------------------------------


def test_001_77_atomic_a_command_is_written_whole_or_not_at_all() -> None:
    stage = stage_of("running")
    before, records = stage.world.fingerprint(), len(stage.world.log)
    stage.world.did(c.KillJob(job_id=JOB))
    assert len(stage.world.log) == records + 1
    assert fingerprint(stage.world.replayed(records)) == before


RACERS = ("commit", "fail", "release", "expire", "kill", "lose")


@pytest.mark.parametrize("order", list(permutations(RACERS, 3)), ids=" then ".join)
def test_001_78_optimistic_locking_of_all_that_race_one_wins(order: tuple[str, ...]) -> None:
    stage = stage_of("running by time")
    world, ends = stage.world, 0
    for racer in order:
        if racer == "expire":
            world.sleep(TERM_MS)
            decision: Decision = world.do(c.ExpireLeases(worker=W, incarnation=1))
        elif racer == "kill":
            decision = world.do(c.KillTasks(job_id=JOB, indices=(Index(0),)))
        elif racer == "lose":
            decision = world.do(c.LoseWorker(worker=W, incarnation=1, error=""))
        else:
            decision = getattr(world, racer)(JOB, 0, stage.lease_id)
        ended = (e.TasksCompleted, e.AttemptsReturned, e.TasksQuarantined, e.TasksKilled)
        for event in events(decision):
            # A waiting task that is killed had its attempt ended before.
            ends += isinstance(event, ended) and not getattr(event, "spans", ())
    assert ends == 1
    assert world.troubles() == ()


@pytest.mark.parametrize("name", STAGES)
def test_001_76_idempotent_asking_twice_is_asking_once(name: str) -> None:
    for make in (
        lambda: c.KillJob(job_id=JOB),
        lambda: c.SealJob(job_id=JOB, count=1),
        lambda: c.LoseWorker(worker=W, incarnation=1, error=""),
        lambda: c.ExpireLeases(worker=W, incarnation=1),
        lambda: c.RetryTasks(job_id=JOB),
        lambda: c.KillTasks(job_id=JOB, indices=(Index(0),)),
    ):
        stage = stage_of(name)
        stage.world.do(make())
        before = stage.world.fingerprint()
        decision = stage.world.do(make())
        assert isinstance(decision, Refused) or not decision.events
        assert stage.world.fingerprint() == before


def test_001_81_audit_every_change_has_a_record_with_who_asked() -> None:
    world = World(actor="alice")
    world.submit("j")
    (lease_id,) = world.grant("j")
    world.commit("j", 0, lease_id)
    assert {record.actor for _, record in world.records()} == {"alice"}
    commands = [record.command for _, record in world.records()]
    assert commands == ["OpenLog", "SubmitJob", "GrantLeases", "CommitTasks"]


def test_001_82_invariant_a_task_is_in_exactly_one_state() -> None:
    for name in STAGES:
        job = stage_of(name).world.state.jobs[JOB]
        assert sum(counts(job).values()) == job.count
        assert check(stage_of(name).world.state) == ()


def test_001_83_invariant_whatever_runs_has_a_worker() -> None:
    stage = stage_of("running")
    assert stage.world.task(JOB).worker == W
    assert stage.world.state.holders[(W, 1)].leases[stage.lease_id] is stage.world.task(JOB)


@pytest.mark.parametrize("shard", range(5))
def test_001_84_invariant_succeeded_never_changes_in_any_history(shard: int, dice: Random) -> None:
    world, succeeded = World(), set()
    for _ in range(250):
        pass_time(world, dice)
        world.do(any_command(world, dice))
        jobs = world.state.jobs
        for job_id, index in succeeded:
            assert job_id not in jobs or jobs[job_id].states[index] == TaskState.SUCCEEDED
        succeeded |= {
            (job.job_id, index)
            for job in jobs.values()
            for index, cell in enumerate(job.states)
            if cell == TaskState.SUCCEEDED
        }


@pytest.mark.parametrize("shard", range(5))
def test_001_85_invariant_attempts_only_increase_in_any_history(shard: int, dice: Random) -> None:
    world, last = World(), {}
    for _ in range(250):
        pass_time(world, dice)
        world.do(any_command(world, dice))
        for job in world.state.jobs.values():
            for task in (job.tasks or {}).values():
                name = (job.job_id, task.index)
                assert task.attempt >= last.get(name, 0)
                last[name] = task.attempt


def test_001_86_stall_detection_finds_it_at_its_time_and_not_before() -> None:
    stage = stage_of("running by time")
    stage.world.sleep(TERM_MS - 1)
    assert stage.world.tick() == ()
    stage.world.sleep(1)
    (event,) = stage.world.tick()
    assert isinstance(event, e.AttemptsReturned)
    assert event.ends[0].reason == "lease_expired"


@pytest.mark.parametrize("term_ms", [1, 100, 60_000, 86_400_000])
def test_001_88_stall_tuning_is_the_callers_choice(term_ms: int) -> None:
    world = World()
    world.submit("j")
    world.grant("j", term_ms=term_ms)
    world.sleep(term_ms - 1)
    assert world.tick() == ()
    world.sleep(1)
    assert world.tick()


def test_001_89_property_the_same_commands_give_the_same_log(dice: Random) -> None:
    seed = dice.random()
    logs = []
    for _ in range(2):
        world, again = World(), Random(seed)
        for _ in range(100):
            pass_time(world, again)
            world.do(any_command(world, again))
        logs.append(world.log)
    assert logs[0] == logs[1]


def test_001_90_lifecycle_end_to_end_through_failure_and_quarantine() -> None:
    world = stage_of("quarantined").world
    world.did(c.RetryTasks(job_id=JOB))
    (lease_id,) = world.grant(JOB)
    world.start(JOB, 0, lease_id)
    world.commit(JOB, 0, lease_id)
    assert job_state(world.state.jobs[JOB]) == "SUCCEEDED"
    assert world.state.jobs[JOB].attempts[0] == 3  # type: ignore[index]
    assert world.troubles() == ()
