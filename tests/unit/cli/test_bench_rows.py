"""Every row of the bench runs, at a size where its figures mean nothing, and measures all it says.

No test looks at how large a figure is, save that it is a number that can be compared.
"""

import json
import math
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast.cli.bench import bench
from holdfast.cli.benchmarks.processes import started
from holdfast.cli.benchmarks.row import (
    ROW_NAMES,
    Figure,
    Row,
    RowFailed,
    Values,
    main,
    measure_here,
    measure_in_child,
    row_of,
)
from holdfast.cli.benchmarks.sqlite import lives_per_second
from holdfast.cli.benchmarks.stepped import Stepped
from holdfast.core.errors import BrokenInvariant
from holdfast.core.ids import JobId
from holdfast.core.job import counts
from holdfast.core.task import TaskState

# These open a folder or start a process, and so take longer than a unit test may.
SLOW = {
    *("embedded", "latency", "server", "latency-server", "effects", "idle"),
    *("arrays", "restart", "replay", "help"),
}
TINY = {
    "evaluator": 5, "runtimes": 5, "help": 1, "restart": 300, "latency": 3, "latency-server": 3,
    "idle": 5,
}  # fmt: skip

PATIENCE_S = 60


def marked(name: str) -> object:
    return pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name


@pytest.mark.parametrize("name", [marked(name) for name in ROW_NAMES])
def test_a_row_measures_every_figure_it_announces(name: str, tmp_path: Path) -> None:
    row = row_of(name)
    values = measure_here(row, TINY.get(name, 200), tmp_path)
    assert list(values) == [figure.name for figure in row.figures]
    assert all(math.isfinite(value) for value in values.values())


@pytest.mark.parametrize("name", ROW_NAMES)
def test_a_row_is_called_by_the_name_of_its_module(name: str) -> None:
    row = row_of(name)
    assert row.name == name
    assert 0 < row.quick_size < row.size
    assert len({figure.name for figure in row.figures}) == len(row.figures)


def test_a_row_that_forgets_a_figure_is_found_out(tmp_path: Path) -> None:
    def run(size: int, folder: Path) -> Values:
        return {"one": 1.0}

    figures = (Figure("one", "", "s"), Figure("two", "", "s"))
    row = Row(name="made", what="", figures=figures, size=2, quick_size=1, run=run)
    with pytest.raises(BrokenInvariant, match="not what it announces"):
        measure_here(row, 1, tmp_path)


def test_the_process_of_a_row_writes_its_figures_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(size: int, folder: Path) -> Values:
        assert folder == tmp_path
        return {"size": float(size)}

    row = Row(
        name="made", what="", figures=(Figure("size", "", ""),), size=2, quick_size=1, run=run
    )
    assert main(row, ["7", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out) == {"size": 7.0}


def test_the_stepped_coordinator_completes_what_it_is_fed() -> None:
    stepped, job_id = Stepped(), JobId("map")
    stepped.open_map(job_id)
    stepped.feed(job_id, 0, 1_500)
    done = 0
    while done < 1_500:
        done += stepped.work()
    assert done == 1_500
    job = stepped.coordinator.state.jobs[job_id]
    assert counts(job)[TaskState.SUCCEEDED] == 1_500
    assert job.unfinished == 0


@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_the_queue_on_sqlite_completes_every_task_with_its_result(
    journal: str, tmp_path: Path
) -> None:
    import sqlite3

    path = tmp_path / "queue.sqlite"
    assert lives_per_second(path, 250, journal) > 0
    queue = sqlite3.connect(path)
    try:
        rows = queue.execute("SELECT state, result = payload, count(*) FROM queue GROUP BY 1, 2")
        assert rows.fetchall() == [(2, 1, 250)]
        assert queue.execute("PRAGMA journal_mode").fetchone() == (journal.lower(),)
    finally:
        queue.close()


@pytest.mark.slow
def test_a_row_in_a_process_of_its_own_gives_the_same_figures(tmp_path: Path) -> None:
    row = row_of("items")
    assert list(measure_in_child(row, 100, tmp_path)) == ["overhead"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_process_that_fails_is_told_with_its_last_words(tmp_path: Path) -> None:
    nowhere = Row("nowhere", "", (), 1, 1, lambda size, folder: {})
    with pytest.raises(RowFailed, match=r"No module named .*benchmarks\.nowhere"):
        measure_in_child(nowhere, 100, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_bench_that_is_stopped_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "holdfast", "bench", "growth", "--quick"]
    command += ["--dir", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        assert "growth 1/3" in child.stderr.readline()
        while not list(tmp_path.iterdir()):
            assert child.poll() is None
        child.terminate()
        assert child.wait(60) == 143
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_row_that_is_stopped_ends_the_server_it_has_started(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "holdfast", "bench", "idle", "--quick"]
    command += ["--dir", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as child:
        while not list(tmp_path.glob("*/token.server")):
            assert child.poll() is None
        (place,) = tmp_path.iterdir()
        assert [words for words in every_process() if str(place) in words]
        child.terminate()
        assert child.wait(60) == 143
    assert [words for words in every_process() if str(place) in words] == []
    assert list(tmp_path.iterdir()) == []


def every_process() -> list[str]:
    """What each process of this machine was started with."""
    import psutil

    return [" ".join(each.info["cmdline"] or []) for each in psutil.process_iter(["cmdline"])]


@pytest.mark.slow
def test_what_does_not_say_it_is_ready_is_told_with_its_last_words(tmp_path: Path) -> None:
    words = [sys.executable, "-c", "import sys; sys.exit('there is no room')"]
    with (
        pytest.raises(RowFailed, match="there is no room"),
        started(words, tmp_path, {}, ready=lambda process: process.wait_to_hear("ready")),
    ):
        pytest.fail("it was never ready")


@pytest.mark.slow
def test_a_process_that_will_not_go_is_killed_with_all_it_has_started(tmp_path: Path) -> None:
    stubborn = (
        "import signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE);"
        "print('child', child.pid, file=sys.stderr, flush=True); child.wait()"
    )
    words = [sys.executable, "-c", stubborn]
    with started(
        words, tmp_path, {}, ready=lambda process: process.wait_to_hear("child")
    ) as process:
        heard = process.last_words()
        process.grace_s = 0.0
    grandchild = int(heard.split()[1])
    assert not Path(f"/proc/{process.pid}").exists()
    # A kill is answered when the kernel comes to it, and who inherits an orphan may take its time
    # to bury it.
    give_up_at = time.monotonic() + PATIENCE_S
    while is_alive(grandchild) and time.monotonic() < give_up_at:
        time.sleep(0.01)
    assert not is_alive(grandchild)


def is_alive(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.slow
def test_the_command_writes_json_to_stdout_and_progress_to_stderr(tmp_path: Path) -> None:
    arguments = ["--json", "--quick", "--dir", str(tmp_path), "items"]
    answer = CliRunner().invoke(bench, arguments)
    assert answer.exit_code == 0
    document = json.loads(answer.stdout)
    assert document["schema"] == 1
    assert document["quick"] is True
    assert document["machine"]["python"].split(".")[:2] == [str(n) for n in sys.version_info[:2]]
    (figure,) = document["figures"]
    assert figure["row"] == "items"
    assert len(figure["values"]) == 3
    assert figure["min"] <= figure["median"] <= figure["max"]
    assert "items 3/3" in answer.stderr
