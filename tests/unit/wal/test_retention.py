"""Letting go of history leaves no gap, and harms nothing that it need not touch."""

import errno
from pathlib import Path
from random import Random
from threading import Thread

import pytest

from holdfast.core.errors import BrokenInvariant, LogFailed, OperatingError
from holdfast.testing.disks import CrashNow, FaultyDisk
from holdfast.testing.logs import (
    DATA,
    SEGMENT_BYTES,
    SNAPSHOTS,
    WAL,
    long_log,
    open_log,
    put,
    records_of,
    segments_of,
    snap,
)
from holdfast.wal import (
    clear_leftovers,
    drop_snapshots,
    newest_snapshot,
    write_kept,
    write_snapshot,
)
from holdfast.wal.disk import make_folder
from holdfast.wal.snapshots import snapshot_paths

ARCHIVE = Path("/archive")


def test_dropping_needs_a_snapshot_that_stands_for_what_goes() -> None:
    disk, log = long_log()
    before = segments_of(disk)
    with pytest.raises(BrokenInvariant, match="no snapshot"):
        log.drop_segments(40)
    assert segments_of(disk) == before
    assert log.oldest == 1


def test_a_segment_that_began_where_an_empty_one_did_is_not_dropped_for_it() -> None:
    """A first frame that is larger than its segment moves on to another of the same name."""
    disk = FaultyDisk()
    log = open_log(disk)
    large = b"x" * 2 * SEGMENT_BYTES
    put(log, large)
    write_snapshot(disk, DATA, log.last, log.head, log.log_id, [b"s"], b"")
    log.drop_segments(log.last + 1)
    assert len(segments_of(disk)) == 1
    put(log, b"after")
    disk.crash(Random(0))
    assert records_of(open_log(disk)) == [large, b"after"]


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
    order: list[str] = []
    disk.on_operation = lambda name, path: order.append(f"{name} {path}")
    log.drop_segments(40, archive=ARCHIVE)
    moved = [path for path in disk.files() if path.parent == ARCHIVE]
    assert moved
    assert all(disk.content(path) == before[path.name] for path in moved)
    for path in moved:
        # The copy is safe under its own name before the original goes.
        place = order.index(f"unlink {WAL / path.name}")
        assert order[place - 3 : place] == [
            f"fsync {path.with_suffix('.tmp')}",
            f"rename {path}",
            f"fsync_dir {ARCHIVE}",
        ]


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


def test_segments_go_only_when_the_name_of_their_snapshot_is_safe() -> None:
    """The writer of the snapshot died before it could sync the directory."""
    disk, log = long_log()
    make_folder(disk, SNAPSHOTS)

    def die(name: str, path: Path) -> None:
        if name == "fsync_dir" and path.name == "snapshots":
            raise CrashNow

    disk.on_operation = die
    with pytest.raises(CrashNow):
        snap(disk, log, 60)
    disk.on_operation = None
    disk.restart()
    log = open_log(disk)
    log.drop_segments(61)
    assert log.oldest > 1
    for number in range(20):
        after = disk.image(Random(number))
        again = open_log(after)
        assert newest_snapshot(after, DATA, again).snapshot is not None


def test_an_archived_segment_is_safe_where_it_goes_before_it_is_gone_where_it_was() -> None:
    disk, log = long_log()
    snap(disk, log, 60)
    order: list[str] = []
    disk.on_operation = lambda name, path: order.append(f"{name} {path}")
    log.drop_segments(20, archive=Path("/archive"))
    moves = [place for place, done in enumerate(order) if done.startswith("rename")]
    assert moves
    for place in moves:
        assert order[place + 1 : place + 3] == ["fsync_dir /archive", "fsync_dir /data/wal"]


def test_only_the_newest_snapshots_stay_and_their_kept_records_with_them() -> None:
    disk, log = long_log()
    for position in (10, 20, 30):
        snap(disk, log, position)
        write_kept(disk, DATA, position, [])
    assert [path.stem[-2:] for path in drop_snapshots(disk, DATA)] == ["10"]
    left = [path.name[-7:] for path in disk.files() if path.parent == SNAPSHOTS]
    assert left == ["20.kept", "20.snap", "30.kept", "30.snap"]
    drop_snapshots(disk, DATA, keep=0)
    assert len(snapshot_paths(disk, DATA)) == 1


def test_files_that_are_not_ours_are_neither_counted_nor_removed() -> None:
    """Two of them would else pass for the newest two, and all real snapshots would go."""
    disk, log = long_log()
    strangers = [SNAPSHOTS / name for name in ("old.snap", "z.snap", "notes.kept", "z.tmp")]
    for path in strangers:
        disk.plant(path, b"mine")
    for position in (10, 20, 30):
        snap(disk, log, position)
    drop_snapshots(disk, DATA)
    clear_leftovers(disk, DATA)
    assert newest_snapshot(disk, DATA, log).rejected == ()
    assert [int(path.stem) for path in snapshot_paths(disk, DATA)] == [20, 30]
    assert all(disk.content(path) == b"mine" for path in strangers)


def test_what_a_death_left_half_written_is_removed() -> None:
    disk, log = long_log()
    for name in (f"{7:020d}.tmp", f"{8:020d}.kept-tmp"):
        disk.plant(SNAPSHOTS / name, b"half")
    snap(disk, log, 20)
    clear_leftovers(disk, DATA)
    assert [path.name for path in disk.files() if path.parent == SNAPSHOTS] == [f"{20:020d}.snap"]


def test_records_kept_for_a_snapshot_that_never_came_to_be_go_with_the_older_ones() -> None:
    disk, log = long_log()
    for position in (10, 20, 30):
        write_kept(disk, DATA, position - 5, [])
        snap(disk, log, position)
    drop_snapshots(disk, DATA)
    left = [path.name[-7:] for path in disk.files() if path.parent == SNAPSHOTS]
    assert left == ["20.snap", "25.kept", "30.snap"]
