"""A client, a server and workers, each a program of its own, and each of them may die."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import TaskFailed
from holdfast.testing import chores
from holdfast.testing.loopback import ServerProcess, WorkerProcess

PATIENCE_S = 120


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "served", "--lease-term", "1s") as started:
        yield started


@pytest.mark.slow
def test_the_death_of_a_worker_and_of_the_server_is_not_the_clients_business(
    server: ServerProcess, tmp_path: Path
) -> None:
    first = WorkerProcess(server, tmp_path / "one", "--slots", "2")
    second = WorkerProcess(server, tmp_path / "two", "--slots", "2")
    with first, second, holdfast.connect(server.url, token_file=server.token_file) as hf:
        job = hf.map(chores.labour, range(600))
        values: list[int] = []
        for value in job.results():
            values.append(value)
            if len(values) == 100:
                first.kill()
            if len(values) == 300:
                server.kill()
                server.start()
        assert values == [n * n for n in range(600)]
        assert hf.submit(chores.later, 1).result(PATIENCE_S) == 2
        assert list(hf.array(chores.double, 5, 100).results()) == [100, 102, 104, 106, 108]
        with pytest.raises(TaskFailed, match="bad item 7") as caught:
            hf.submit(chores.fail, 7).result(PATIENCE_S)
        assert 'raise ValueError(f"bad item {n}")' in caught.value.traceback


SCRIPT = """
import sys
import holdfast

def triple(n: int) -> int:
    return 3 * n

if __name__ == "__main__":
    with holdfast.connect(token_file=sys.argv[1]) as hf:
        handle = hf.submit(triple, 14)
        print(handle.id, flush=True)
        if len(sys.argv) < 3:
            print(handle.result(60))
"""


def run_script(server: ServerProcess, script: Path, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, str(script), str(server.token_file), *arguments],
        env={"PATH": "", "PYTHONPATH": ":".join(sys.path), "HOLDFAST_SERVER": server.url},
        capture_output=True, text=True, check=True, timeout=PATIENCE_S,
    )  # fmt: skip
    return done.stdout.split()


def test_a_function_of_a_script_runs_where_the_script_can_be_read_and_nowhere_else(
    server: ServerProcess, tmp_path: Path
) -> None:
    script = tmp_path / "program.py"
    script.write_text(SCRIPT)
    (gone,) = run_script(server, script, "leave")
    kept = tmp_path / "kept.py"
    script.rename(kept)
    with (
        WorkerProcess(server, tmp_path / "one", "--slots", "1"),
        holdfast.connect(server.url, token_file=server.token_file) as hf,
    ):
        assert run_script(server, kept)[1] == "42"
        with pytest.raises(TaskFailed, match="module that is installed where workers run"):
            list(hf.job(gone).results())
