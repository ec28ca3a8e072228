"""What the log in files promises beyond the contract of every log."""

import errno
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree
from threading import Event, Thread

import pytest

from holdfast.core.errors import BrokenInvariant, LogFailed, OperatingError
from holdfast.testing.disks import FaultyDisk
from holdfast.testing.logs import (
    DATA,
    SEGMENT_BYTES,
    WAL,
    long_log,
    open_log,
    put,
    records_of,
    segments_of,
    syncs_of,
)
from holdfast.wal import FileLog, HistoryGone, read_folder, write_kept, write_snapshot

MIB = 1024 * 1024
ARCHIVE = Path("/archive")


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


def test_dropping_needs_a_snapshot_that_stands_for_what_goes() -> None:
    disk, log = long_log()
    before = segments_of(disk)
    with pytest.raises(BrokenInvariant, match="no snapshot"):
        log.drop_segments(40)
    assert segments_of(disk) == before
    assert log.oldest == 1


def test_dropped_segments_can_be_archived() -> None:
    disk, log = long_log()
    before = {path.name: disk.content(path) for path in segments_of(disk)}
    write_snapshot(disk, DATA, log.last, log.head, log.log_id, [b"s"], b"")
    log.drop_segments(40, archive=Path("/archive/old"))
    moved = [path for path in disk.files() if path.parent == Path("/archive/old")]
    assert moved
    assert all(disk.content(path) == before[path.name] for path in moved)
    assert not {path.name for path in moved} & {
        path.name for path in disk.files() if path.parent == WAL
    }


def test_segments_are_copied_to_an_archive_on_another_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk, log = long_log()
    before = {path.name: disk.content(path) for path in segments_of(disk)}
    write_snapshot(disk, DATA, log.last, log.head, log.log_id, [b"s"], b"")
    rename = disk.rename

    def across(source: Path, target: Path) -> None:
        if source.parent != target.parent:
            raise OSError(errno.EXDEV, "another disk")
        rename(source, target)

    monkeypatch.setattr(disk, "rename", across)
    log.drop_segments(40, archive=Path("/archive"))
    moved = [path for path in disk.files() if path.parent == Path("/archive")]
    assert moved
    assert all(disk.content(path) == before[path.name] for path in moved)


class NoArchive(FaultyDisk):
    """Nothing can be put into the archive: it is another's, another disk and full, or broken."""

    def __init__(self, code: int) -> None:
        super().__init__()
        self.code = code

    def rename(self, source: Path, target: Path) -> None:
        if target.parent == ARCHIVE and source.parent != ARCHIVE:
            raise OSError(errno.EXDEV if self.code == errno.ENOSPC else self.code, "no")
        super().rename(source, target)

    def pwrite(self, fd: int, content: bytes, offset: int) -> int:
        if self._of(fd).path.parent == ARCHIVE:
            raise OSError(self.code, "no")
        return super().pwrite(fd, content, offset)


@pytest.mark.parametrize("code", [errno.EACCES, errno.ENOSPC, errno.EROFS])
def test_an_archive_that_takes_nothing_harms_nothing(code: int) -> None:
    disk, log = long_log(disk=NoArchive(code))
    write_snapshot(disk, DATA, log.last, log.head, log.log_id, [b"s"], b"")
    before = segments_of(disk)
    with pytest.raises(OperatingError, match="stays where it is") as refused:
        log.drop_segments(40, archive=ARCHIVE)
    assert not isinstance(refused.value, LogFailed)
    assert segments_of(disk) == before
    assert len(records_of(log)) == 60
    put(log, b"the log goes on")
    log.drop_segments(40)
    assert 1 < log.oldest <= 40


def test_a_segment_of_another_log_in_the_archive_is_not_overwritten() -> None:
    disk, log = long_log()
    write_snapshot(disk, DATA, log.last, log.head, log.log_id, [b"s"], b"")
    _, other = long_log()
    first = segments_of(disk)[0]
    theirs = other._disk.content(first)  # type: ignore[attr-defined]
    disk.plant(ARCHIVE / first.name, theirs)
    with pytest.raises(OperatingError, match="archive of its own"):
        log.drop_segments(40, archive=ARCHIVE)
    assert disk.content(ARCHIVE / first.name) == theirs
    assert log.oldest == 1
    # The very same segment is there when we died before the original was deleted.
    disk.plant(ARCHIVE / first.name, disk.content(first))
    log.drop_segments(40, archive=ARCHIVE)
    assert log.oldest > 1


def test_a_large_archive_does_not_hold_up_the_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, log = long_log()
    write_snapshot(disk, DATA, log.last, log.head, log.log_id, [b"s"], b"")
    rename = disk.rename

    def across(source: Path, target: Path) -> None:
        if source.parent != target.parent:
            # Somebody appends in the middle of it, and a new segment is begun.
            writer = Thread(target=put, args=(log, b"x" * 5000))
            writer.start()
            writer.join(60)
            assert not writer.is_alive()
            raise OSError(errno.EXDEV, "another disk")
        rename(source, target)

    monkeypatch.setattr(disk, "rename", across)
    before = log.last
    log.drop_segments(40, archive=ARCHIVE)
    assert log.last > before
    assert records_of(log, log.last) == [b"x" * 5000]
    disk.restart()
    assert records_of(open_log(disk), log.last) == [b"x" * 5000]


def test_a_kept_record_is_found_though_its_segment_goes_while_it_is_looked_for() -> None:
    disk, log = long_log()
    write_snapshot(disk, DATA, log.last, log.head, log.log_id, [b"s"], b"")
    write_kept(disk, DATA, log.last, [(3, 0, 0, 1, b"kept")])
    stale = read_folder(DATA, disk=disk)
    opening = disk.open

    def dropping(path: Path, *, write: bool = False, create: bool = False) -> int:
        if path == segments_of(disk)[0]:
            disk.open = opening  # type: ignore[method-assign]
            log.drop_segments(40)
        return opening(path, write=write, create=create)

    disk.open = dropping  # type: ignore[method-assign]
    assert log.record(3)[1] == b"kept"
    assert log.oldest > 3
    assert stale.oldest == 1
    assert stale.record(3)[1] == b"kept"
    with pytest.raises(HistoryGone) as gone:
        stale.record(2)
    assert gone.value.oldest > 3


def test_kept_records_outlive_their_segment() -> None:
    disk, log = long_log()
    frame, record = log.record(3)
    write_snapshot(disk, DATA, log.last, log.head, log.log_id, [b"s"], b"")
    write_kept(disk, DATA, log.last, [(3, frame.at, frame.wall, frame.epoch, record)])
    log.drop_segments(40)
    assert log.oldest > 3
    kept, content = log.record(3)
    assert content == record
    assert (kept.first, kept.last, kept.chain) == (3, 3, b"")
    with pytest.raises(HistoryGone):
        log.record(2)
    disk.restart()
    assert open_log(disk).record(3)[1] == record


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
