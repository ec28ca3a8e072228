"""Records that outlive their segment are found by position, and damage to them is seen."""

from pathlib import Path
from random import Random

import pytest

from holdfast.testing.disks import FaultyDisk
from holdfast.testing.logs import (
    DATA,
    flip,
    long_log,
    open_log,
    segments_of,
)
from holdfast.wal import (
    HistoryGone,
    LogDamaged,
    read_folder,
    write_kept,
    write_snapshot,
)
from holdfast.wal.kept import KeptRecords

KEPT = [(9, 90, 900, 2, b"nine"), (4, 40, 400, 1, b""), (7, 70, 700, 2, b"seven" * 50)]


def kept_file() -> tuple[FaultyDisk, Path]:
    disk = FaultyDisk()
    return disk, write_kept(disk, DATA, 20, KEPT)


def test_kept_records_are_found_by_position() -> None:
    disk, _ = kept_file()
    kept = KeptRecords(disk, DATA)
    for position, at, wall, epoch, content in KEPT:
        frame = kept.find(position, 100)
        assert (frame.first, frame.at, frame.wall, frame.epoch) == (position, at, wall, epoch)
        assert frame.records == (content,)
    for position in (1, 5, 8, 10):
        with pytest.raises(HistoryGone):
            kept.find(position, 100)


def test_kept_records_of_a_newer_snapshot_are_seen_without_reopening() -> None:
    disk, path = kept_file()
    kept = KeptRecords(disk, DATA)
    assert kept.find(9, 100).records == (b"nine",)
    write_kept(disk, DATA, 30, [(9, 0, 0, 1, b"nine"), (25, 0, 0, 1, b"new")])
    assert kept.find(25, 100).records == (b"new",)
    disk.unlink(path)
    assert kept.find(9, 100).records == (b"nine",)
    with pytest.raises(HistoryGone):
        kept.find(4, 100)


def test_kept_records_replaced_while_they_are_looked_for_are_found() -> None:
    disk, path = kept_file()
    kept = KeptRecords(disk, DATA)
    listing = disk.listdir

    def late(place: Path) -> list[str]:
        names = listing(place)
        disk.listdir = listing  # type: ignore[method-assign]
        write_kept(disk, DATA, 30, KEPT)
        disk.unlink(path)
        return names

    disk.listdir = late  # type: ignore[method-assign]
    assert kept.find(9, 100).records == (b"nine",)
    assert set(kept._known) == {f"{30:020d}.kept"}


def test_only_the_lists_of_files_that_are_there_stay_in_memory() -> None:
    disk = FaultyDisk()
    kept = KeptRecords(disk, DATA)
    for position in range(20, 40):
        path = write_kept(disk, DATA, position, KEPT)
        assert kept.find(9, 100).records == (b"nine",)
        disk.unlink(path)
    assert len(kept._known) == 1


def test_kept_records_survive_a_power_cut_right_after_they_were_written() -> None:
    disk, _ = kept_file()
    for number in range(20):
        assert KeptRecords(disk.image(Random(number)), DATA).find(9, 100).records == (b"nine",)


def test_no_kept_records_at_all_means_that_history_is_gone() -> None:
    with pytest.raises(HistoryGone):
        KeptRecords(FaultyDisk(), DATA).find(1, 5)


def test_many_kept_records_are_written_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.wal.kept.BATCH_BYTES", 100)
    disk = FaultyDisk()
    write_kept(disk, DATA, 500, ((n, n, n, 1, b"%d" % n) for n in range(1, 300, 3)))
    kept = KeptRecords(disk, DATA)
    assert [kept.find(n, 400).records[0] for n in range(1, 300, 3)] == [
        b"%d" % n for n in range(1, 300, 3)
    ]


@pytest.mark.parametrize("part", range(8))
def test_every_flipped_bit_of_kept_records_is_seen(part: int) -> None:
    """Never a wrong record, and never the claim that a kept record is gone."""
    disk, path = kept_file()
    content = bytearray(disk.content(path))
    for bit in range(part, len(content) * 8, 8):
        content[bit // 8] ^= 1 << bit % 8
        disk.plant(path, bytes(content))
        kept = KeptRecords(disk, DATA)
        seen = 0
        for position, at, wall, epoch, record in KEPT:
            try:
                frame = kept.find(position, 100)
            except LogDamaged:
                seen += 1
                continue
            assert (frame.at, frame.wall, frame.epoch) == (at, wall, epoch)
            assert frame.records == (record,)
        assert seen
        content[bit // 8] ^= 1 << bit % 8


def test_a_kept_record_in_an_older_file_stands_in_for_a_damaged_newer_one() -> None:
    disk, _ = kept_file()
    newer = write_kept(disk, DATA, 30, KEPT)
    flip(disk, newer, 60)
    flip(disk, newer, len(disk.content(newer)) - 1)
    assert KeptRecords(disk, DATA).find(9, 100).records == (b"nine",)


def test_kept_records_cut_anywhere_are_seen() -> None:
    disk, path = kept_file()
    content = disk.content(path)
    for size in range(len(content)):
        disk.plant(path, content[:size])
        with pytest.raises(LogDamaged):
            KeptRecords(disk, DATA).find(9, 100)


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
