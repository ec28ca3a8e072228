"""A folder that goes on from another one: whole under its name, or not there at all."""

import os
from pathlib import Path
from random import Random

import pytest

from holdfast.coordinator import forking
from holdfast.coordinator.embedding import open_embedded
from holdfast.coordinator.forking import Taken, fork_folder
from holdfast.coordinator.inspect import Moment, open_folder
from holdfast.coordinator.settings import Settings
from holdfast.coordinator.verify import verify_folder
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.freeze import fingerprint
from holdfast.core.ids import Instant
from holdfast.core.owed import Entry
from holdfast.core.task import TaskState
from holdfast.testing.folders import write_folder
from holdfast.testing.histories import a_history
from holdfast.testing.world import World
from holdfast.wal import chain_from

MAIL = Entry("effect", "mail", "ann", b"dear")


def fork(source: Path, target: Path, position: int | None = None) -> forking.Forked:
    moment = Moment(position=position)
    return fork_folder(source, target, moment, wall=Instant(1), actor="test", reason="to look")


def test_a_fork_has_the_state_of_its_moment_and_says_where_it_comes_from(tmp_path: Path) -> None:
    world = a_history(60, Random(3))
    write_folder(tmp_path / "old", world.log, dice=Random(1))
    forked = fork(tmp_path / "old", tmp_path / "new", 40)
    reading = open_folder(tmp_path / "new")
    assert reading.state.lineage[-1].until == 40
    assert (reading.state.log_id, reading.state.suspended) == (forked.log_id, "fork")
    assert fingerprint(open_folder(tmp_path / "new", Moment(position=40)).state) == fingerprint(
        world.replayed(40)
    )
    told = reading.told(41)
    assert (told.record.command, told.record.actor, told.record.reason) == (
        "ForkLog", "test", "to look",
    )  # fmt: skip
    (forked_event, *_) = told.record.events
    assert isinstance(forked_event, e.LogForked)
    assert forked_event.head_position <= 40
    chain = chain_from(bytes.fromhex(forked.log_id), forked_event.head)
    assert reading.folder.reader.chain_after(40) == chain
    assert verify_folder(tmp_path / "new").is_good


def test_the_folder_that_is_forked_is_not_changed(tmp_path: Path) -> None:
    write_folder(tmp_path / "old", a_history(30, Random(4)).log)
    before = {path: path.read_bytes() for path in (tmp_path / "old").rglob("*") if path.is_file()}
    fork(tmp_path / "old", tmp_path / "new", 20)
    after = {path: path.read_bytes() for path in (tmp_path / "old").rglob("*") if path.is_file()}
    assert after == before


def test_leases_and_jobs_of_what_came_after_are_not_given_again(tmp_path: Path) -> None:
    world = World()
    world.submit("1", items=(b"a", b"b"))
    at = world.state.position
    (lease, _) = world.grant("1", 0, 1)
    world.submit("9", items=(b"a",))
    write_folder(tmp_path / "old", world.log)
    fork(tmp_path / "old", tmp_path / "new", at)
    state = open_folder(tmp_path / "new").state
    assert state.next_lease > lease + 1
    assert state.next_job > 9


def test_results_and_debts_of_kept_jobs_come_along(tmp_path: Path) -> None:
    world = World()
    world.submit("j", items=(b"a", b"b"))
    first, second = world.grant("j", 0, 1)
    world.commit("j", 0, first, result=b"forty-two")
    world.commit("j", 1, second, owed=(MAIL,))
    write_folder(tmp_path / "old", world.log)
    fork(tmp_path / "old", tmp_path / "new")
    reading = open_folder(tmp_path / "new")
    job = reading.state.jobs["j"]  # type: ignore[index]
    assert job.ends is not None
    events = reading.told(job.ends[0]).record.events
    (completed,) = [event for event in events if isinstance(event, e.TasksCompleted)]
    assert completed.commits[0].result == b"forty-two"
    (owing,) = reading.state.debts
    assert reading.state.log_at(owing.position) == "log"


def test_a_fork_can_be_opened_resumed_and_forked_again(tmp_path: Path) -> None:
    world = World()
    world.submit("j", items=(b"a",))
    world.grant("j", 0)
    write_folder(tmp_path / "0", world.log)
    for number in (1, 2):
        fork(tmp_path / str(number - 1), tmp_path / str(number))
        embedded = open_embedded(tmp_path / str(number), Settings(history_bytes=None))
        embedded.coordinator.execute(c.ResumeLog(), actor="test")
        embedded.engine.start()
        embedded.close(lambda: True)
        assert verify_folder(tmp_path / str(number)).is_good
    state = open_folder(tmp_path / "2").state
    assert [len(a.log_id) for a in state.lineage] == [3, 32]
    assert state.suspended == ""
    task = (state.jobs["j"].tasks or {})[0]  # type: ignore[index]
    assert task.state is TaskState.WAITING


def test_a_name_that_is_taken_is_refused_and_an_empty_folder_is_none(tmp_path: Path) -> None:
    write_folder(tmp_path / "old", a_history(10, Random(4)).log)
    (tmp_path / "new").mkdir()
    fork(tmp_path / "old", tmp_path / "new")
    with pytest.raises(Taken, match="exists already"):
        fork(tmp_path / "old", tmp_path / "new")


def test_a_fork_that_dies_half_way_leaves_nothing_that_can_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log comes last, and the name after it: whatever is left before is no log."""
    write_folder(tmp_path / "old", a_history(30, Random(4)).log)
    monkeypatch.setattr(forking, "begin_log", _die)
    monkeypatch.setattr(forking.shutil, "rmtree", lambda *_, **__: None)
    with pytest.raises(SystemExit):
        fork(tmp_path / "old", tmp_path / "new")
    (half,) = tmp_path.glob("new.half-*")
    assert not (tmp_path / "new").exists()
    with pytest.raises(forking.OperatingError, match=r"files are gone|no log"):
        open_embedded(half, Settings())
    monkeypatch.undo()
    os.rename(half, tmp_path / "new.half-999999999")
    fork(tmp_path / "old", tmp_path / "new")
    assert list(tmp_path.glob("new.half-*")) == []


def _die(*_: object, **__: object) -> None:
    raise SystemExit("killed")


def test_a_moment_before_the_first_record_is_refused(tmp_path: Path) -> None:
    write_folder(tmp_path / "old", a_history(10, Random(4)).log)
    with pytest.raises(forking.OperatingError):
        fork(tmp_path / "old", tmp_path / "new", 0)
    assert not (tmp_path / "new").exists()
