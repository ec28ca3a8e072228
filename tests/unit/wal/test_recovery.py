"""What opening makes of a folder: what is torn is put aside, what is damaged is refused."""

import errno
from pathlib import Path
from random import Random

import pytest

from holdfast.core.errors import LogFailed
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
from holdfast.wal import FileLog, LogDamaged, write_snapshot
from holdfast.wal.segments import SEGMENT_HEADER_BYTES, decode_header, segment_name


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


def test_what_an_opening_showed_counts_as_acknowledged() -> None:
    disk = FaultyDisk()
    log = open_log(disk)
    put(log, b"a")
    end = log._segment.end
    put(log, b"b")
    disk.restart()
    path = open_log(disk)._segment.path
    content = disk.content(path)
    disk.restart()
    disk.plant(path, content[:end] + bytes(len(content) - end))
    with pytest.raises(LogDamaged, match="position 2 was acknowledged"):
        open_log(disk)


def test_a_gap_names_the_segment_that_ends_too_early() -> None:
    disk, log = long_log()
    log.close()
    paths = segments_of(disk)
    end = log._history.segments[1].end
    disk.unlink(paths[2])
    with pytest.raises(LogDamaged) as damaged:
        open_log(disk)
    assert (damaged.value.file, damaged.value.offset) == (paths[1], end)


def test_a_segment_from_another_history_of_the_same_log_is_named() -> None:
    disks, second = [], Path()
    for filler in (b"x", b"y"):
        disk = FaultyDisk()
        log = FileLog.open(DATA, disk=disk, segment_bytes=SEGMENT_BYTES, new_id=b"twin" * 4)
        for _ in range(3):
            put(log, filler * 3000)
        second = segments_of(disk)[1]
        disk.restart()
        disks.append(disk)
    disks[0].plant(second, disks[1].content(second))
    with pytest.raises(LogDamaged, match="does not continue") as damaged:
        open_log(disks[0])
    assert damaged.value.file == second


def test_a_segment_of_an_earlier_epoch_than_the_one_before_it_is_damage() -> None:
    disk = FaultyDisk()
    for _ in range(3):
        log = open_log(disk)
        put(log, b"x" * 3000)
        log.close()
    path = segments_of(disk)[-1]
    content = disk.content(path)
    header = decode_header(path, content)
    assert header.epoch == 3
    disk.plant(path, header._replace(epoch=1).encode() + content[SEGMENT_HEADER_BYTES:])
    with pytest.raises(LogDamaged, match="does not continue"):
        open_log(disk)


def test_a_segment_that_is_not_what_its_name_says_is_damage() -> None:
    disk = FaultyDisk()
    log = open_log(disk)
    log.close()
    disk.plant(WAL / segment_name(5), disk.content(WAL / segment_name(1)))
    with pytest.raises(LogDamaged, match="not as it is named"):
        open_log(disk)


def test_a_hint_whose_sync_failed_half_way_is_made_whole_before_the_other_is_touched() -> None:
    """Else a power cut at that moment would leave neither copy."""
    disk = FaultyDisk()
    log = open_log(disk)
    put(log, b"a")
    disk.tear_failed_sync = True
    disk.fail_sync_at = syncs_of(disk) + 1
    with pytest.raises(LogFailed, match="hint"):
        log.note_idle()
    disk.restart()
    disk.fail_sync_at = None
    pictures: list[FaultyDisk] = []

    def take(name: str, path: Path) -> None:
        if path.name == "acked":
            pictures.extend(disk.image(Random(number)) for number in range(40))

    disk.on_operation = take
    open_log(disk)
    assert len(pictures) >= 160
    for picture in pictures:
        assert records_of(open_log(picture)) == [b"a"]


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
    order: list[str] = []
    disk.on_operation = lambda name, path: order.append(f"{name} {path.name}")
    again = open_log(disk)
    torn = again.torn
    # The copy is safe before anything is cut.
    cut = order.index(f"pwrite {path.name}")
    assert order[cut - 2 : cut] == ["fsync torn-2-1", "fsync_dir wal"]
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


def test_a_folder_that_cannot_be_opened_says_why_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk, log = long_log()
    log.close()

    def denied(fd: int, size: int, offset: int) -> bytes:
        raise PermissionError(errno.EACCES, "not yours")

    monkeypatch.setattr(disk, "pread", denied)
    with pytest.raises(LogFailed, match=r"not yours.*\d{20}\.seg.*holdfast log verify"):
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
