"""Space runs out at every byte: no half record survives, nothing acknowledged is lost.

Two kinds of full. A *budget* fails any write, also over existing bytes, as a file system that
copies on write may: that can hit the middle of a frame. A *capacity* fails only growth, as most do:
that can hit only the making of the next segment, and is backpressure.
"""

from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from holdfast.core.errors import LogFailed
from holdfast.testing.disks import FaultyDisk
from holdfast.wal import DiskFull, FileLog, write_kept, write_snapshot
from holdfast.wal.frames import HEADER_BYTES

DATA = Path("/data")
RECORDS = 50
SEGMENT_BYTES = 4096 * 4


def open_log(disk: FaultyDisk) -> FileLog:
    return FileLog.open(DATA, disk=disk, segment_bytes=SEGMENT_BYTES)


def records_of(log: FileLog) -> list[bytes]:
    return [record for frame in log.read() for record in frame.records]


def record(number: int) -> bytes:
    return bytes([33 + number]) * (number * 17 % 40 + 1)


@pytest.mark.parametrize("number", range(RECORDS))
def test_space_that_ends_at_any_byte_of_a_record_leaves_no_half_of_it(number: int) -> None:
    disk = FaultyDisk()
    log = open_log(disk)
    acked = [record(earlier) for earlier in range(number)]
    for earlier in acked:
        log.append([earlier], at=0, wall=0)
        log.sync()
    head = log.head
    # From here on there is not one byte to grow by, at every opening.
    disk.capacity = disk.used
    for budget in range(HEADER_BYTES + 4 + len(record(number))):
        disk.write_budget = budget
        with pytest.raises(LogFailed, match="could not be written"):
            log.append([record(number)], at=0, wall=0)
        assert log.last == log.durable == number
        disk.restart()
        disk.write_budget = None
        log = open_log(disk)
        # The chain stands for every record before it.
        assert (log.last, log.head) == (number, head)
        assert (log.torn is not None) == (budget > 0)
    log.append([record(number)], at=0, wall=0)
    log.sync()
    assert records_of(log) == [*acked, record(number)]


@pytest.mark.parametrize("part", range(8))
def test_space_that_ends_while_a_log_is_made_leaves_a_folder_that_can_become_one(
    part: int,
) -> None:
    disk = FaultyDisk()
    disk.write_budget = 1 << 40
    open_log(disk)
    needed = (1 << 40) - disk.write_budget
    for budget in range(part * 97, needed, 8 * 97):
        disk = FaultyDisk()
        disk.write_budget = budget
        with suppress(DiskFull, LogFailed):
            open_log(disk)
        disk.restart()
        disk.write_budget = None
        log = open_log(disk)
        log.append([b"a"], at=0, wall=0)
        assert log.sync() == 1


def full_but_for_the_segment(disk: FaultyDisk) -> tuple[FileLog, list[bytes]]:
    """A log whose segment is nearly used up, on a disk with no room for another."""
    log, acked = open_log(disk), []
    disk.capacity = disk.used + 1000
    while log._segment.end + 600 < log._segment.size:
        acked.append(b"x" * 500)
        log.append(acked[-1:], at=0, wall=0)
        log.sync()
    return log, acked


def test_a_full_disk_is_backpressure_before_anything_is_written() -> None:
    disk = FaultyDisk()
    log, acked = full_but_for_the_segment(disk)
    state = (log.last, log.durable, log.head)
    for _ in range(3):
        with pytest.raises(DiskFull, match="Free some space"):
            log.append([b"y" * 900], at=0, wall=0)
        assert log.pressure
        assert (log.last, log.durable, log.head) == state
    # What still fits goes on: completions are small.
    log.append([b"small"], at=0, wall=0)
    log.sync()
    disk.capacity = None
    assert log.prepare_next()
    assert not log.pressure
    log.append([b"y" * 900], at=0, wall=0)
    log.sync()
    assert records_of(log) == [*acked, b"small", b"y" * 900]


def test_a_half_made_segment_gives_its_space_back() -> None:
    disk = FaultyDisk()
    log, _ = full_but_for_the_segment(disk)
    before = disk.used
    assert not log.prepare_next()
    assert disk.used == before


def append_for_ever(log: FileLog, content: bytes) -> None:
    while True:
        log.append([content], at=0, wall=0)
        log.sync()


def test_where_a_segment_of_the_usual_size_does_not_fit_a_smaller_one_is_made() -> None:
    """A disk with many free megabytes is not full to a log that needs a few bytes."""
    disk = FaultyDisk()
    log = FileLog.open(DATA, disk=disk)
    while log._segment.end + 5000 < log._segment.size:
        log.append([b"x" * 4000], at=0, wall=0)
        log.sync()
    disk.capacity = disk.used + 300_000
    acked = log.last
    for _ in range(60):
        log.append([b"y" * 4000], at=0, wall=0)
        log.sync()
    assert log.pressure
    assert log._segment.size < 300_000
    with pytest.raises(DiskFull) as full:
        append_for_ever(log, b"y" * 4000)
    assert full.value.needed == 64 * 1024
    disk.capacity = None
    log.append([b"z"], at=0, wall=0)
    log.sync()
    log.append([b"z" * 5000], at=0, wall=0)
    log.sync()
    assert not log.pressure
    assert log._segment.size == 1024 * 1024
    disk.restart()
    again = FileLog.open(DATA, disk=disk)
    assert again.last == log.last > acked + 60


def test_the_next_segment_is_wanted_from_half_way_on() -> None:
    disk = FaultyDisk()
    log = open_log(disk)
    assert not log.wants_next
    while not log.wants_next:
        log.append([b"x" * 500], at=0, wall=0)
        log.sync()
    assert log._segment.size / 2 < log._segment.end < log._segment.size * 0.6
    assert log.prepare_next()
    assert not log.wants_next


def test_space_prepared_ahead_is_used_when_the_disk_is_full() -> None:
    disk = FaultyDisk()
    log = open_log(disk)
    assert log.prepare_next()
    disk.capacity = disk.used
    for _ in range(40):
        log.append([b"x" * 500], at=0, wall=0)
        log.sync()
    assert len(log._history.segments) == 2


def test_space_left_by_an_earlier_writer_is_used_when_the_disk_is_full() -> None:
    disk = FaultyDisk()
    log = open_log(disk)
    assert log.prepare_next()
    disk.restart()
    disk.capacity = disk.used
    log = open_log(disk)
    for _ in range(40):
        log.append([b"x" * 500], at=0, wall=0)
        log.sync()
    assert len(log._history.segments) == 2


def test_a_torn_tail_on_a_full_disk_is_cut_without_a_copy() -> None:
    disk = FaultyDisk()
    log = open_log(disk)
    log.append([b"a"], at=0, wall=0)
    log.sync()
    content = bytearray(disk.content(log._segment.path))
    content[log._segment.end + 10 : log._segment.end + 500] = b"t" * 490
    disk.restart()
    disk.plant(log._segment.path, bytes(content))
    disk.capacity = disk.used
    again = open_log(disk)
    assert again.torn is not None
    assert again.torn.kept is None
    assert records_of(again) == [b"a"]
    assert not any("torn" in path.name for path in disk.files())


def test_short_writes_make_whole_frames(dice: Random) -> None:
    disk = FaultyDisk()
    log = open_log(disk)
    wanted = [dice.randbytes(dice.randrange(2000)) for _ in range(30)]
    for content in wanted:
        disk.largest_write = dice.choice((1, 13, 512, None))
        log.append([content], at=0, wall=0)
        log.sync()
    disk.restart()
    disk.largest_write = None
    assert records_of(open_log(disk)) == wanted


def test_a_snapshot_without_room_is_refused_and_leaves_nothing_behind() -> None:
    disk = FaultyDisk()
    log = open_log(disk)
    log.append([b"a"], at=0, wall=0)
    log.sync()
    disk.capacity = disk.used + 100
    before = disk.files()
    with pytest.raises(DiskFull):
        write_snapshot(disk, DATA, 1, log.head, log.log_id, [b"s" * 5000], b"")
    with pytest.raises(DiskFull):
        write_kept(disk, DATA, 1, [(1, 0, 0, 1, b"k" * 5000)])
    assert disk.files() == before
