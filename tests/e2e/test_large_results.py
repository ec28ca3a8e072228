"""Results too large for a record: stored before the commit, the same for ever, told when lost."""

import json
import os
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.cli.main import main
from holdfast.coordinator.inspect import look_into
from holdfast.core import events as e
from holdfast.errors import ResultLost, TaskFailed
from holdfast.testing import chores
from holdfast.testing.large import STEPS
from holdfast.testing.loopback import ServerProcess, WorkerProcess, WorkerThread
from holdfast.testing.patience import until
from holdfast.wire.contents import INLINE_BYTES

pytestmark = pytest.mark.slow

EXECUTORS = ["threads", "processes"]
LARGE = 300_000
PATIENCE_S = 60
DEATHS = [
    pytest.param(step, executor, marks=() if step == "it has its name" else pytest.mark.slow)
    for step in STEPS
    for executor in EXECUTORS
]
"""The step that leaves most behind is looked at every time."""


def stored_files(data: Path) -> list[Path]:
    return sorted(path for path in (data / "results").rglob("*") if path.is_file())


def commits_in(data: Path) -> list[e.Commit]:
    folder = look_into(data)
    return [
        commit
        for told in folder.records(folder.oldest, folder.last)
        for event in told.record.events
        if isinstance(event, e.TasksCompleted)
        for commit in event.commits
    ]


# Inside a program.


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_large_result_is_the_same_after_a_restart(tmp_path: Path, executor: str) -> None:
    with holdfast.open(tmp_path, executor=executor, workers=2) as hf:
        handle = hf.submit(chores.filler, 7, LARGE)
        assert handle.result(PATIENCE_S) == chores.filler(7, LARGE)
        [file] = stored_files(tmp_path)
        assert file.stat().st_size > LARGE
    [commit] = commits_in(tmp_path)
    assert commit.result == b""
    assert commit.stored is not None
    with holdfast.open(tmp_path, executor=executor) as hf:
        assert list(hf.job(handle.id).results()) == [chores.filler(7, LARGE)]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_map_with_many_large_results_gives_them_in_order(tmp_path: Path, executor: str) -> None:
    sizes = [INLINE_BYTES - 100, INLINE_BYTES + 100, 0, 2 * INLINE_BYTES]
    with holdfast.open(tmp_path, executor=executor, workers=2) as hf:
        job = hf.map(chores.filler_of, [(n, sizes[n % 4]) for n in range(40)])
        assert list(job.results()) == [chores.filler(n, sizes[n % 4]) for n in range(40)]
        assert len(stored_files(tmp_path)) == 20
        found = sorted(job.as_completed())
        assert found == sorted(chores.filler(n, sizes[n % 4]) for n in range(40))


def test_equal_results_are_one_file(tmp_path: Path) -> None:
    with holdfast.open(tmp_path, workers=2) as hf:
        job = hf.map(chores.filler_of, [(1, LARGE)] * 10)
        assert len(list(job.results())) == 10
        assert len(stored_files(tmp_path)) == 1


def test_results_are_read_one_at_a_time(tmp_path: Path) -> None:
    """However much there is, memory holds one of them, and that is let go before the next."""
    size, count = 4_000_000, 20
    with holdfast.open(tmp_path, workers=1) as hf:
        job = hf.map(chores.filler_of, [(n, size) for n in range(count)])
        assert job.wait(PATIENCE_S)
        tracemalloc.start()
        try:
            seen = 0
            for value in job.results():
                seen += len(value)
                del value
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert seen == size * count
    assert peak < 4 * size


@pytest.mark.parametrize("harm", ["missing", "cut short", "changed"])
def test_a_result_the_disk_lost_is_told_and_its_neighbours_are_read(
    tmp_path: Path, harm: str
) -> None:
    with holdfast.open(tmp_path, workers=1) as hf:
        job = hf.map(chores.filler_of, [(n, LARGE) for n in range(3)])
        assert len(list(job.results())) == 3
        commit = next(commit for commit in commits_in(tmp_path) if commit.index == 1)
        assert commit.stored is not None
        digest = commit.stored.digest.hex()
        file = tmp_path / "results" / digest[:2] / digest[2:]
        hurt(file, harm)
        with pytest.raises(ResultLost, match=f"task {job.id}/1 is lost") as lost:
            list(job.results())
        assert str(file) in str(lost.value)
        first, second, third = job.results(return_exceptions=True)
        assert (first, third) == (chores.filler(0, LARGE), chores.filler(2, LARGE))
        assert isinstance(second, ResultLost)
        # Whoever makes the same again mends it.
        again = hf.submit(chores.filler, 1, LARGE)
        assert again.result(PATIENCE_S) == chores.filler(1, LARGE)
        assert list(job.results()) == [chores.filler(n, LARGE) for n in range(3)]


def hurt(file: Path, harm: str) -> None:
    content = file.read_bytes()
    if harm == "missing":
        file.unlink()
    else:
        file.write_bytes(content[:-1] if harm == "cut short" else content[:-1] + b"?")


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_result_over_the_bound_fails_its_task_alone(tmp_path: Path, executor: str) -> None:
    with holdfast.open(tmp_path, executor=executor, workers=1, result_size="200Ki") as hf:
        with pytest.raises(TaskFailed, match=r"over the limit of 204,800; write it to a file"):
            hf.submit(chores.filler, 1, LARGE).result(PATIENCE_S)
        assert len(hf.submit(chores.filler, 1, 100_000).result(PATIENCE_S)) == 100_000


# Killed at every step.


@pytest.mark.parametrize(("step", "executor"), DEATHS)
def test_a_death_at_any_step_leaves_only_what_is_collected(
    tmp_path: Path, step: str, executor: str
) -> None:
    state = tmp_path / "state"
    died = program(state, executor, step)
    assert died.returncode == -signal.SIGKILL, died.stderr
    left = [file for file in stored_files(state) if not file.name.startswith(".")]
    assert len(left) == (list(STEPS).index(step) >= 3)
    first = program(state, executor, "whole")
    assert first.returncode == 0, first.stderr
    assert (tmp_path / "state.trace").read_bytes() == b"xx", "it ran again, once"
    assert len(stored_files(state)) == len(left) + 1
    # Nothing refers to what the dead one left; when it is old it goes.
    [commit] = commits_in(state)
    assert commit.stored is not None
    for file in left:
        assert commit.stored.digest.hex() != file.parent.name + file.name
        os.utime(file, (1, 1))
    with holdfast.open(state, executor=executor):
        until(lambda: len(stored_files(state)) == 1)
    again = program(state, executor, "whole")
    assert again.stdout == first.stdout, "result() is the same for ever"


def program(state: Path, executor: str, step: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "holdfast.testing.large", str(state), executor, step]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


# With a server.


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "served") as started:
        yield started


@pytest.fixture
def hf(server: ServerProcess) -> Iterator[holdfast.Holdfast]:
    with holdfast.connect(server.url, token_file=server.token_file) as connected:
        yield connected


def test_a_worker_elsewhere_brings_its_results_and_keeps_nothing(
    server: ServerProcess, hf: holdfast.Holdfast, tmp_path: Path
) -> None:
    scratch = tmp_path / "worker"
    with WorkerProcess(server, scratch, "--slots", "2"):
        job = hf.map(chores.filler_of, [(n, LARGE + n) for n in range(30)])
        assert list(job.results()) == [chores.filler(n, LARGE + n) for n in range(30)]
        assert len(stored_files(server.data)) == 30
        until(lambda: not [f for f in scratch.rglob("results/*") if f.is_file()])
    server.kill()
    server.start()
    assert list(hf.job(job.id).results()) == [chores.filler(n, LARGE + n) for n in range(30)]


@pytest.mark.slow
def test_one_larger_than_any_exchange_or_record_travels_too(
    server: ServerProcess, hf: holdfast.Holdfast, tmp_path: Path
) -> None:
    with WorkerProcess(server, tmp_path / "worker", "--slots", "1"):
        handle = hf.submit(chores.filler, 1, 100_000_000)
        assert handle.result(PATIENCE_S) == chores.filler(1, 100_000_000)


@pytest.mark.slow
def test_the_server_is_killed_while_results_are_brought(
    server: ServerProcess, hf: holdfast.Holdfast
) -> None:
    count, kills = 60, {15, 35, 50}

    def items() -> Iterator[tuple[int, int]]:
        for number in range(count):
            if number in kills:
                server.kill()
                server.start()
            yield number, LARGE

    with WorkerThread(server):
        job = hf.map(chores.filler_of, items())
        assert list(job.results()) == [chores.filler(n, LARGE) for n in range(count)]
    indices = [commit.index for commit in commits_in(server.data)]
    assert sorted(indices) == list(range(count)), "each committed once"


def test_one_larger_than_the_server_takes_fails_its_task_and_says_so(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path / "served", "--result-size", "200Ki") as server,
        WorkerThread(server),
        holdfast.connect(server.url, token_file=server.token_file) as hf,
    ):
        with pytest.raises(TaskFailed, match=r"at most 204,800 bytes here \(server.result_size\)"):
            hf.submit(chores.filler, 1, LARGE).result(PATIENCE_S)
        assert len(hf.submit(chores.filler, 1, 100_000).result(PATIENCE_S)) == 100_000
    assert len(stored_files(server.data)) == 1


def test_damage_on_the_server_is_told_to_whoever_asks(
    server: ServerProcess, hf: holdfast.Holdfast
) -> None:
    with WorkerThread(server):
        handle = hf.submit(chores.filler, 1, LARGE)
        assert len(handle.result(PATIENCE_S)) == LARGE
    [file] = stored_files(server.data)
    hurt(file, "changed")
    with pytest.raises(ResultLost, match="is damaged"):
        handle.result(PATIENCE_S)
    file.unlink()
    with pytest.raises(ResultLost, match="is not there"):
        handle.result(PATIENCE_S)
    [lost] = hf.job(handle.id).results(return_exceptions=True)
    assert isinstance(lost, ResultLost)


def test_a_folder_tells_of_large_results_without_a_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with holdfast.open(tmp_path, workers=1) as hf:
        handle = hf.submit(chores.filler, 1, LARGE)
        size = len(handle.result(PATIENCE_S))
    main(["task", "show", f"{handle.id}/0", "--data", str(tmp_path), "-o", "json"])
    shown = json.loads(capsys.readouterr().out)
    assert shown["result_bytes"] > size
    [file] = stored_files(tmp_path)
    assert shown["result_digest"] == file.parent.name + file.name
