"""One request about many, with a real coordinator in this program: done, and taken back."""

import threading
from pathlib import Path

import pytest

import holdfast
from holdfast import task
from holdfast.errors import Refused

PATIENCE_S = 60
mended = threading.Event()


@task
def square(n: int) -> int:
    return n * n


@task(retries=0)
def breaks(n: int) -> int:
    if not mended.is_set():
        raise RuntimeError("broken")
    return n


def test_what_was_cancelled_before_it_began_is_undone_and_brings_its_results(
    tmp_path: Path,
) -> None:
    with holdfast.open(tmp_path / "state", workers=1, grace=0) as hf:
        later = [hf.submit(square, n, delay="1h", name="later") for n in range(3)]
        mapped = hf.map(square, range(50), name="mapped")
        assert sum(mapped.results()) == sum(n * n for n in range(50))
        found = hf.preview("cancel_jobs", name="la*")
        assert (found.jobs, found.tasks, found.sample) == (3, 3, ["1", "2", "3"])
        done = hf.perform("cancel_jobs", name="la*", reason="wrong day")
        assert (done.state, done.outcomes) == ("DONE", {"jobs": 3, "tasks": 3})
        undone = hf.undo(done, "right day after all")
        assert undone.outcomes == {"jobs": 3, "tasks": 3}
        moved = hf.perform("reschedule_tasks", "1", "2-3")
        assert moved.outcomes == {"jobs": 3, "tasks": 3}
        assert [each.result(timeout=PATIENCE_S) for each in later] == [0, 1, 4]
        late = hf.undo(moved)
        assert late.outcomes == {"started": 3}
        assert [each.id for each in hf.operations()] == [late.id, moved.id, undone.id, done.id]
        with pytest.raises(Refused, match="undone before"):
            hf.undo(done)


def test_what_was_retried_and_has_not_begun_goes_back_to_quarantine(tmp_path: Path) -> None:
    mended.clear()
    with holdfast.open(tmp_path / "state", workers=1, grace=0) as hf:
        job = hf.map(breaks, range(5), name="broken")
        job.wait(timeout=PATIENCE_S)
        hf.set_limit("namespace/default", rate="1/1h")
        retried = hf.perform("retry_tasks", state="quarantined")
        assert retried.outcomes == {"jobs": 1, "tasks": 5}
        mended.set()
        undone = hf.undo(retried)
        assert undone.outcomes["tasks"] + undone.outcomes.get("started", 0) == 5
        assert undone.outcomes["tasks"] >= 4
        hf.clear_limit("namespace/default")
        again = hf.perform("retry_jobs", "all")
        assert again.outcomes["tasks"] >= 4
        assert sum(job.results()) == 10


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "state", workers=1, grace=0) as hf:
        with pytest.raises(ValueError, match="none of"):
            hf.perform("dance", "all")
        with pytest.raises(Refused, match="say which"):
            hf.perform("cancel_jobs")
        with pytest.raises(Refused, match="no job 77"):
            hf.preview("cancel_jobs", "77")
        with pytest.raises(Refused, match="no operation"):
            hf.operation("op-1")
