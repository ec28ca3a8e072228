"""Other queues are measured beside ours where they are installed, and said to be left out else."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from click.testing import CliRunner

from holdfast.cli.bench import bench
from holdfast.cli.benchmarks.peers import (
    NEEDS,
    PEER_NAMES,
    PYTHON,
    beside_peers,
    missing,
    peers_python,
)
from holdfast.cli.benchmarks.row import Figure, RowFailed, Values, measure_here, row_of
from holdfast.cli.benchmarks.services import find_postgres, find_redis, postgres, redis
from holdfast.cli.benchmarks.tally import Tally

ROOT = Path(__file__).parents[3]
SOME = 60

# What is set for this run is taken away from every test of the command line; here it is wanted.
NAMED = os.environ.get(PYTHON, "")


@pytest.fixture(autouse=True)
def named_python(monkeypatch: pytest.MonkeyPatch) -> None:
    if NAMED:
        monkeypatch.setenv(PYTHON, NAMED)


def leave_out(why: str) -> None:
    """Nobody has to have the queues of others; where a Python was named for them, it must."""
    if NAMED:
        pytest.fail(f"{PYTHON} names {NAMED}, and {why}")
    pytest.skip(why)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of pytest's is closed to others on the way to it, such as those who may run a
    database where we may not."""
    with TemporaryDirectory() as place:
        yield Path(place)


def tally(row: str, name: str, *values: float) -> Tally:
    return Tally(row, Figure(name, "", ""), 1, values, is_quick=False)


def test_our_lives_are_held_against_the_fastest_peer_run_by_run() -> None:
    (ratio,) = beside_peers(
        [
            tally("server", "lives", 20, 30, 90),
            tally("huey", "combined", 1, 99, 1),
            tally("pgqueuer", "combined", 10, 10, 15),
        ]
    )
    assert ratio.row == "server"
    assert "pgqueuer" in ratio.figure.what
    assert ratio.values == (2, 3, 6)
    assert ratio.verdict == "met"


def test_our_starts_are_held_against_those_of_taskiq() -> None:
    made = beside_peers(
        [
            tally("latency-server", "start_p50", 2, 2, 2),
            tally("latency-server", "start_p99", 2, 2, 2),
            tally("taskiq", "start_p50", 4, 4, 4),
            tally("taskiq", "start_p99", 1, 1, 1),
        ]
    )
    assert [ratio.figure.name for ratio in made] == ["start_p50_ratio", "start_p99_ratio"]
    assert [ratio.verdict for ratio in made] == ["met", "not met"]


def test_nothing_is_compared_where_one_of_the_two_was_not_measured() -> None:
    assert beside_peers([tally("server", "lives", 1), tally("items", "overhead", 1)]) == []
    assert beside_peers([tally("huey", "combined", 1)]) == []


@pytest.mark.parametrize("name", PEER_NAMES)
def test_the_row_of_a_peer_has_its_name_and_says_how_it_is_durable(name: str) -> None:
    row = row_of(name)
    assert row.name == name
    assert 0 < row.quick_size < row.size
    assert [figure.name for figure in row.figures][:3] == ["submitted", "completed", "combined"]
    assert any(word in row.what for word in ("durable", "FULL", "AOF always"))
    assert all(figure.bar is None for figure in row.figures)


@pytest.mark.slow
def test_a_peer_that_is_not_installed_is_left_out_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(PYTHON, raising=False)
    nowhere = str(tmp_path / "python")
    arguments = ["items", "--quick", "--json", "--peers", "--peers-python", nowhere]
    answer = CliRunner().invoke(bench, [*arguments, "--dir", str(tmp_path)])
    assert answer.exit_code == 0, answer.stderr
    document = json.loads(answer.stdout)
    assert {figure["row"] for figure in document["figures"]} == {"items"}
    assert all(f"{name} is left out" in answer.stderr for name in PEER_NAMES)
    monkeypatch.delenv(PYTHON, raising=False)


def test_the_python_of_the_peers_is_ours_unless_another_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(PYTHON, raising=False)
    assert peers_python() == sys.executable
    monkeypatch.setenv(PYTHON, "/else/where")
    assert peers_python() == "/else/where"


@pytest.mark.slow
@pytest.mark.parametrize("name", PEER_NAMES)
def test_a_peer_that_is_installed_is_measured_and_leaves_nothing_behind(
    name: str, folder: Path
) -> None:
    why = missing(name)
    if why:
        leave_out(f"{name}: {why}")
    row = row_of(name)
    values: Values = measure_here(row, SOME, folder)
    assert list(values) == [figure.name for figure in row.figures]
    assert all(value > 0 for value in values.values())
    assert processes_in(folder) == []


@pytest.mark.slow
def test_a_script_that_fails_is_told_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This Python has none of them: the script meets that when it runs."""
    monkeypatch.setenv(PYTHON, sys.executable)
    if not missing("huey"):
        pytest.skip("huey is installed here")
    with pytest.raises(RowFailed, match="No module named 'huey'"):
        measure_here(row_of("huey"), SOME, tmp_path)


@pytest.mark.slow
def test_redis_syncs_every_write_and_ends_with_the_row(tmp_path: Path) -> None:
    if find_redis() is None:
        leave_out("there is no redis-server")
    with redis(tmp_path) as url:
        assert url.startswith("redis://127.0.0.1:")
        (words,) = processes_in(tmp_path)
    assert "redis-server" in words
    assert processes_in(tmp_path) == []
    assert (tmp_path / "redis" / "appendonlydir").is_dir()


@pytest.mark.slow
def test_postgres_runs_as_somebody_else_than_root_and_ends_with_the_row(folder: Path) -> None:
    if find_postgres() is None:
        leave_out("there is no PostgreSQL")
    with postgres(folder) as url:
        assert url.startswith("postgresql://bench@127.0.0.1:")
        pid = int((folder / "postgres" / "db" / "postmaster.pid").read_text().split()[0])
        assert Path(f"/proc/{pid}").stat().st_uid != 0
        os.kill(pid, 0)
    assert processes_in(folder) == []


def processes_in(folder: Path) -> list[str]:
    """What still runs with that folder as its own."""
    import psutil

    found: list[str] = []
    for process in psutil.process_iter(["cwd", "cmdline"]):
        if str(folder) in (process.info["cwd"] or ""):
            found.append(" ".join(process.info["cmdline"] or []))
    return found


def test_every_peer_names_what_it_needs() -> None:
    assert set(NEEDS) == set(PEER_NAMES)


def test_what_every_peer_needs_is_pinned_for_those_who_install_it() -> None:
    pins = (ROOT / ".ci" / "peers.txt").read_text(encoding="utf-8").splitlines()
    wanted = [pin for pin in pins if not pin.startswith("#")]
    assert all("==" in pin for pin in wanted)
    named = {pin.partition("==")[0].lower().replace("-", "_") for pin in wanted}
    assert {library for needs in NEEDS.values() for library in needs.libraries} <= named


@pytest.mark.slow
def test_a_bench_of_peers_that_is_stopped_ends_what_it_has_started(tmp_path: Path) -> None:
    if missing("huey"):
        leave_out("huey is not installed")
    words = [sys.executable, "-m", "holdfast.cli.benchmarks.huey", "20000", str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        while not (tmp_path / "queue.sqlite").exists():
            assert child.poll() is None
        child.send_signal(signal.SIGTERM)
        assert child.wait(60) == 143
    assert processes_in(tmp_path) == []
