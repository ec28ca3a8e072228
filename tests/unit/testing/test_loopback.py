"""Whoever has entered a worker of the tests may kill its server at once."""

import threading
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.testing import loopback
from holdfast.testing.fleet import wait_until
from holdfast.testing.loopback import ServerProcess, WorkerThread, address_of
from holdfast.wire.ports import held_port


@pytest.mark.slow
def test_a_worker_is_entered_only_when_it_was_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loopback, "STOP_S", 1.0)
    with closing(held_port()) as nobody:
        server = ServerProcess(tmp_path, listen=address_of(nobody))
        server.url = f"http://{address_of(nobody)}"
        server.token_file.write_text("hf_token")
        before = set(threading.enumerate())
        with pytest.raises(RuntimeError, match="nobody answered the worker"):
            WorkerThread(server).__enter__()
    # It has left; when its thread is gone is up to the machine.
    wait_until(lambda: set(threading.enumerate()) <= before, what="its threads are there still")
