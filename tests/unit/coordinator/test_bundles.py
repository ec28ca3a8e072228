"""Bundles come in whole or not at all, within a quota, and go when nobody needs them."""

import os
from pathlib import Path

import pytest

from holdfast.coordinator.bundles import (
    UNUSED_MS,
    Bundles,
)
from holdfast.coordinator.collecting import LOOK_MS, STEPS_A_TURN, Collector
from holdfast.core.ids import Instant, JobId, Position
from holdfast.core.job import Job
from holdfast.core.schedule import Definition, Schedule, Timing
from holdfast.core.spec import JobSpec
from holdfast.core.state import State
from holdfast.wire.contents import Unwelcome, new_digest


class Wall:
    def __init__(self) -> None:
        self.now = 1_800_000_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def bundles(tmp_path: Path, wall: Wall) -> Bundles:
    return opened(tmp_path, wall)


def opened(tmp_path: Path, wall: Wall, *, largest: int = 100, quota: int = 250) -> Bundles:
    return Bundles(tmp_path / "bundles", wall, largest_bytes=largest, quota_bytes=quota)


def digest_of(content: bytes) -> str:
    digest = new_digest()
    digest.update(content)
    return digest.hexdigest()


def bring(bundles: Bundles, content: bytes, digest: str | None = None) -> str:
    digest = digest or digest_of(content)
    with bundles.arriving(digest) as arrival:
        bundles.expect(arrival, len(content))
        arrival.write(content)
        arrival.seal()
        bundles.admit(arrival)
        bundles.settle(arrival)
    return digest


def test_what_was_brought_is_there_also_after_a_restart(tmp_path: Path, wall: Wall):
    first = opened(tmp_path, wall)
    digest = bring(first, b"code")
    for store in (first, opened(tmp_path, wall)):
        assert store.ask_for(digest) == 4
        assert store.path_of(digest).read_bytes() == b"code"
        assert store.used_bytes == 4
        assert store.ask_for("0" * 64) is None


def test_nothing_is_made_on_the_disk_before_it_is_needed(tmp_path: Path, bundles: Bundles):
    assert bundles.ask_for("0" * 64) is None
    assert os.listdir(tmp_path) == []


def test_bytes_of_another_digest_are_unwelcome_and_leave_nothing(tmp_path: Path, bundles: Bundles):
    with pytest.raises(Unwelcome, match="the digest of what came"):
        bring(bundles, b"code", "0" * 64)
    assert os.listdir(tmp_path / "bundles") == []
    assert bundles.used_bytes == 0


def test_a_bundle_too_large_is_unwelcome(bundles: Bundles):
    bring(bundles, b"x" * 100)
    with pytest.raises(Unwelcome, match="at most 100") as no:
        bring(bundles, b"y" * 101)
    assert no.value.is_too_large


def test_all_together_stay_within_the_quota_those_on_their_way_included(bundles: Bundles):
    bring(bundles, b"a" * 100)
    with bundles.arriving("2" * 64) as two:
        with bundles.arriving("1" * 64) as one:
            bundles.expect(one, 90)
            bundles.expect(two, 60)
            with pytest.raises(Unwelcome, match="all bundles together") as no:
                bundles.expect(two, 1)
            assert no.value.is_too_large
        bundles.expect(two, 40)
    assert bundles.used_bytes == 100


def test_bringing_it_again_is_no_second_one(bundles: Bundles):
    digest = bring(bundles, b"a" * 100)
    assert bring(bundles, b"a" * 100) == digest
    assert len(bundles) == 1
    assert bundles.used_bytes == 100


def test_what_a_crash_left_half_way_is_gone_at_the_next_start(tmp_path: Path, wall: Wall):
    first = opened(tmp_path, wall)
    digest = bring(first, b"kept")
    (tmp_path / "bundles" / f".arriving-{digest}-9").write_bytes(b"half")
    first.drop([bring(first, b"dropped")])
    (tmp_path / "bundles" / "notes.txt").write_text("somebody's")
    second = opened(tmp_path, wall)
    assert sorted(os.listdir(tmp_path / "bundles")) == sorted([digest, "notes.txt"])
    assert len(second) == 1


def state_with(*bundles: str) -> State:
    state = State()
    for number, bundle in enumerate(bundles, start=1):
        spec = JobSpec(name="j", kind="command", target="true", bundle=bundle)
        job_id = JobId(str(number))
        state.jobs[job_id] = a_job(job_id, spec)
    return state


def a_job(job_id: JobId, spec: JobSpec) -> Job:
    return Job(
        job_id=job_id,
        position=Position(1),
        created_at=Instant(0),
        updated_at=Instant(0),
        states=bytearray(),
        payloads=None,
        spec=spec,
    )


def removed(paths: list[Path]) -> None:
    for path in paths:
        path.unlink()


def test_only_what_no_job_refers_to_and_nobody_asked_for_in_a_day_goes(
    tmp_path: Path, bundles: Bundles, wall: Wall
):
    needed, idle, asked = (bring(bundles, name) for name in (b"needed", b"idle", b"asked"))
    collector = Collector(bundles, state_with("", needed), removed)
    collector.step(Instant(1))
    wall.now += UNUSED_MS
    assert bundles.ask_for(asked) is not None
    collector.step(Instant(2))
    assert bundles.ask_for(idle) is not None, "it was not time to look"
    wall.now += UNUSED_MS
    assert bundles.ask_for(asked) is not None
    collector.step(Instant(1 + LOOK_MS))
    assert sorted(os.listdir(tmp_path / "bundles")) == sorted([needed, asked])
    assert bundles.ask_for(idle) is None
    assert bundles.used_bytes == len(b"neededasked")


def test_many_jobs_are_looked_at_in_parts_and_asking_meanwhile_counts(bundles: Bundles, wall: Wall):
    first, second, last = (bring(bundles, name) for name in (b"first", b"second", b"last"))
    wall.now += UNUSED_MS
    state = state_with(*([""] * (2 * STEPS_A_TURN)), last)
    collector = Collector(bundles, state, removed)
    collector.step(Instant(1))
    assert collector.next_due() == Instant(1)
    # A job that needs the first is submitted: it asks for it.
    assert bundles.ask_for(first) is not None
    collector.step(Instant(2))
    collector.step(Instant(3))
    assert collector.next_due() > Instant(3)
    assert [bundles.ask_for(digest) is None for digest in (first, second, last)] == [
        False, True, False,
    ]  # fmt: skip


def test_a_schedule_keeps_its_code_for_runs_that_are_still_to_come(bundles: Bundles, wall: Wall):
    needed = bring(bundles, b"code")
    wall.now += UNUSED_MS
    state = State()
    spec = JobSpec(name="n", kind="k", target="t", bundle=needed)
    definition = Definition(timing=Timing(every_ms=1_000), spec=spec, count=1)
    state.schedules["s"] = Schedule(
        name="s", definition=definition, created_at=Instant(1), updated_at=Instant(1)
    )
    collector = Collector(bundles, state, removed)
    collector.step(Instant(1))
    assert bundles.ask_for(needed) is not None
    wall.now += UNUSED_MS
    del state.schedules["s"]
    collector.step(Instant(1 + LOOK_MS))
    assert bundles.ask_for(needed) is None


def test_the_age_of_a_bundle_survives_a_restart(tmp_path: Path, wall: Wall):
    first = opened(tmp_path, wall)
    digest = bring(first, b"old")
    os.utime(first.path_of(digest), (0, (wall.now - UNUSED_MS) // 1000))
    assert opened(tmp_path, wall).look().result() == {bytes.fromhex(digest)}


def test_one_that_comes_again_while_its_old_file_is_being_removed_stays(
    tmp_path: Path, bundles: Bundles
):
    digest = bring(bundles, b"code")
    left = bundles.drop([digest])
    assert bundles.ask_for(digest) is None
    bring(bundles, b"code")
    removed(left)
    assert bundles.path_of(digest).read_bytes() == b"code"


def test_a_digest_is_computed_by_the_store_itself(bundles: Bundles):
    with bundles.arriving(digest_of(b"ab")) as arrival:
        for piece in (b"a", b"", b"b"):
            bundles.expect(arrival, len(piece))
            arrival.write(piece)
        arrival.seal()
        assert bundles.admit(arrival)
    assert bundles.path_of(arrival.digest).read_bytes() == b"ab"
