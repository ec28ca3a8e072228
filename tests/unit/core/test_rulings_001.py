"""Rulings on the state machine of document 001 that concern how things are checked."""

from pathlib import Path
from random import Random

import pytest

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decision import Accepted
from holdfast.core.ids import Index, JobId, Position
from holdfast.core.invariants import check
from holdfast.core.job import state_of
from holdfast.core.moves import moves_of
from holdfast.core.pairs import PAIRS, Verdict, View
from holdfast.core.record import Record
from holdfast.core.spec import JobSpec, RetryPolicy
from holdfast.core.task import TaskState
from holdfast.testing.histories import a_history
from holdfast.testing.stages import JOB, stage_of
from holdfast.testing.world import World
from holdfast.wal import FileLog, LogInUse

NO_WAIT = RetryPolicy(kind="none")


def test_resolution_001_01_the_table_wins_where_the_drawing_says_otherwise() -> None:
    moves = {(p.source, p.target) for p in PAIRS if p.verdict is Verdict.MOVES}
    assert {(View.FAILED, View.PENDING), (View.QUARANTINED, View.PENDING)} <= moves
    stage = stage_of("quarantined")
    stage.world.did(c.RetryTasks(job_id=JOB, indices=(Index(0),)))
    assert state_of(stage.world.state.jobs[JOB], Index(0)) is TaskState.WAITING


def test_resolution_001_03_a_lost_race_is_noticed_however_many_were_written_before() -> None:
    world = World()
    world.submit("j", 30, spec=JobSpec(name="n", kind="k", target="t", retry=NO_WAIT))
    for index in range(30):
        (lease_id,) = world.grant("j", index)
        world.commit("j", index, lease_id)
        before = world.fingerprint()
        again = world.commit("j", index, lease_id + 1)
        assert isinstance(again, Accepted)
        assert [lost.lease_id for lost in again.answer] == [lease_id + 1]
        assert world.fingerprint() == before
        failed = world.fail("j", index, lease_id)
        assert isinstance(failed, Accepted)
        assert failed.events == ()


def test_resolution_001_12_no_invariant_is_checked_by_doing_nothing() -> None:
    """That what succeeded stays so, and that attempts only grow, is judged from the history."""
    stage = stage_of("succeeded")
    commit = next(
        event for _, record in stage.world.records() for event in record.events
        if isinstance(event, e.TasksCompleted)
    )  # fmt: skip
    last = stage.world.records()[-1][1]
    record = Record(last.at, "CommitTasks", "test", "", "", (commit,))
    told = stage.world.watch.feed(Position(len(stage.world.log) + 1), record)
    assert {violation.name for violation in told} & {"C1", "J3"}
    waiting = stage_of("running")
    job = waiting.world.state.jobs[JOB]
    (task,) = (job.tasks or {}).values()
    task.attempt = -1
    assert list(check(waiting.world.state)) != []


def test_resolution_001_13_the_last_transition_that_was_told_is_the_state() -> None:
    world = a_history(200, Random(13))
    told: dict[tuple[str, int], str] = {}
    for _, record in world.records():
        for move in moves_of(record):
            for index in range(move.first, move.last + 1):
                told[move.job_id, index] = move.target
    compared = 0
    for job in world.state.jobs.values():
        for index in range(job.count):
            assert told[job.job_id, index] == state_of(job, Index(index)).name
            compared += 1
    assert compared > 5


def test_resolution_001_18_the_lock_holds_between_openings_of_one_folder(tmp_path: Path) -> None:
    with_lock = FileLog.open(tmp_path)
    with pytest.raises(LogInUse):
        FileLog.open(tmp_path)
    with_lock.close()
    FileLog.open(tmp_path).close()


def test_resolution_001_19_the_property_of_determinism_can_fail() -> None:
    """The same dice give the same log; other dice, and one record left out, give another."""
    first, second = a_history(60, Random(1)), a_history(60, Random(1))
    assert first.log == second.log
    assert first.fingerprint() == second.fingerprint()
    assert a_history(60, Random(2)).fingerprint() != first.fingerprint()
    grown = World()
    for job_id in ("a", "b"):
        grown.submit(job_id)
    assert grown.replayed(len(grown.log) - 1).jobs.keys() != grown.state.jobs.keys()
    assert JobId("b") in grown.state.jobs
