"""A function in a warm process is told what it is, as a command is."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.testing.crew import Crew
from holdfast.worker.payloads import encode_call
from holdfast.worker.processes import ProcessExecutor

TASKS = Path(__file__).with_name("executors_tasks.py")
OURS = "HOLDFAST_"


def clock_ms() -> int:
    return time.monotonic_ns() // 1_000_000


@pytest.fixture
def crew(monkeypatch: pytest.MonkeyPatch) -> Iterator[Crew]:
    # Whoever runs the tests may have told them something, too.
    for name in [name for name in os.environ if name.startswith(OURS)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOLDFAST_LEASE_ID", "of whoever started this")
    crew = Crew(lambda wake: ProcessExecutor(1, wake, clock_ms, worker="press-3"))
    yield crew
    crew.executor.close(0)


def test_a_function_finds_out_what_it_is_and_so_does_what_it_starts(crew: Crew) -> None:
    leases = crew.assign(f"script:{TASKS}:bearings", [encode_call((n,)) for n in range(2)])
    crew.until(2)
    assert crew.failed == []
    assert crew.results() == [
        {
            "HOLDFAST_JOB_ID": "job",
            "HOLDFAST_TASK_ID": f"job/{index}",
            "HOLDFAST_TASK_INDEX": str(index),
            "HOLDFAST_TASK_COUNT": "2",
            "HOLDFAST_ATTEMPT": "1",
            "HOLDFAST_LEASE_ID": str(lease),
            "HOLDFAST_WORKER_ID": "press-3",
            "told a program": str(lease),
        }
        for index, lease in enumerate(leases)
    ]


def test_what_a_function_was_told_is_gone_when_it_has_ended(crew: Crew, tmp_path: Path) -> None:
    door = tmp_path / "door"
    os.mkfifo(door)
    # Both ends are ours, so that opening waits for nobody.
    descriptor = os.open(door, os.O_RDWR)
    try:
        (lease,) = crew.assign(
            f"script:{TASKS}:watch_bearings", [encode_call((str(door),))]
        )
        crew.until(1)
        assert (crew.failed, crew.results()) == ([], [str(lease)])
        assert os.read(descriptor, 1_000) == b"nothing"
    finally:
        os.close(descriptor)
