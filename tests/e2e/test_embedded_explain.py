"""A folder that a program holds is explained from outside as a server's is, now and then."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.testing import chores
from holdfast.testing.fleet import wait_until

PATIENCE_S = 60


def codes(folder: Path, job_id: str, *options: str) -> list[str]:
    """What another process is told of a job of this folder."""
    command = [sys.executable, "-m", "holdfast", "job", "explain", job_id, "-o", "json"]
    told = subprocess.run(
        [*command, "--data", str(folder), *options], capture_output=True, text=True, check=True
    )
    return [reason["code"] for reason in json.loads(told.stdout)["reasons"]]


@pytest.mark.slow
def test_what_waits_in_a_folder_is_told_with_its_worker_and_its_rate(tmp_path: Path) -> None:
    folder, here, there = tmp_path / "state", tmp_path / "here", tmp_path / "there"
    os.mkfifo(here)
    os.mkfifo(there)
    with holdfast.open(folder, workers=1, executor="threads") as hf:
        hf.set_limit("key/tape", rate="1/1h")
        hf.submit(chores.tell_and_wait, str(here), str(there))
        here.read_text()
        waits = hf.submit(chores.square, 2)
        bounded = hf.submit(chores.square, 2, concurrency={"tape": 0})
        wait_until(lambda: codes(folder, bounded.id) == ["rate_key", "workers_busy"])
        assert codes(folder, waits.id) == ["workers_busy"]
        last = hf.transactions(1)[0].position
        there.write_text("go")
        assert waits.result(PATIENCE_S) == 4
        assert codes(folder, waits.id, "--at", str(last)) == ["workers_busy"]
        assert codes(folder, bounded.id, "--at", str(last)) == ["rate_key", "workers_busy"]
    # Its worker was a part of the program, which is over.
    assert codes(folder, bounded.id) == ["rate_key", "no_worker"]
    assert codes(folder, waits.id, "--at", str(last)) == ["workers_busy"]
