"""The store of results: here before it is referred to, and gone when nothing refers to it."""

import os
import threading
from pathlib import Path

import pytest

from holdfast.coordinator.collecting import LOOK_MS, PATIENCE_MS, Collector
from holdfast.coordinator.results import UNUSED_MS, Results
from holdfast.core.ids import Index, Instant, JobId, Position
from holdfast.core.job import Job
from holdfast.core.owed import Stored
from holdfast.core.spec import JobSpec
from holdfast.core.state import State
from holdfast.wire.contents import Unwelcome

SPEC = JobSpec(name="j", kind="function", target="m:f")
PATIENCE_S = 30


class Wall:
    def __init__(self) -> None:
        self.now = 4_000_000_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def results(tmp_path: Path, wall: Wall) -> Results:
    return Results(tmp_path, wall, largest_bytes=100)


def bring(results: Results, content: bytes) -> Stored:
    stored = results.contents.keep(content)
    assert results.has(stored), "its hour begins by the clock of the test"
    return stored


def path_of(results: Results, stored: Stored) -> Path:
    return results.contents.path_of(stored.digest.hex())


def state_with(*referred: Stored) -> State:
    state = State()
    job = Job(
        job_id=JobId("1"),
        position=Position(1),
        created_at=Instant(0),
        updated_at=Instant(0),
        states=bytearray(),
        payloads=None,
        spec=SPEC,
    )
    state.jobs[job.job_id] = job
    for index, stored in enumerate(referred):
        state.remember_stored(job, Index(index), stored)
    return state


def removed(paths: list[Path]) -> None:
    for path in paths:
        path.unlink()


def collect(collector: Collector, results: Results, at: int) -> None:
    """Step until a look is over, however long the disk takes. What was found is waited for."""
    looking = results.look
    found = threading.Event()

    def look():
        future = looking()
        future.add_done_callback(lambda _: found.set())
        return future

    results.look = look  # type: ignore[method-assign]
    now = at
    collector.step(Instant(now))
    assert found.wait(PATIENCE_S)
    while collector.next_due() <= now + PATIENCE_MS:
        now += PATIENCE_MS
        collector.step(Instant(now))
    results.look = looking  # type: ignore[method-assign]


def test_a_result_is_here_when_it_is_as_large_as_it_should_be(results: Results):
    stored = bring(results, b"content")
    assert results.ask_for(stored.digest.hex()) == 7
    assert not results.has(Stored(stored.digest, 8))
    assert not results.has(Stored(b"\0" * 32, 7))
    os.truncate(path_of(results, stored), 3)
    assert not results.has(stored)


def test_one_too_large_is_unwelcome(results: Results):
    with results.arriving("0" * 64) as arrival:
        results.expect(arrival, 100)
        with pytest.raises(Unwelcome, match="at most 100 bytes") as no:
            results.expect(arrival, 1)
    assert no.value.is_too_large


def test_only_what_no_job_refers_to_and_is_an_hour_old_goes(results: Results, wall: Wall):
    needed, idle = bring(results, b"needed"), bring(results, b"idle")
    collector = Collector(results, state_with(needed), removed)
    wall.now += UNUSED_MS - 1
    young = bring(results, b"young")
    collect(collector, results, 1)
    assert path_of(results, idle).exists()
    wall.now += 1
    collect(collector, results, 2 * LOOK_MS)
    assert [path_of(results, each).exists() for each in (needed, idle, young)] == [
        True, False, True,
    ]  # fmt: skip
    assert not list(results.contents.folder.glob(".*"))


def test_what_waits_for_the_rest_of_its_gang_stays(results: Results, wall: Wall):
    kept = bring(results, b"of a gang")
    results.in_hand = lambda: [kept]
    wall.now += UNUSED_MS
    collector = Collector(results, State(), removed)
    collect(collector, results, 1)
    assert path_of(results, kept).exists()
    results.in_hand = tuple
    collect(collector, results, 2 * LOOK_MS)
    assert not path_of(results, kept).exists()


def test_what_is_asked_for_while_it_is_about_to_go_stays(results: Results, wall: Wall):
    """Between the look and the removal a commit may refer to it, or a task bring it again."""
    asked, written, idle = (bring(results, each) for each in (b"asked", b"written", b"idle"))
    wall.now += UNUSED_MS
    digests = [each.digest for each in (asked, written, idle)]
    assert results.has(asked)
    os.utime(path_of(results, written), ns=(wall.now * 1_000_000,) * 2)
    left = results.collect(digests)
    assert len(left) == 1
    assert results.has(asked)
    assert results.has(written)
    assert not results.has(idle)


def test_very_many_go_a_part_at_a_time(results: Results, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("holdfast.coordinator.collecting.REMOVED_A_TURN", 3)
    for number in range(7):
        digest = number.to_bytes(32, "big").hex()
        path = results.contents.path_of(digest)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (1, 1))
    parts: list[int] = []
    collector = Collector(results, State(), lambda paths: parts.append(len(paths)))
    collect(collector, results, 1)
    assert parts == [3, 3, 1]


def test_what_is_nobodys_business_is_left_alone(results: Results, wall: Wall):
    bring(results, b"x")
    notes = results.contents.folder / "notes.txt"
    odd = results.contents.folder / "zz" / "odd"
    odd.parent.mkdir()
    for path in (notes, odd):
        path.write_text("somebody's")
        os.utime(path, (1, 1))
    collect(Collector(results, State(), removed), results, 1)
    assert notes.exists()
    assert odd.exists()


def test_nothing_is_made_on_the_disk_before_it_is_needed(
    tmp_path: Path, results: Results, wall: Wall
):
    assert results.ask_for("0" * 64) is None
    collect(Collector(results, State(), removed), results, 1)
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_read_is_looked_at_again_later(
    results: Results, monkeypatch: pytest.MonkeyPatch, wall: Wall
):
    idle = bring(results, b"idle")
    wall.now += UNUSED_MS
    collector = Collector(results, State(), removed)
    with monkeypatch.context() as broken:
        broken.setattr(os, "scandir", cannot)
        collect(collector, results, 1)
    assert path_of(results, idle).exists()
    collect(collector, results, 2 * LOOK_MS)
    assert not path_of(results, idle).exists()


def cannot(path: object) -> None:
    raise OSError(5, "Input/output error")


