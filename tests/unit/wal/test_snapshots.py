"""A snapshot is whole or refused, and never stands for a history that is not its own."""

import errno
from pathlib import Path

import pytest

from holdfast.core.errors import BrokenInvariant
from holdfast.testing.disks import FaultyDisk
from holdfast.testing.logs import DATA, PAYLOAD, SNAPSHOTS, flip, long_log, open_log, snap
from holdfast.wal import (
    FileLog,
    LogDamaged,
    NewerFormat,
    newest_snapshot,
    verify_snapshot,
    write_kept,
    write_snapshot,
)
from holdfast.wal.kept import KeptRecords
from holdfast.wal.snapshots import SNAPSHOT_HEADER_BYTES, peek, snapshot_paths


def test_what_was_written_is_what_is_found() -> None:
    disk, log = long_log()
    path = snap(disk, log, 30)
    found = newest_snapshot(disk, DATA, log)
    assert found.rejected == ()
    snapshot = found.snapshot
    assert snapshot is not None
    assert (snapshot.path, snapshot.position, snapshot.log_id) == (path, 30, log.log_id)
    assert (snapshot.chain_head, snapshot.state_hash) == (log.chain_after(30), b"hash")
    assert b"".join(snapshot.payload(disk)) == b"".join(PAYLOAD)
    assert peek(disk, path) == snapshot


def test_a_payload_may_be_empty_or_many_chunks_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.wal.snapshots.CHUNK_BYTES", 7)
    disk, log = long_log(3)
    for position, payload in ((1, []), (2, [b""]), (3, [bytes([n]) * n for n in range(40)])):
        head = log.chain_after(position)
        assert head is not None
        path = write_snapshot(disk, DATA, position, head, log.log_id, payload, b"")
        assert b"".join(verify_snapshot(disk, path).payload(disk)) == b"".join(payload)


def test_a_log_without_snapshots_starts_from_its_first_record() -> None:
    disk, log = long_log(3)
    assert newest_snapshot(disk, DATA, log) == (None, ())


def test_the_newest_is_taken() -> None:
    disk, log = long_log()
    for position in (10, 30, 20):
        snap(disk, log, position)
    snapshot = newest_snapshot(disk, DATA, log).snapshot
    assert snapshot is not None
    assert snapshot.position == 30


@pytest.mark.parametrize("part", range(4))
def test_every_flipped_bit_of_a_snapshot_is_seen(part: int) -> None:
    disk, log = long_log(2)
    path = snap(disk, log, 2)
    content = bytearray(disk.content(path))
    assert len(content) < 400
    for bit in range(part, len(content) * 8, 4):
        content[bit // 8] ^= 1 << bit % 8
        disk.plant(path, bytes(content))
        with pytest.raises(LogDamaged):
            verify_snapshot(disk, path)
        content[bit // 8] ^= 1 << bit % 8


def test_a_snapshot_cut_or_grown_by_any_byte_is_seen() -> None:
    disk, log = long_log(2)
    path = snap(disk, log, 2)
    content = disk.content(path)
    for size in range(len(content)):
        disk.plant(path, content[:size])
        with pytest.raises(LogDamaged):
            verify_snapshot(disk, path)
    disk.plant(path, content + b"\0")
    with pytest.raises(LogDamaged):
        verify_snapshot(disk, path)


@pytest.mark.parametrize("byte", [0, 20, 60, SNAPSHOT_HEADER_BYTES + 3])
def test_a_damaged_snapshot_is_reported_and_the_one_before_it_taken(byte: int) -> None:
    disk, log = long_log()
    snap(disk, log, 20)
    bad = snap(disk, log, 40)
    flip(disk, bad, byte)
    found = newest_snapshot(disk, DATA, log)
    assert found.snapshot is not None
    assert found.snapshot.position == 20
    assert [rejected.path for rejected in found.rejected] == [bad]
    assert "damaged" in found.rejected[0].why


class Unreadable(FaultyDisk):
    """One file lies on a bad block."""

    def __init__(self) -> None:
        super().__init__()
        self.bad: Path | None = None

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        if self._of(fd).path == self.bad:
            raise OSError(errno.EIO, "bad block")
        return super().pread(fd, size, offset)


def test_a_snapshot_that_cannot_be_read_is_reported_and_the_one_before_it_taken() -> None:
    disk = Unreadable()
    log = long_log(disk=disk)[1]
    snap(disk, log, 20)
    disk.bad = snap(disk, log, 40)
    write_kept(disk, DATA, 20, [(3, 0, 0, 1, b"kept")])
    found = newest_snapshot(disk, DATA, log)
    assert found.snapshot is not None
    assert found.snapshot.position == 20
    assert "bad block" in found.rejected[0].why
    disk.bad = write_kept(disk, DATA, 40, [(3, 0, 0, 1, b"kept")])
    assert KeptRecords(disk, DATA).find(3, 10).records == (b"kept",)
    with pytest.raises(LogDamaged, match="bad block"):
        KeptRecords(disk, DATA).find(4, 10)


def test_a_damaged_only_snapshot_is_reported_while_the_log_is_whole() -> None:
    disk, log = long_log()
    bad = snap(disk, log, 40)
    flip(disk, bad, 30)
    found = newest_snapshot(disk, DATA, log)
    assert found.snapshot is None
    assert [rejected.path for rejected in found.rejected] == [bad]


def test_a_damaged_snapshot_that_alone_stands_for_dropped_history_is_refused() -> None:
    disk, log = long_log()
    bad = snap(disk, log, 40)
    log.drop_segments(41)
    flip(disk, bad, SNAPSHOT_HEADER_BYTES + 3)
    with pytest.raises(LogDamaged, match="no usable snapshot"):
        newest_snapshot(disk, DATA, log)
    flip(disk, bad, 30)
    log.close()
    with pytest.raises(LogDamaged, match="no snapshot stands for it"):
        FileLog.open(DATA, disk=disk)


def test_an_older_snapshot_with_a_gap_behind_it_is_no_help() -> None:
    disk, log = long_log()
    snap(disk, log, 5)
    newest = snap(disk, log, 50)
    log.drop_segments(51)
    assert log.oldest > 6
    flip(disk, newest, 130)
    with pytest.raises(LogDamaged, match="is gone"):
        newest_snapshot(disk, DATA, log)


def test_a_snapshot_that_ends_where_the_kept_history_begins_will_do() -> None:
    disk, log = long_log()
    snap(disk, log, 59)
    log.drop_segments(40)
    exact = log.oldest - 1
    snap(disk, log, exact)
    disk.unlink(SNAPSHOTS / f"{59:020d}.snap")
    snapshot = newest_snapshot(disk, DATA, log).snapshot
    assert snapshot is not None
    assert snapshot.position == exact


def test_a_snapshot_of_another_log_is_passed_over() -> None:
    disk, log = long_log()
    snap(disk, log, 40, log_id="ab" * 16)
    found = newest_snapshot(disk, DATA, log)
    assert found.snapshot is None
    assert "abab" in found.rejected[0].why


def test_a_snapshot_of_another_history_is_passed_over() -> None:
    disk, log = long_log()
    write_snapshot(disk, DATA, 40, b"x" * 16, log.log_id, PAYLOAD, b"")
    found = newest_snapshot(disk, DATA, log)
    assert found.snapshot is None
    assert "chain head" in found.rejected[0].why


def test_a_snapshot_beyond_the_end_proves_that_the_log_was_longer() -> None:
    disk, log = long_log()
    write_snapshot(disk, DATA, 61, b"x" * 16, log.log_id, PAYLOAD, b"")
    with pytest.raises(LogDamaged, match="ends at 60"):
        newest_snapshot(disk, DATA, log)


class Garbling(FaultyDisk):
    """Loses one bit of everything it writes to a snapshot, and says nothing."""

    def pwrite(self, fd: int, content: bytes, offset: int) -> int:
        if self._of(fd).path.suffix == ".tmp" and len(content) > 20:
            content = content[:20] + bytes([content[20] ^ 1]) + content[21:]
        return super().pwrite(fd, content, offset)


def test_a_snapshot_that_does_not_read_back_is_never_installed() -> None:
    disk = Garbling()
    with pytest.raises(LogDamaged):
        write_snapshot(disk, DATA, 1, b"h" * 16, "ab" * 16, PAYLOAD, b"")
    assert snapshot_paths(disk, DATA) == []


def test_a_half_written_snapshot_is_not_one() -> None:
    disk, log = long_log(3)
    disk.plant(SNAPSHOTS / f"{3:020d}.tmp", b"half")
    assert newest_snapshot(disk, DATA, log) == (None, ())
    snap(disk, log, 3)
    assert newest_snapshot(disk, DATA, log).snapshot is not None


def test_a_state_hash_that_does_not_fit_is_refused() -> None:
    disk, log = long_log(1)
    with pytest.raises(BrokenInvariant, match="64"):
        write_snapshot(disk, DATA, 1, log.head, log.log_id, PAYLOAD, b"h" * 65)
    head = write_snapshot(disk, DATA, 1, log.head, log.log_id, PAYLOAD, b"h\0" * 32)
    assert peek(disk, head).state_hash == b"h\0" * 32


def test_a_newer_format_that_alone_stands_for_dropped_history_is_no_damage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk, log = long_log()
    with monkeypatch.context() as later:
        later.setattr("holdfast.wal.snapshots.SNAPSHOT_FORMAT", 2)
        snap(disk, log, 50)
        log.drop_segments(51)
    with pytest.raises(NewerFormat, match="pip install --upgrade"):
        newest_snapshot(disk, DATA, log)
    log.close()
    with pytest.raises(NewerFormat):
        open_log(disk)


def test_a_newer_format_is_passed_over_and_reported_while_another_will_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk, log = long_log()
    snap(disk, log, 40)
    with monkeypatch.context() as later:
        later.setattr("holdfast.wal.snapshots.SNAPSHOT_FORMAT", 2)
        bad = snap(disk, log, 50)
    log.drop_segments(41)
    log.close()
    found = newest_snapshot(disk, DATA, open_log(disk))
    assert found.snapshot is not None
    assert found.snapshot.position == 40
    assert [rejected.path for rejected in found.rejected] == [bad]
