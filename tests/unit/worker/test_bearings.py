"""What a function reads about itself in the environment of its process."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from holdfast.core.ids import Index, JobId, LeaseId, WorkerId
from holdfast.wire.exchange import Item, Run
from holdfast.worker.bearings import OF_RUN, OF_TASK, Bearings, bearings

WORKER = WorkerId("w")
NAMES = (*OF_RUN, *OF_TASK)
ASK = "import os; print(*(os.environ.get(name, '') for name in os.environ['NAMES'].split()))"


def a_run(job_id: str = "j", count: int = 3) -> Run:
    items = tuple(Item(Index(i), LeaseId(i + 7), 1, b"") for i in range(count))
    return Run(JobId(job_id), 0, "function", "m:f", 0, 0, False, count, items)


def seen_here() -> list[str]:
    return [os.environ.get(name, "") for name in NAMES]


def seen_by_a_program() -> list[str]:
    """What one is started with that is told nothing: the environment as C has it."""
    told = subprocess.run([sys.executable, "-c", ASK], capture_output=True, check=True, text=True)
    return told.stdout.split()


def expected(run: Run, item: Item) -> list[str]:
    told = bearings(run, item, WORKER)
    return [told[name] for name in NAMES]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bearings]:
    monkeypatch.setenv("NAMES", " ".join(NAMES))
    here = Bearings(WORKER)
    yield here
    here.clear()


def test_each_task_and_every_program_it_starts_sees_its_own(here: Bearings) -> None:
    run = a_run()
    for item in run.items:
        here.take(run, item)
        assert seen_here() == expected(run, item)
    assert seen_by_a_program() == expected(run, run.items[-1])


def test_what_a_task_did_to_its_environment_is_not_seen_by_the_next(here: Bearings) -> None:
    run = a_run()
    here.take(run, run.items[0])
    os.environ["HOLDFAST_TASK_ID"] = "other/1"
    del os.environ["HOLDFAST_LEASE_ID"]
    here.take(run, run.items[1])
    assert seen_here() == expected(run, run.items[1])
    assert seen_by_a_program() == expected(run, run.items[1])


def test_a_name_longer_than_usual_is_seen_whole_and_so_is_the_short_one_after_it(
    here: Bearings,
) -> None:
    for run in (a_run("a"), a_run("b" * 1_000), a_run("c")):
        here.take(run, run.items[0])
        assert seen_by_a_program() == expected(run, run.items[0])


def test_nothing_is_left_when_nothing_runs_and_the_next_run_is_seen_again(here: Bearings) -> None:
    run = a_run()
    here.take(run, run.items[0])
    here.clear()
    assert seen_by_a_program() == []
    here.take(run, run.items[0])
    assert seen_by_a_program() == expected(run, run.items[0])
