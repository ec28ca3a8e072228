"""Retries, timeouts and bounds, with real threads and real processes."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import pytest

import holdfast
from holdfast import task
from holdfast.coordinator.inspect import look_into
from holdfast.core import events as e
from holdfast.errors import Refused, TaskFailed
from holdfast.testing import chores

PATIENCE_S = 60
TRIES = 20
EXECUTORS = ["threads", "processes"]
Open = Callable[..., holdfast.Holdfast]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def opened(folder: Path) -> Iterator[Open]:
    folders: list[holdfast.Holdfast] = []

    def open_one(
        executor: Literal["threads", "processes"] = "threads", workers: int = 2
    ) -> holdfast.Holdfast:
        hf = holdfast.open(folder, executor=executor, workers=workers, grace=0)
        folders.append(hf)
        return hf

    yield open_one
    for hf in folders:
        hf.close()


def pipe(folder: Path, name: str) -> str:
    os.mkfifo(folder / name)
    return str(folder / name)


def until_heard(
    hf: holdfast.Holdfast, slow: Callable[[str], None], folder: Path
) -> list[holdfast.Handle[None]]:
    """Submit what says that it has begun; again where its time was up before it could speak."""
    here = pipe(folder, "here")
    ear = os.open(here, os.O_RDONLY | os.O_NONBLOCK)
    handles: list[holdfast.Handle[None]] = []
    try:
        while len(handles) < TRIES:
            # The process is warm before its time runs.
            hf.submit(chores.square, 1).result(PATIENCE_S)
            handles.append(hf.submit(slow, here))
            assert handles[-1].wait(PATIENCE_S)
            with suppress(BlockingIOError):
                if os.read(ear, 100) == b"begun":
                    return handles
    finally:
        os.close(ear)
    raise AssertionError(f"it never began in {len(handles)} tries")


def ends(folder: Path) -> list[e.End]:
    """Every attempt that ended without a commit, as the log tells it."""
    found: list[e.End] = []
    for told in look_into(folder).records():
        for event in told.record.events:
            if isinstance(event, e.AttemptsReturned | e.TasksQuarantined | e.TasksKilled):
                found.extend(event.ends)
    return found


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_task_that_raises_is_tried_again_until_it_succeeds(
    opened: Open, folder: Path, tmp_path: Path, executor: str
) -> None:
    hf = opened(executor)
    handle = hf.submit(chores.fail_before, str(tmp_path / "trace"), 2)
    assert handle.result(PATIENCE_S) == 3
    told = [(end.reason, end.charged, end.failures, end.error) for end in ends(folder)]
    assert told == [
        ("failed", "failures", 1, "RuntimeError: not yet: try 1"),
        ("failed", "failures", 2, "RuntimeError: not yet: try 2"),
    ]


def test_a_function_that_fails_in_a_row_rests_and_is_tried_again(
    opened: Open, tmp_path: Path
) -> None:
    hf = opened()
    chosen = chores.fail_before.options(circuit="2/50ms")
    assert hf.submit(chosen, str(tmp_path / "trace"), 3).result(PATIENCE_S) == 4
    actions = [action.action for each in hf.transactions() for action in each.actions]
    steps = [name for name in actions if name.startswith("circuit_")]
    assert steps == [
        "circuit_counted", "circuit_opened", "circuit_half_opened", "circuit_probed",
        "circuit_opened", "circuit_half_opened", "circuit_probed", "circuit_closed",
    ]  # fmt: skip


def test_a_budget_that_is_spent_quarantines_the_task(
    opened: Open, folder: Path, tmp_path: Path
) -> None:
    hf = opened()
    chosen = chores.fail_before.options(retries=1)
    error = hf.submit(chosen, str(tmp_path / "trace"), 5).exception(PATIENCE_S)
    assert isinstance(error, TaskFailed)
    assert error.error == "RuntimeError: not yet: try 2"
    assert [end.failures for end in ends(folder)] == [1, 2]


def test_a_function_that_dies_with_its_process_costs_one_task(opened: Open, folder: Path) -> None:
    hf = opened("processes")
    neighbour = hf.map(chores.square, range(20))
    error = hf.submit(chores.die, 3).exception(PATIENCE_S)
    assert isinstance(error, TaskFailed)
    assert "3" in error.error
    assert list(neighbour.results()) == [n * n for n in range(20)]
    assert [end.exit_code for end in ends(folder)] == [3]


def test_a_task_that_keeps_losing_its_worker_is_quarantined_by_its_losses(
    opened: Open, folder: Path
) -> None:
    hf = opened("processes", workers=1)
    poison = task(max_losses=1)(chores.kill_the_program)
    error = hf.submit(poison, 1).exception(PATIENCE_S)
    assert isinstance(error, TaskFailed)
    assert [(end.reason, end.charged, end.losses) for end in ends(folder)] == [
        ("worker_lost", "losses", 1),
        ("worker_lost", "losses", 2),
    ]
    assert hf.submit(chores.square, 3).result(PATIENCE_S) == 9


def test_past_its_timeout_a_thread_is_given_up_and_its_slot_stays_occupied(
    opened: Open, folder: Path, tmp_path: Path
) -> None:
    hf = opened("threads", workers=1)
    here, there = pipe(tmp_path, "here"), pipe(tmp_path, "there")
    slow = task(timeout="10ms")(chores.tell_and_wait)
    handle = hf.submit(slow, here, there)
    assert Path(here).read_text() == "begun"
    error = handle.exception(PATIENCE_S)
    assert isinstance(error, TaskFailed)
    assert "longer than its timeout of 0.01 s" in error.error
    assert "1 occupied by attempts that were given up" in repr(hf)
    waiting = hf.submit(chores.square, 5)
    assert not waiting.wait(0.05)
    # The function returns at last. Its result is refused; its slot is free again.
    Path(there).write_text("too late")
    assert waiting.result(PATIENCE_S) == 25
    assert isinstance(handle.exception(), TaskFailed)
    assert [(end.reason, end.charged) for end in ends(folder)] == [("timed_out", "failures")]


def test_past_its_timeout_a_process_is_killed(opened: Open, folder: Path, tmp_path: Path) -> None:
    hf = opened("processes", workers=1)
    handles = until_heard(hf, task(timeout="1s")(chores.tell_and_hang), tmp_path)
    assert isinstance(handles[-1].exception(PATIENCE_S), TaskFailed)
    assert hf.submit(chores.square, 5).result(PATIENCE_S) == 25
    assert [end.reason for end in ends(folder)] == ["timed_out"] * len(handles)


def test_too_many_failed_items_stop_the_whole_map(opened: Open) -> None:
    hf = opened("threads", workers=1)
    job = hf.map(chores.fail, range(1_000), max_failed_tasks=2)
    assert job.wait(PATIENCE_S)
    assert (job.state, job.reason) == ("FAILED", "too_many_failed")
    told = [type(event).__name__ for event in _events(hf)]
    assert told.count("TasksQuarantined") == 3


def _events(hf: holdfast.Holdfast) -> list[object]:
    folder = hf._backend.path
    return [event for told in look_into(folder).records() for event in told.record.events]


def test_a_job_that_takes_too_long_is_stopped_as_a_whole(opened: Open, tmp_path: Path) -> None:
    hf = opened("processes", workers=1)
    handle = until_heard(hf, task(job_timeout="1s")(chores.tell_and_hang), tmp_path)[-1]
    with pytest.raises(TaskFailed, match="is KILLED"):
        handle.result(PATIENCE_S)
    assert handle.wait(PATIENCE_S)
    assert (hf.job(handle.id).state, hf.job(handle.id).reason) == ("FAILED", "job_timed_out")
    assert hf.submit(chores.square, 5).result(PATIENCE_S) == 25


def test_a_deadline_that_has_passed_stops_what_waits(opened: Open) -> None:
    hf = opened()
    past = datetime.now(UTC) - timedelta(seconds=1)
    handle = hf.submit(chores.square, 1, delay="1h", deadline=past)
    with pytest.raises(TaskFailed, match="is KILLED"):
        handle.result(PATIENCE_S)
    assert hf.job(handle.id).reason == "deadline"


def test_a_calendar_instant_that_has_passed_is_now(opened: Open) -> None:
    hf = opened()
    past = datetime.now(UTC) - timedelta(days=1)
    assert hf.submit(chores.square, 3, not_before=past).result(PATIENCE_S) == 9
    soon = datetime.now(UTC) + timedelta(milliseconds=50)
    assert hf.submit(chores.square, 4, not_before=soon).result(PATIENCE_S) == 16


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("bound", [1, 2])
def test_a_bound_on_what_runs_at_once_holds_in_the_world(
    opened: Open, tmp_path: Path, executor: str, bound: int
) -> None:
    hf = opened(executor, workers=3)
    mine, other = str(tmp_path / "mine"), str(tmp_path / "other")
    # Another job keeps the slots changing hands, which is when a bound could slip.
    noise = hf.map(chores.crowd_pair, [(n, other) for n in range(60)])
    job = hf.map(chores.crowd_pair, [(n, mine) for n in range(40)], max_parallel=bound)
    assert list(job.results()) == list(range(40))
    assert list(noise.results()) == list(range(60))
    assert chores.most_at_once(tmp_path / "mine") <= bound
    assert chores.most_at_once(tmp_path / "other") <= 3


def test_tasks_of_two_processors_never_share_two_processors(opened: Open, tmp_path: Path) -> None:
    hf = opened("threads", workers=2)
    mine, other = str(tmp_path / "mine"), str(tmp_path / "other")
    noise = hf.map(chores.crowd_pair, [(n, other) for n in range(40)])
    job = hf.map(task(cpus=2)(chores.crowd_pair), [(n, mine) for n in range(20)])
    assert list(job.results()) == list(range(20))
    assert list(noise.results()) == list(range(40))
    assert chores.most_at_once(tmp_path / "mine") == 1


def test_what_does_not_fit_is_refused_or_ends_unschedulable(opened: Open) -> None:
    hf = opened("threads", workers=2)
    with pytest.raises(Refused, match="2 cpus, not 64 cpus; open the folder with more") as caught:
        hf.submit(task(cpus=64)(chores.square), 1)
    assert caught.value.code == "unschedulable"
    patient = task(cpus=64, schedule_timeout="20ms")(chores.square)
    handle = hf.submit(patient, 1)
    with pytest.raises(TaskFailed, match="is UNSCHEDULABLE"):
        handle.result(PATIENCE_S)
    assert handle.state == "UNSCHEDULABLE"


def test_urgent_work_goes_first(opened: Open, tmp_path: Path) -> None:
    hf = opened("threads", workers=1)
    here, there = pipe(tmp_path, "here"), pipe(tmp_path, "there")
    first = hf.submit(chores.tell_and_wait, here, there)
    assert Path(here).read_text() == "begun"
    trace = str(tmp_path / "trace")
    low = hf.submit(chores.mark, trace)
    high = hf.submit(task(priority=5)(chores.mark), trace)
    Path(there).write_text("go on")
    first.result(PATIENCE_S)
    assert (high.result(PATIENCE_S), low.result(PATIENCE_S)) == (1, 2)
