"""What the log in files promises beyond the contract of every log."""

import errno
from pathlib import Path
from threading import Event, Thread

import pytest

from holdfast.core.errors import BrokenInvariant, LogFailed
from holdfast.testing.disks import FaultyDisk
from holdfast.wal import FileLog, HistoryGone, LogDamaged, write_kept, write_snapshot
from holdfast.wal.frames import PAYLOAD_CAP
from holdfast.wal.segments import SEGMENT_HEADER_BYTES, segment_name

DATA = Path("/data")
WAL = DATA / "wal"
SEGMENT_BYTES = 8192
MIB = 1024 * 1024


def open_log(disk: FaultyDisk, size: int | None = SEGMENT_BYTES) -> FileLog:
    return FileLog.open(DATA, disk=disk, segment_bytes=size)


def put(log: FileLog, *records: bytes) -> None:
    log.append(records, at=0, wall=0)
    log.sync()


def records_of(log: FileLog, position: int = 1) -> list[bytes]:
    return [record for frame in log.read(position) for record in frame.records]


def segments_of(disk: FaultyDisk) -> list[Path]:
    return [path for path in disk.files() if path.suffix == ".seg" and path.stem.isdigit()]


def long_log() -> tuple[FaultyDisk, FileLog]:
    """A log of several segments."""
    disk = FaultyDisk()
    log = open_log(disk)
    for number in range(60):
        put(log, b"%02d" % number * 100)
    assert len(segments_of(disk)) >= 4
    return disk, log


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


def test_a_frame_beyond_the_cap_is_refused_and_nothing_happens() -> None:
    log = open_log(FaultyDisk())
    with pytest.raises(BrokenInvariant, match="cap"):
        log.append([bytes(PAYLOAD_CAP)], at=0, wall=0)
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


def test_an_idle_log_remembers_what_it_acknowledged() -> None:
    disk = FaultyDisk()
    log = open_log(disk)
    put(log, b"a")
    end = log._segment.end
    put(log, b"b")
    log.note_idle()
    content = disk.content(log._segment.path)
    disk.restart()
    disk.plant(log._segment.path, content[:end] + bytes(len(content) - end))
    with pytest.raises(LogDamaged, match="position 2 was acknowledged"):
        open_log(disk)


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


@pytest.mark.parametrize("which", ["first", "middle", "last", "all"])
def test_a_missing_segment_is_damage(which: str) -> None:
    disk, log = long_log()
    log.close()
    paths = segments_of(disk)
    gone = {"first": paths[:1], "middle": paths[2:3], "last": paths[-1:], "all": paths}[which]
    for path in gone:
        disk.unlink(path)
    with pytest.raises(LogDamaged):
        open_log(disk)


def test_a_new_empty_segment_that_goes_missing_is_damage() -> None:
    """It held no record yet, but the hint knows that it was there."""
    disk, log = long_log()
    while log._segment.end + 3000 < log._segment.size:
        put(log, b"x" * 100)
    disk.fail_sync_at = None
    last = log._segment.path
    log._rotate(3000)
    fresh = log._segment.path
    assert fresh > last
    disk.restart()
    disk.unlink(fresh)
    with pytest.raises(LogDamaged, match="missing"):
        open_log(disk)


def test_a_missing_log_in_a_folder_that_had_one_is_damage() -> None:
    disk, log = long_log()
    log.close()
    for path in disk.files():
        if path.parent == WAL:
            disk.unlink(path)
    with pytest.raises(LogDamaged, match="held a log"):
        open_log(disk)


def test_a_missing_log_beside_a_snapshot_is_damage() -> None:
    disk, log = long_log()
    write_snapshot(disk, DATA, log.last, log.head, log.log_id, [b"s"], b"")
    log.close()
    for path in disk.files():
        if path.parent in (WAL, DATA):
            disk.unlink(path)
    with pytest.raises(LogDamaged, match="held a log"):
        open_log(disk)


def test_a_segment_of_another_log_is_damage() -> None:
    disk, log = long_log()
    log.close()
    other = FaultyDisk()
    stranger = open_log(other)
    put(stranger, b"x")
    disk.plant(segments_of(disk)[0], other.content(WAL / segment_name(1)))
    with pytest.raises(LogDamaged, match="another log"):
        open_log(disk)


def test_an_older_copy_of_the_newest_segment_is_damage() -> None:
    """A file brought back from a backup is shorter than what was acknowledged."""
    disk = FaultyDisk()
    log = open_log(disk)
    put(log, b"a")
    path, backup = log._segment.path, disk.content(log._segment.path)
    put(log, b"b")
    log.close()
    disk.plant(path, backup)
    with pytest.raises(LogDamaged, match="acknowledged"):
        open_log(disk)


def test_another_history_of_the_same_length_is_damage() -> None:
    identity = b"one and the same"
    contents = []
    for record in (b"a", b"b"):
        disk = FaultyDisk()
        log = FileLog.open(DATA, disk=disk, segment_bytes=SEGMENT_BYTES, new_id=identity)
        put(log, record)
        log.close()
        contents.append(disk.content(log._segment.path))
    disk.plant(WAL / segment_name(1), contents[0])
    with pytest.raises(LogDamaged, match="not the one that was acknowledged"):
        open_log(disk)


def test_files_that_are_not_ours_are_left_alone() -> None:
    disk = FaultyDisk()
    for name in ("notes.txt", "1.seg", "x" * 20 + ".seg", "٣" * 20 + ".seg"):
        disk.plant(WAL / name, b"mine")
    log = open_log(disk)
    put(log, b"a")
    log.close()
    log = open_log(disk)
    assert records_of(log) == [b"a"]
    assert disk.content(WAL / "notes.txt") == b"mine"


def test_a_torn_tail_is_kept_aside_and_reported() -> None:
    disk = FaultyDisk()
    log = open_log(disk)
    put(log, b"a")
    path, end = log._segment.path, log._segment.end
    content = bytearray(disk.content(path))
    content[end + 40 : end + 90] = b"h" * 50
    disk.restart()
    disk.plant(path, bytes(content))
    again = open_log(disk)
    torn = again.torn
    assert torn is not None
    assert (torn.position, torn.size, torn.segment, torn.offset) == (2, 90, path, end)
    assert torn.kept == WAL / "torn-2-1"
    assert disk.content(torn.kept) == bytes(40) + b"h" * 50
    assert not disk.content(path)[end:].strip(b"\0")
    disk.restart()
    assert open_log(disk).torn is None


def test_a_second_torn_tail_for_one_position_does_not_overwrite_the_first() -> None:
    disk = FaultyDisk()
    for number in (1, 2):
        log = open_log(disk)
        content = bytearray(disk.content(log._segment.path))
        content[log._segment.end] = number
        disk.restart()
        disk.plant(log._segment.path, bytes(content))
    open_log(disk)
    assert disk.content(WAL / "torn-1-1") == b"\1"
    assert disk.content(WAL / "torn-1-2") == b"\2"


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


def test_a_folder_that_cannot_be_opened_says_why_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk, log = long_log()
    log.close()

    def denied(fd: int, size: int, offset: int) -> bytes:
        raise PermissionError(errno.EACCES, "not yours")

    monkeypatch.setattr(disk, "pread", denied)
    with pytest.raises(LogFailed, match=r"not yours.*holdfast log verify"):
        open_log(disk)


def test_rot_met_while_reading_is_named_by_file_and_byte() -> None:
    disk, log = long_log()
    path = segments_of(disk)[1]
    content = bytearray(disk.content(path))
    content[SEGMENT_HEADER_BYTES + 300] ^= 1
    disk.plant(path, bytes(content))
    with pytest.raises(LogDamaged) as damaged:
        records_of(log)
    assert damaged.value.file == path
    assert SEGMENT_HEADER_BYTES <= damaged.value.offset <= SEGMENT_HEADER_BYTES + 300
    position = int(path.stem)
    with pytest.raises(LogDamaged):
        log.record(position + 1)


def test_a_segment_cut_short_under_a_reader_is_named() -> None:
    disk, log = long_log()
    path = segments_of(disk)[0]
    disk.plant(path, disk.content(path)[: SEGMENT_HEADER_BYTES + 700])
    with pytest.raises(LogDamaged, match="cut short"):
        records_of(log)


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
