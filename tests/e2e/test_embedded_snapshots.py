"""Snapshots of a real folder, made by a real second process."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import task
from holdfast.client.holdfast import Holdfast
from holdfast.client.local import Local
from holdfast.coordinator.history import attempts_of
from holdfast.coordinator.inspect import look_into, open_folder
from holdfast.coordinator.recovery import recover
from holdfast.coordinator.settings import Settings
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.errors import LogFailed
from holdfast.core.freeze import fingerprint
from holdfast.core.ids import Index, JobId
from holdfast.testing import chores
from holdfast.wal import LogDamaged, read_folder
from holdfast.worker.threads import ThreadExecutor

PATIENCE_S = 60
NEVER_BYTES = 1 << 40
Open = Callable[..., Holdfast]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    folders: list[Holdfast] = []

    def open_one(**settings: Any) -> Holdfast:
        hf = Holdfast(Local(tmp_path / "state", ThreadExecutor, 1, Settings(**settings)), 0)
        folders.append(hf)
        return hf

    yield open_one
    for hf in folders:
        hf.close()


def snapshotter_of(hf: Holdfast) -> Any:
    return hf._backend._embedded.snapshotter


def installed(folder: Path) -> list[int]:
    return [
        event.at_position
        for told in look_into(folder).records()
        for event in told.record.events
        if isinstance(event, e.SnapshotInstalled)
    ]


def snapshots(folder: Path) -> list[Path]:
    return sorted((folder / "snapshots").glob("*.snap"))


def segments(folder: Path) -> list[str]:
    return sorted(p.name for p in (folder / "wal").glob("*.seg") if p.stem.isdigit())


def test_enough_log_makes_a_snapshot_by_itself_and_replay_agrees_with_it(
    opened: Open, tmp_path: Path
) -> None:
    folder = tmp_path / "state"
    hf = opened(snapshot_bytes=2_000)
    while snapshotter_of(hf)._thread is None:
        hf.submit(chores.square, 3).result(PATIENCE_S)
    snapshotter_of(hf)._thread.join(PATIENCE_S)
    hf.submit(chores.square, 4).result(PATIENCE_S)
    hf.close()
    (position,) = installed(folder)
    assert [int(path.stem) for path in snapshots(folder)] == [position]
    reader = read_folder(folder)
    by_snapshot, in_full = recover(reader, folder), recover(reader, None)
    assert by_snapshot.position > position
    assert fingerprint(by_snapshot) == fingerprint(in_full)
    assert list(opened().job("1").results()) == [9]


def fill(hf: Holdfast, count: int) -> list[str]:
    """So much work that the log needs several segments."""
    jobs = [hf.submit(chores.echo, "x" * 300_000) for _ in range(count)]
    return [job.id for job in jobs if len(job.result(PATIENCE_S)) == 300_000]


@pytest.mark.parametrize("archived", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_old_segments_go_and_the_results_of_kept_jobs_stay(
    opened: Open, tmp_path: Path, archived: bool
) -> None:
    folder, archive = tmp_path / "state", tmp_path / "archive"
    hf = opened(
        snapshot_bytes=NEVER_BYTES, history_bytes=0, archive=archive if archived else None
    )
    stubborn = task(retries=2, backoff="none")(chores.fail)
    failed = hf.submit(stubborn, 7)
    failed.exception(PATIENCE_S)
    jobs = fill(hf, 10)
    before = segments(folder)
    assert len(before) > 2
    for _ in range(2):
        # The last snapshot but one stays replayable, so segments go from the second on.
        assert snapshotter_of(hf).make() is not None
        jobs += fill(hf, 3)
    assert snapshotter_of(hf).make() is not None
    after = segments(folder)
    assert before[0] not in after
    assert (archive.exists() and any(archive.rglob(before[0]))) == archived
    assert len(hf.transactions(limit=10_000)) < hf.transactions(limit=1)[0].position
    for _ in range(3):
        # Nothing more is dropped, and the snapshots that kept these records go.
        fill(hf, 1)
        assert snapshotter_of(hf).make() is not None
    hf.close()
    again = opened()
    assert all(len(next(iter(again.job(job_id).results()))) == 300_000 for job_id in jobs)
    told = again.job(failed.id)
    reading = open_folder(folder)
    tried = attempts_of(reading, JobId(failed.id), Index(0))
    assert [view["attempt"] for view in tried] == [1, 2, 3]
    with pytest.raises(Exception, match="bad item 7"):
        list(told.results())
    assert len(snapshots(folder)) == 2


def test_what_earlier_openings_wrote_counts_towards_a_snapshot(
    opened: Open, tmp_path: Path
) -> None:
    """Else a program that never writes much at once would replay its whole log for ever."""
    hf = opened(snapshot_bytes=NEVER_BYTES)
    for number in range(20):
        hf.submit(chores.square, number).result(PATIENCE_S)
    written = hf._backend._embedded.coordinator.written
    hf.close()
    hf = opened(snapshot_bytes=written)
    hf.submit(chores.square, 1).result(PATIENCE_S)
    assert snapshotter_of(hf)._thread is not None
    snapshotter_of(hf)._thread.join(PATIENCE_S)
    hf.close()
    assert len(snapshots(tmp_path / "state")) == 1
    hf = opened(snapshot_bytes=written)
    hf.submit(chores.square, 1).result(PATIENCE_S)
    assert snapshotter_of(hf)._thread is None


@pytest.mark.slow
def test_an_archive_that_takes_nothing_is_told_and_harms_nothing(
    opened: Open, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, archive = tmp_path / "state", tmp_path / "archive"
    archive.write_text("not a folder")
    hf = opened(snapshot_bytes=NEVER_BYTES, history_bytes=0, archive=archive)
    fill(hf, 10)
    before = segments(folder)
    for _ in range(3):
        assert snapshotter_of(hf).make() is not None
        fill(hf, 1)
    assert "stays where it is" in caplog.text
    assert segments(folder)[: len(before)] == before
    assert len(snapshots(folder)) == 2
    archive.unlink()
    assert snapshotter_of(hf).make() is not None
    assert before[0] not in segments(folder)
    assert before[0] in [path.name for path in archive.iterdir()]


@pytest.mark.slow
def test_foreign_files_and_leftovers_beside_the_snapshots_are_no_trouble(
    opened: Open, tmp_path: Path
) -> None:
    folder = tmp_path / "state"
    hf = opened(snapshot_bytes=NEVER_BYTES, history_bytes=0)
    place = folder / "snapshots"
    place.mkdir()
    for name in ("old.snap", "z.snap", f"{1:020d}.tmp", f"{1:020d}.kept-tmp"):
        (place / name).write_text("what is this?")
    for _ in range(3):
        hf.submit(chores.square, 3).result(PATIENCE_S)
        assert snapshotter_of(hf).make() is not None
    names = sorted(path.name for path in place.iterdir() if path.suffix != ".kept")
    assert len(names) == 4
    assert names[2:] == ["old.snap", "z.snap"]
    hf.close()
    assert list(opened().job("1").results()) == [9]


def test_a_snapshot_that_cannot_be_recorded_leaves_nobody_waiting(opened: Open) -> None:
    embedded = opened()._backend._embedded
    nonsense: Any = "not a position"
    command = c.InstallSnapshot(at_position=nonsense, state_hash="")
    with pytest.raises(LogFailed):
        embedded._taken.install(embedded.engine.post, command)


def rot(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def test_history_goes_only_as_far_as_the_last_snapshot_but_one_can_do_without(
    opened: Open, tmp_path: Path
) -> None:
    folder = tmp_path / "state"
    hf = opened(snapshot_bytes=NEVER_BYTES, history_bytes=0)
    jobs = []
    for _ in range(3):
        newest = segments(folder)[-1]
        while segments(folder)[-1] == newest:
            jobs += fill(hf, 1)
        assert snapshotter_of(hf).make() is not None
    hf.close()
    assert look_into(folder).oldest > 1
    rot(snapshots(folder)[-1])
    again = opened()
    assert all(len(next(iter(again.job(job_id).results()))) == 300_000 for job_id in jobs)


def test_a_snapshot_that_rots_is_passed_over(
    opened: Open, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "state"
    hf = opened(snapshot_bytes=NEVER_BYTES)
    for number in range(2):
        hf.submit(chores.square, number).result(PATIENCE_S)
        assert snapshotter_of(hf).make() is not None
    hf.close()
    older, newest = snapshots(folder)
    rot(newest)
    hf = opened()
    assert list(hf.job("2").results()) == [1]
    assert older.exists()
    told = [line for line in map(vars, caplog.records) if line.get("event") == "snapshot_rejected"]
    assert newest.name in [line["file"] for line in told]


def test_a_folder_whose_snapshots_cannot_be_read_is_refused_in_words(
    opened: Open, tmp_path: Path
) -> None:
    folder = tmp_path / "state"
    hf = opened(snapshot_bytes=NEVER_BYTES, history_bytes=0)
    fill(hf, 8)
    for _ in range(3):
        assert snapshotter_of(hf).make() is not None
        fill(hf, 1)
    hf.close()
    assert look_into(folder).oldest > 1
    for path in snapshots(folder):
        path.unlink()
        path.mkdir()
    with pytest.raises(LogDamaged, match="no snapshot stands for it"):
        opened()


def a_program(path: Path, does: str) -> str:
    path.write_text(f"#!/bin/sh\n{does}\n")
    path.chmod(0o755)
    return str(path)


def test_a_second_process_that_is_killed_harms_nothing(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "state"
    hf = opened(snapshot_bytes=NEVER_BYTES)
    hf.submit(chores.square, 3).result(PATIENCE_S)
    with monkeypatch.context() as world:
        world.setattr(sys, "executable", a_program(tmp_path / "python", "kill -9 $$"))
        assert snapshotter_of(hf).make() is None
    assert "-9" in snapshotter_of(hf).last_error
    assert (installed(folder), snapshots(folder)) == ([], [])
    assert snapshotter_of(hf).make() is not None
    assert len(installed(folder)) == 1
    assert hf.submit(chores.square, 4).result(PATIENCE_S) == 16


def test_leaving_does_not_wait_for_a_snapshot_that_takes_for_ever(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An opening is enough for a snapshot, and the first one has to be this.
    monkeypatch.setattr(sys, "executable", a_program(tmp_path / "python", "exec sleep 3600"))
    hf = opened(snapshot_bytes=1)
    desk = snapshotter_of(hf)._desk
    while not desk.at_work:
        hf.submit(chores.square, 3).result(PATIENCE_S)
    (pid,) = desk.at_work
    snapshotter_of(hf).finish(0)
    assert not snapshotter_of(hf)._thread.is_alive()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
