"""Reading a live folder takes no lock, writes nothing and stops at the last complete frame."""

from pathlib import Path
from random import Random

import pytest

from holdfast.core.errors import BrokenInvariant
from holdfast.testing.disks import FaultyDisk
from holdfast.testing.logs import DATA, WAL, long_log, open_log, put, records_of
from holdfast.wal import FileLog, HistoryGone, LogDamaged, read_folder, write_kept, write_snapshot
from holdfast.wal.recovery import Clean, Torn
from holdfast.wal.segments import segment_name

SEGMENT = WAL / segment_name(1)


def test_a_reader_sees_a_live_log_and_changes_nothing() -> None:
    disk, log = long_log()
    before, contents = disk.operations.copy(), {path: disk.content(path) for path in disk.files()}
    reader = read_folder(DATA, disk=disk)
    assert records_of(reader) == records_of(log)
    assert (reader.log_id, reader.last, reader.head) == (log.log_id, log.last, log.head)
    assert (reader.epoch, reader.oldest, reader.damage) == (log.epoch, 1, None)
    assert reader.record(7) == log.record(7)
    assert reader.chain_after(7) == log.chain_after(7)
    assert disk.operations == before
    assert {path: disk.content(path) for path in disk.files()} == contents
    put(log, b"the writer goes on")
    assert reader.last == log.last - 1


def test_a_reader_works_on_the_real_disk_beside_the_writer(tmp_path: Path) -> None:
    log = FileLog.open(tmp_path)
    put(log, b"a")
    assert records_of(read_folder(tmp_path)) == [b"a"]
    log.close()


def test_half_a_frame_ends_the_reading_and_stays_where_it_is() -> None:
    disk, log = long_log(5)
    content = bytearray(disk.content(SEGMENT))
    content[log._segment.end : log._segment.end + 50] = b"h" * 50
    disk.plant(SEGMENT, bytes(content))
    reader = read_folder(DATA, disk=disk)
    assert reader.last == 5
    assert isinstance(reader.verdict, Torn)
    assert disk.content(SEGMENT) == content


def test_a_position_dropped_or_never_written_is_refused() -> None:
    disk, log = long_log()
    write_snapshot(disk, DATA, log.last, log.head, log.log_id, [b"s"], b"")
    write_kept(disk, DATA, log.last, [(2, 0, 0, 1, b"kept")])
    log.drop_segments(40)
    reader = read_folder(DATA, disk=disk)
    with pytest.raises(HistoryGone):
        reader.read(1)
    with pytest.raises(HistoryGone):
        reader.record(1)
    assert reader.record(2)[1] == b"kept"
    with pytest.raises(BrokenInvariant):
        reader.record(61)
    with pytest.raises(BrokenInvariant):
        reader.record(0)


def test_damage_is_named_and_leniently_the_part_before_it_can_be_read() -> None:
    disk, log = long_log(5)
    offset = log._segment.before(1)
    content = bytearray(disk.content(SEGMENT))
    content[offset + 3 * (76 + 4 + 200) + 100] ^= 1
    disk.plant(SEGMENT, bytes(content))
    with pytest.raises(LogDamaged) as damaged:
        read_folder(DATA, disk=disk)
    reader = read_folder(DATA, disk=disk, lenient=True)
    assert records_of(reader) == [b"%02d" % number * 100 for number in range(3)]
    assert reader.damage is not None
    assert (reader.damage.file, reader.damage.offset) == (damaged.value.file, damaged.value.offset)


def test_a_lost_hint_is_damage_and_leniently_only_a_doubt() -> None:
    disk, log = long_log(5)
    disk.plant(WAL / "acked", b"")
    with pytest.raises(LogDamaged, match="neither copy"):
        read_folder(DATA, disk=disk)
    reader = read_folder(DATA, disk=disk, lenient=True)
    assert records_of(reader) == records_of(log)
    assert reader.log_id == log.log_id
    assert isinstance(reader.verdict, Clean)


def test_a_log_shorter_than_acknowledged_is_damage_to_a_reader_too() -> None:
    disk, log = long_log(5)
    log.close()
    disk.plant(SEGMENT, disk.content(SEGMENT)[:5000])
    with pytest.raises(LogDamaged, match="acknowledged"):
        read_folder(DATA, disk=disk)


@pytest.mark.parametrize("lenient", [True, False])
def test_a_folder_without_a_log_is_refused(lenient: bool) -> None:
    with pytest.raises(LogDamaged, match="no log here"):
        read_folder(DATA, disk=FaultyDisk(), lenient=lenient)


class Meddling(FaultyDisk):
    """The writer moves on between any two reads of the reader."""

    def __init__(self, dice: Random) -> None:
        super().__init__()
        self.dice = dice
        self.log: FileLog | None = None
        self.is_meddling = False

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        content = super().pread(fd, size, offset)
        if self.is_meddling and self.log is not None:
            self.is_meddling = False
            for _ in range(self.dice.randrange(30)):
                put(self.log, b"%02d" % self.log.last * 100)
            if self.dice.random() < 0.2:
                log = self.log
                write_snapshot(self, DATA, log.last, log.head, log.log_id, [b"s"], b"")
                log.drop_segments(log.last - self.dice.randrange(40))
            self.is_meddling = True
        return content


@pytest.mark.parametrize("number", range(10))
def test_a_reader_is_never_confused_by_a_writer_that_moves_on(number: int, seed: int) -> None:
    disk = Meddling(Random(f"{seed}:{number}"))
    disk.log = log = open_log(disk)
    put(log, b"00" * 100)
    for _ in range(6):
        disk.is_meddling = True
        reader = read_folder(DATA, disk=disk)
        disk.is_meddling = False
        if reader.oldest >= log.oldest:
            records = records_of(reader, reader.oldest)
            wanted = [b"%02d" % at * 100 for at in range(reader.oldest - 1, reader.last)]
            assert records == wanted
            assert reader.head == log.chain_after(reader.last)
