"""What the log in files promises beyond the contract of every log."""

import errno
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree
from threading import Event, Thread

import pytest

from holdfast.core.errors import BrokenInvariant, LogFailed
from holdfast.testing.disks import FaultyDisk
from holdfast.testing.logs import (
    SEGMENT_BYTES,
    WAL,
    long_log,
    open_log,
    put,
    records_of,
    syncs_of,
)
from holdfast.wal import FileLog, HistoryGone, write_snapshot

MIB = 1024 * 1024


def test_segments_double_from_one_mebibyte_to_sixty_four(tmp_path: Path) -> None:
    log = FileLog.open(tmp_path)
    space = log._space
    assert log._segment.size == MIB
    sizes = [MIB]
    while len(sizes) < 9:
        sizes.append(space.size_after(sizes[-1]))
    assert [size // MIB for size in sizes] == [1, 2, 4, 8, 16, 32, 64, 64, 64]
    put(log, b"x" * (MIB - 8192))
    put(log, b"x" * 8192)
    assert log._segment.size == 2 * MIB
    assert log._segment.path.stat().st_size == 2 * MIB
    log.close()


def test_a_frame_larger_than_a_segment_gets_one_of_its_size() -> None:
    disk = FaultyDisk()
    log = open_log(disk)
    put(log, b"small")
    put(log, b"L" * 100_000)
    put(log, b"small again")
    disk.restart()
    assert records_of(open_log(disk)) == [b"small", b"L" * 100_000, b"small again"]


def test_space_prepared_too_small_for_a_large_frame_is_made_larger() -> None:
    disk = FaultyDisk()
    log = open_log(disk)
    assert log.prepare_next()
    put(log, b"L" * 100_000)
    assert records_of(log) == [b"L" * 100_000]


@pytest.mark.parametrize("size", [10, SEGMENT_BYTES, 100_000])
def test_whatever_lies_in_the_space_prepared_ahead_is_made_zero_and_of_the_right_size(
    size: int,
) -> None:
    disk = FaultyDisk()
    log = open_log(disk)
    disk.plant(WAL / "next.seg", b"g" * size)
    put(log, b"x" * 3900)
    put(log, b"y" * 3900)
    content = disk.content(log._segment.path)
    assert len(content) == SEGMENT_BYTES
    assert not content[log._segment.end :].strip(b"\0")
    disk.restart()
    assert open_log(disk).torn is None


def test_a_frame_beyond_the_cap_is_refused_and_nothing_happens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("holdfast.wal.frames.PAYLOAD_CAP", 1000)
    log = open_log(FaultyDisk())
    with pytest.raises(BrokenInvariant, match="cap"):
        log.append([bytes(1000)], at=0, wall=0)
    put(log, b"a")
    assert log.last == 1


def test_unused_space_is_really_zero_so_that_no_frame_needs_new_space() -> None:
    disk = FaultyDisk()
    log = open_log(disk)
    put(log, b"a")
    before = disk.used
    content = disk.content(log._segment.path)
    assert len(content) == SEGMENT_BYTES
    assert not content[log._segment.end :].strip(b"\0")
    put(log, b"b")
    assert disk.used == before


def test_one_record_costs_one_write_and_one_sync() -> None:
    disk = FaultyDisk()
    log = open_log(disk)
    put(log, b"a")
    before = disk.operations.copy()
    put(log, b"b")
    assert disk.operations - before == {"pwrite": 1, "fdatasync": 1}
    log.sync()
    assert disk.operations - before == {"pwrite": 1, "fdatasync": 1}


def test_a_repeated_idle_writes_nothing() -> None:
    disk = FaultyDisk()
    log = open_log(disk)
    put(log, b"a")
    log.note_idle()
    before = disk.operations.copy()
    log.note_idle()
    log.close()
    assert disk.operations == before


def test_a_closed_log_prepares_nothing_more() -> None:
    """Its zeros could fall on the frames of the next writer."""
    disk = FaultyDisk()
    log = open_log(disk)
    log.close()
    before = disk.operations.copy()
    assert not log.prepare_next()
    assert not log._space.prepare(0, 0)
    assert disk.operations == before


def test_closing_waits_for_a_preparation_under_way() -> None:
    disk = FaultyDisk()
    log = open_log(disk)
    closer = Thread(target=log.close)
    order: list[str] = []

    def close_meanwhile(name: str, path: Path) -> None:
        order.append(f"{name} {path.name}")
        if order == ["create next.seg"]:
            closer.start()
            while closer.is_alive() and not log._writing.locked():
                pass

    unlock = disk.unlock

    def unlocked(fd: int) -> None:
        unlock(fd)
        order.append("unlock")

    disk.on_operation = close_meanwhile
    disk.unlock = unlocked  # type: ignore[method-assign]
    log.prepare_next()
    closer.join()
    assert order[-1] == "unlock"


@pytest.mark.parametrize("fate", ["moved", "deleted", "replaced"])
@pytest.mark.parametrize(
    "deed",
    [
        lambda log: log.append([b"x" * 9000], at=0, wall=0),
        lambda log: log.prepare_next(),
        lambda log: log.note_idle(),
        lambda log: log.drop_segments(2),
    ],
    ids=["rotate", "prepare", "idle", "drop"],
)
def test_a_folder_that_is_gone_ends_the_log_and_whatever_took_its_place_is_left_alone(
    tmp_path: Path, fate: str, deed: Callable[[FileLog], object]
) -> None:
    folder, away = tmp_path / "state", tmp_path / "away"
    log = FileLog.open(folder, segment_bytes=SEGMENT_BYTES)
    put(log, b"a")
    folder.rename(away)
    if fate == "deleted":
        rmtree(away)
    if fate == "replaced":
        FileLog.open(folder, segment_bytes=SEGMENT_BYTES).close()
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(LogFailed, match="moved, deleted or replaced"):
        deed(log)
    log.close()
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    if fate != "deleted":
        again = FileLog.open(away, segment_bytes=SEGMENT_BYTES)
        assert records_of(again) == [b"a"]
        again.close()


def test_a_program_may_change_its_directory_while_the_log_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    log = FileLog.open("state", segment_bytes=SEGMENT_BYTES)
    monkeypatch.chdir(elsewhere)
    for _ in range(5):
        put(log, b"x" * 3000)
    assert records_of(log) == [b"x" * 3000] * 5
    log.close()
    assert list(elsewhere.iterdir()) == []


def test_a_failed_write_ends_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FaultyDisk()
    log = open_log(disk)
    put(log, b"a")

    def broken(fd: int, content: bytes, offset: int) -> int:
        raise OSError(errno.EIO, "broken")

    with monkeypatch.context() as patched:
        patched.setattr(disk, "pwrite", broken)
        with pytest.raises(LogFailed, match="could not be written"):
            log.append([b"b"], at=0, wall=0)
    with pytest.raises(LogFailed, match="takes nothing more"):
        log.append([b"b"], at=0, wall=0)
    assert not log.prepare_next()
    log.close()
    assert records_of(open_log(disk)) == [b"a"]


def test_a_close_whose_sync_fails_says_so_and_still_lets_the_folder_go() -> None:
    disk = FaultyDisk()
    log = open_log(disk)
    put(log, b"a")
    log.append([b"b"], at=0, wall=0)
    disk.fail_sync_at = syncs_of(disk) + 1
    with pytest.raises(LogFailed, match="sync failed"):
        log.close()
    log.close()
    with pytest.raises(LogFailed):
        log.append([b"c"], at=0, wall=0)
    assert records_of(open_log(disk))[:1] == [b"a"]


def test_an_opening_that_fails_leaves_no_descriptor_and_no_lock_behind() -> None:
    disk, log = long_log()
    log.close()
    total = syncs_of(disk)
    failures = 0
    for ahead in range(1, 12):
        disk.fail_sync_at = syncs_of(disk) + ahead
        try:
            open_log(disk).close()
        except LogFailed:
            failures += 1
        assert disk._opened == {}
        assert disk._locks == {}
    assert 4 <= failures < 11
    assert syncs_of(disk) > total


@pytest.mark.slow
def test_threads_read_while_the_writer_appends_rotates_and_drops(tmp_path: Path) -> None:
    log = FileLog.open(tmp_path, segment_bytes=SEGMENT_BYTES)
    put(log, b"0" * 100)
    done, faults, looks = Event(), list[str](), list[int]()

    def look() -> None:
        while not done.is_set():
            position = log.durable
            try:
                if log.record(position)[1] != b"%d" % (position - 1) * 100:
                    faults.append(f"position {position}")
                for frame in log.read(max(log.oldest, position - 20)):
                    if frame.records[0] != b"%d" % (frame.first - 1) * 100:
                        faults.append(f"frame {frame.first}")
            except HistoryGone:
                pass
            looks.append(position)

    readers = [Thread(target=look) for _ in range(2)]
    for reader in readers:
        reader.start()
    number = 0
    while number < 100 or len(looks) < 20:
        number += 1
        put(log, b"%d" % number * 100)
        if number % 40 == 0:
            write_snapshot(log._disk, tmp_path, log.last, log.head, log.log_id, [b"s"], b"")
            log.drop_segments(log.last)
    done.set()
    for reader in readers:
        reader.join()
    assert faults == []
    assert log.oldest > 1
    log.close()
