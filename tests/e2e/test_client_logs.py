"""`logs()` of a handle and of a job: what a server kept; a program itself keeps nothing."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import Refused
from holdfast.testing import chores
from holdfast.testing.loopback import ServerProcess, WorkerProcess

PATIENCE_S = 60


def arrived(read: Callable[[], str]) -> str:
    """What was printed comes on its own way, and may be later than the result."""
    give_up_at = time.monotonic() + PATIENCE_S
    while not (text := read()) and time.monotonic() < give_up_at:
        time.sleep(0.01)
    return text


def connected(server: ServerProcess) -> holdfast.Holdfast:
    return holdfast.connect(server.url, token_file=server.token_file)


def test_a_client_reads_what_tasks_printed_and_so_does_whoever_opens_the_folder_later(
    tmp_path: Path,
) -> None:
    server = ServerProcess(tmp_path / "served")
    with server, WorkerProcess(server, tmp_path / "worker"), connected(server) as hf:
        handle = hf.submit(chores.speak, 7)
        assert handle.result(PATIENCE_S) == 7
        assert arrived(handle.logs) == "7 is said\n"
        assert arrived(lambda: handle.logs(stream="stderr")) == "7 is whispered\n"
        job = hf.map(chores.speak, range(3))
        job.wait(PATIENCE_S)
        texts = [arrived(lambda index=index: job.logs(index)) for index in range(3)]
        assert texts == ["0 is said\n", "1 is said\n", "2 is said\n"]
        assert arrived(lambda: hf.job(job.id).logs(2, attempt=1)) == texts[2]
        with pytest.raises(Refused) as caught:
            job.logs(0, attempt=9)
        assert caught.value.code == "not_found"
        with pytest.raises(ValueError, match="stdout, stderr"):
            job.logs(stream="stdin")
    with holdfast.open(server.data) as hf:
        assert hf.job(job.id).logs(1) == "1 is said\n"


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_a_program_keeps_nothing_and_says_where_it_went(tmp_path: Path, executor: str) -> None:
    with holdfast.open(tmp_path / "state", executor=executor) as hf:
        handle = hf.submit(chores.speak, 1)
        assert handle.result(PATIENCE_S) == 1
        with pytest.raises(Refused, match="holdfast serve") as caught:
            handle.logs()
        assert caught.value.code == "not_kept"
        waiting = hf.submit(chores.speak, 2, delay="1h")
        assert waiting.logs() == ""
        waiting.cancel()
        with pytest.raises(Refused, match="no task"):
            hf.map(chores.speak, range(1)).logs(9)
