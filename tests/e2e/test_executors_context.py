"""Contexts in warm children: what a task may ask, early commits, and the end it is asked for."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from holdfast.core.ids import LeaseId
from holdfast.core.owed import BLOCK
from holdfast.testing.crew import PATIENCE_S, Crew
from holdfast.worker.executor import Left
from holdfast.worker.payloads import decode_result, encode_call
from holdfast.worker.processes import ProcessExecutor

TASKS = "holdfast.testing.speaking"


class ProcessCrew(Crew):
    def __init__(self, folder: Path, slots: int = 1, **options: int) -> None:
        self._folder = folder
        super().__init__(
            lambda wake: ProcessExecutor(slots, wake, lambda: 1_000, worker="press", **options)
        )

    def give(self, task: str, *calls: Any, **terms: Any) -> list[LeaseId]:
        payloads = [encode_call((call,)) for call in calls]
        return self.assign(f"{TASKS}:{task}", payloads, sinks=("ledger",), **terms)

    def pipe(self, name: str) -> str:
        path = self._folder / name
        os.mkfifo(path)
        return str(path)

    def path(self, name: str) -> Path:
        return self._folder / name

    def told(self) -> dict[str, str]:
        """What a task that commits is given."""
        return {
            "ran": str(self.path("ran")), "inside": self.pipe("inside"), "go": self.pipe("go"),
        }  # fmt: skip

    def steps(self) -> list[str]:
        return self.path("ran").read_text().split()


def say(pipe: str, words: str) -> None:
    with open(pipe, "w") as out:
        out.write(words)


def hear(pipe: str) -> str:
    with open(pipe) as words:
        return words.read()


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[ProcessCrew]:
    crew = ProcessCrew(tmp_path)
    yield crew
    crew.executor.close(0)


def test_a_task_finds_out_what_it_is(crew: ProcessCrew) -> None:
    crew.give("ids", 0, 0)
    crew.until(2)
    assert crew.results() == [["job/0:1", 1, "press", True], ["job/1:1", 2, "press", True]]


def test_promises_travel_with_the_result_and_never_with_a_failure(crew: ProcessCrew) -> None:
    crew.give("promises", {"amount": 7}, "bad", [1])
    crew.until(3)
    assert crew.results() == ["job/0.0", "job/2.0"]
    told = [(entry.place, entry.key, entry.body) for done in crew.done for entry in done.owed]
    packed = msgspec.msgpack.encode
    assert told == [("ledger", "k", packed({"amount": 7})), ("ledger", "k", packed([1]))]
    assert [failed.error for failed in crew.failed] == ["ValueError: bad"]


def test_progress_comes_from_the_child(crew: ProcessCrew) -> None:
    crew.give("tells", 5)
    crew.until(1)
    first = crew.progress[0]
    assert (first.lease_id, first.done, first.total) == (1, 1, 5)


def test_a_block_runs_after_the_verdict_and_is_told_when_it_is_left(crew: ProcessCrew) -> None:
    told = crew.told()
    (lease,) = crew.give("commits", told)
    crew.hear(crew.early)
    done = crew.early[0]
    assert decode_result(done.result) == "committed"
    assert [entry.kind for entry in done.owed] == [BLOCK]
    assert crew.executor.running() == []
    assert [attempt.lease_id for attempt in crew.executor.lingering()] == [lease]
    assert crew.steps() == ["prepared"]
    crew.executor.answer(lease, "")
    assert hear(told["inside"])
    say(told["go"], "on")
    crew.hear(crew.left)
    assert crew.left == [Left(lease)]
    while crew.executor.lingering():
        crew.hear_the_bell()
    assert crew.steps() == ["prepared", "inside"]
    assert (crew.done, crew.failed, crew.released) == ([], [], [])
    crew.give("noop", 5)
    crew.until(1)


def test_a_block_that_raises_is_told_with_its_error(crew: ProcessCrew) -> None:
    told = crew.told()
    (lease,) = crew.give("commits", told)
    crew.hear(crew.early)
    crew.executor.answer(lease, "")
    assert hear(told["inside"])
    say(told["go"], "raise")
    crew.hear(crew.left)
    assert crew.left == [Left(lease, "OSError: the printer is on fire")]


def test_a_commit_that_is_not_accepted_raises_before_the_block(crew: ProcessCrew) -> None:
    told = crew.told()
    (lease,) = crew.give("commits", told)
    crew.hear(crew.early)
    crew.executor.answer(lease, "duplicate: attempt 2 has committed")
    assert "duplicate: attempt 2 has committed" in hear(told["inside"])
    while crew.executor.lingering():
        crew.hear_the_bell()
    assert crew.steps() == ["prepared"]
    assert (crew.done, crew.failed) == ([], [])


def test_a_child_that_is_killed_in_its_block_tells_by_its_death(crew: ProcessCrew) -> None:
    told = crew.told()
    (lease,) = crew.give("commits", told)
    crew.hear(crew.early)
    crew.executor.answer(lease, "")
    os.kill(int(hear(told["inside"])), signal.SIGKILL)
    crew.hear(crew.left)
    assert crew.left[0].lease_id == lease
    assert "was killed (SIGKILL)" in crew.left[0].error
    assert (crew.done, crew.failed, crew.released) == ([], [], [])
    crew.give("noop", 5)
    crew.until(1)
    assert crew.results() == [5]


def test_a_child_that_dies_before_the_verdict_has_not_begun_its_block(
    crew: ProcessCrew,
) -> None:
    told = {"begun": crew.pipe("begun"), "ran": str(crew.path("ran"))}
    (lease,) = crew.give("waits_for_its_verdict", told)
    pid = int(hear(told["begun"]))
    # It has asked, and nobody answers before its end.
    crew.hear(crew.early)
    os.kill(pid, signal.SIGALRM)
    crew.hear(crew.left)
    assert [done.lease_id for done in crew.early] == [lease]
    assert "SIGALRM" in crew.left[0].error
    crew.executor.answer(lease, "")
    assert not crew.path("ran").exists()


def test_what_was_given_with_it_does_not_wait_behind_a_block(tmp_path: Path) -> None:
    crew = ProcessCrew(tmp_path, slots=2)
    try:
        crew.give("noop", 0, slot=1)
        crew.until(1)
        told = crew.told()
        first = crew.give("commits", told)
        crew.hear(crew.early)
        crew.give("noop", 1, 2, 3)
        crew.until(4)
        assert sorted(crew.results()) == [0, 1, 2, 3]
        assert [attempt.lease_id for attempt in crew.executor.lingering()] == first
    finally:
        crew.executor.close(0)


def test_a_worker_that_closes_ends_the_block_and_says_so(crew: ProcessCrew) -> None:
    told = crew.told()
    (lease,) = crew.give("commits", told)
    crew.hear(crew.early)
    crew.executor.answer(lease, "")
    pid = int(hear(told["inside"]))
    harvest = crew.executor.close(0)
    assert [left.lease_id for left in harvest.left] == [lease]
    assert (harvest.done, harvest.failed, harvest.released) == ([], [], [])
    assert not psutil.pid_exists(pid)


# The end it is asked for.


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[ProcessCrew]:
    """One whose children have as long as a test may take."""
    crew = ProcessCrew(tmp_path, kill_grace_ms=PATIENCE_S * 1_000)
    yield crew
    crew.executor.close(0)


def looking(crew: ProcessCrew, then: str) -> tuple[LeaseId, dict[str, str], int]:
    told = {"begun": crew.pipe("begun"), "stopped": crew.pipe("stopped"), "then": then}
    (lease,) = crew.give("looks", told)
    return lease, told, int(hear(told["begun"]))


def test_a_task_that_looks_is_told_to_stop_and_ends_by_itself(patient: ProcessCrew) -> None:
    lease, told, pid = looking(patient, "return")
    patient.executor.stop(lease)
    assert hear(told["stopped"]) == "told"
    with suppress(psutil.NoSuchProcess):
        # It may end between any two looks at it.
        psutil.Process(pid).wait(PATIENCE_S)
    patient.give("noop", 5)
    patient.until(1)
    assert patient.results() == [5]


def test_a_result_it_comes_to_after_it_was_asked_counts_where_it_is_wanted(
    patient: ProcessCrew,
) -> None:
    lease, told, _ = looking(patient, "return")
    patient.executor.cut_off(lease, PATIENCE_S * 1_000)
    assert hear(told["stopped"]) == "told"
    patient.until(1)
    assert patient.results() == ["whole"]


def test_one_that_raises_after_it_was_asked_is_given_back(patient: ProcessCrew) -> None:
    lease, told, _ = looking(patient, "raise")
    patient.executor.cut_off(lease, PATIENCE_S * 1_000)
    assert hear(told["stopped"]) == "told"
    patient.until(1)
    assert [(back.lease_id, back.started) for back in patient.released] == [(lease, True)]
    assert patient.failed == []


def test_a_task_that_never_looks_ends_at_once(patient: ProcessCrew) -> None:
    pipe = patient.pipe("begun")
    (lease,) = patient.give("never_looks", pipe)
    pid = int(hear(pipe))
    patient.executor.stop(lease)
    while patient.executor.lingering():
        patient.hear_the_bell()
    assert not psutil.pid_exists(pid)


def test_one_that_looked_does_not_protect_the_next(patient: ProcessCrew) -> None:
    patient.give("looks_once", 0)
    patient.until(1)
    pipe = patient.pipe("second")
    (second,) = patient.give("never_looks", pipe)
    assert int(hear(pipe)) == patient.results()[0]
    patient.executor.stop(second)
    while patient.executor.lingering():
        patient.hear_the_bell()
