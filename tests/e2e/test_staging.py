"""Staged files with real processes: whole, after the commit, once; what is lost leaves nothing."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.coordinator.inspect import look_into
from holdfast.core import events as e
from holdfast.errors import TaskFailed
from holdfast.testing import writing
from holdfast.testing.loopback import ServerProcess, WorkerProcess
from holdfast.testing.patience import until

EXECUTORS = ["threads", "processes"]
PATIENCE_S = 60


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_staged_file_appears_whole_and_not_before_the_commit(
    tmp_path: Path, out: Path, executor: str
) -> None:
    pipe, target = tmp_path / "pipe", out / "deep" / "report.txt"
    os.mkfifo(pipe)
    with holdfast.open(tmp_path / "state", executor=executor, workers=1) as hf:
        handle = hf.submit(writing.write_and_wait, str(target), str(pipe))
        # Opening it waits until the task has staged its file.
        with pipe.open("wb"):
            assert not target.exists()
            assert len(names(target.parent)) == 1
        handle.result(PATIENCE_S)
    assert target.read_text() == "whole"
    assert names(target.parent) == ["report.txt"]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_an_attempt_that_fails_leaves_nothing(tmp_path: Path, out: Path, executor: str) -> None:
    target, tried = out / "x", tmp_path / "tried"
    with holdfast.open(tmp_path / "state", executor=executor, workers=1) as hf:
        handle = hf.submit(writing.write_at_second_try, str(target), str(tried))
        assert handle.result(PATIENCE_S) == 2
    assert target.read_text() == "try 2"
    assert names(out) == ["x"]


def test_what_a_killed_attempt_left_is_collected_when_the_folder_is_opened_again(
    tmp_path: Path, out: Path
) -> None:
    target, tried = out / "x", tmp_path / "tried"
    with holdfast.open(tmp_path / "state", executor="processes", workers=1) as hf:
        handle = hf.submit(writing.write_and_die_once, str(target), str(tried))
        assert handle.result(PATIENCE_S) == 2
    assert target.read_text() == "try 2"
    assert len(names(out)) == 2
    with holdfast.open(tmp_path / "state", executor="processes", workers=1):
        until(lambda: names(out) == ["x"])


def test_one_path_has_what_was_committed_last(tmp_path: Path, out: Path) -> None:
    target = out / "x"
    with holdfast.open(tmp_path / "state", workers=4) as hf:
        job = hf.map(writing.write_numbered, [(n, str(target)) for n in range(60)])
        assert sorted(job.results()) == list(range(60))
    folder = look_into(tmp_path / "state")
    # Those of one record are one commit of several tasks, and go by their index.
    commits = [
        (told.position, event.commit.index)
        for told in folder.records(folder.oldest, folder.last)
        for event in told.record.events
        if isinstance(event, e.TaskCommitted)
    ]
    assert len(commits) == 60
    assert target.read_text() == str(max(commits)[1])
    assert names(out) == ["x"]


def test_behind_the_commit_nothing_is_staged(tmp_path: Path, out: Path) -> None:
    target = out / "x"
    with holdfast.open(tmp_path / "state", workers=1) as hf:
        handle = hf.submit(writing.write_after_committing, str(target))
        assert handle.result(PATIENCE_S) == "committed"
    assert names(out) == ["x.refused"]
    assert "committed" in (out / "x.refused").read_text()


# Workers of a server.


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "served") as started:
        yield started


@pytest.fixture
def hf(server: ServerProcess) -> Iterator[holdfast.Holdfast]:
    with holdfast.connect(server.url, token_file=server.token_file) as connected:
        yield connected


def test_a_worker_stages_where_it_may_and_nowhere_else(
    server: ServerProcess, hf: holdfast.Holdfast, tmp_path: Path, out: Path
) -> None:
    options = ("--slots", "1", "--output", str(out))
    with WorkerProcess(server, tmp_path / "worker", *options):
        assert hf.submit(writing.write, str(out / "x"), "well").result(PATIENCE_S) == "well"
        elsewhere = tmp_path / "elsewhere"
        with pytest.raises(TaskFailed, match=f"outside the folders .*: {out}"):
            hf.submit(writing.write, str(elsewhere), "no").result(PATIENCE_S)
        until(lambda: names(out) == ["x"])
        assert not elsewhere.exists()


def test_what_a_killed_worker_left_is_collected_by_the_next(
    server: ServerProcess, hf: holdfast.Holdfast, tmp_path: Path, out: Path
) -> None:
    pipe, target = tmp_path / "pipe", out / "x"
    os.mkfifo(pipe)
    job = hf.submit(writing.write_and_wait, str(target), str(pipe))
    with WorkerProcess(server, tmp_path / "worker", "--slots", "1", "--name", "first") as worker:
        with pipe.open("wb"):
            assert len(names(out)) == 1
            worker.kill()
        job.cancel("it is not wanted any more")
        with WorkerProcess(server, tmp_path / "worker", "--slots", "1", "--name", "second"):
            until(lambda: names(out) == [])
