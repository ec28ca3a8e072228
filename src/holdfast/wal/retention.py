"""Letting go: of old segments, one by one and oldest first, so that a crash never leaves a gap; of
old snapshots with what was kept beside them; and of what a death left half written.
"""

import errno
from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast.core.errors import BrokenInvariant, OperatingError
from holdfast.wal.disk import Disk, is_numbered, make_folder, read_all, write_all
from holdfast.wal.kept import KEPT_SUFFIX, KEPT_TEMPORARY
from holdfast.wal.segments import SEGMENT_HEADER_BYTES, History, Segment
from holdfast.wal.snapshots import (
    CHUNK_BYTES,
    SNAPSHOT_TEMPORARY,
    SNAPSHOTS_FOLDER,
    reaches,
    snapshot_paths,
)


def droppable(
    disk: Disk, history: History, log_id: bytes, folder: Path, before: int
) -> list[Segment]:
    """The whole segments that end before position `before`, oldest first.

    Refused while no snapshot stands for what would go: such a log could not be opened again.
    """
    going = [segment for segment in history.segments[:-1] if segment.last < before]
    if not going:
        return []
    if not reaches(disk, folder, log_id, going[-1].last):
        raise BrokenInvariant(
            f"no snapshot stands for position {going[-1].last}; nothing is dropped"
        )
    # Whoever wrote the snapshot may have died before its name was safe.
    disk.fsync_dir(folder / SNAPSHOTS_FOLDER)
    return going


def put_away(disk: Disk, segment: Segment, archive: Path) -> bool:
    """Have a segment whole and durable in the archive; whether it is still in the log as well.

    `OperatingError` where the archive cannot take it: then it stays where it is, and only there.
    """
    target = archive / segment.path.name
    try:
        make_folder(disk, archive)
        _check_target(disk, segment, target)
        try:
            disk.rename(segment.path, target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _copy(disk, segment.path, target)
            return True
    except OSError as error:
        raise OperatingError(
            f"{segment.path} could not be put into the archive: {error}. It stays where it is. "
            f"Make room in {archive}, or give another one."
        ) from error
    disk.fsync_dir(archive)
    return False


def _check_target(disk: Disk, segment: Segment, target: Path) -> None:
    """A death between copying and deleting leaves the very same segment there, and no other."""
    if not disk.exists(target):
        return
    header = read_all(disk, target, SEGMENT_HEADER_BYTES)
    if header != segment.header.encode():
        raise OperatingError(
            f"{target} is a segment of another log. {segment.path} stays where it is. "
            f"Give every log an archive of its own."
        )


def _copy(disk: Disk, source: Path, target: Path) -> None:
    """To another disk: whole and durable under its name before the original goes."""
    temporary = target.with_suffix(".tmp")
    reader = disk.open(source)
    try:
        writer = disk.open(temporary, create=True)
        try:
            disk.truncate(writer, 0)
            offset = 0
            while chunk := disk.pread(reader, CHUNK_BYTES, offset):
                write_all(disk, writer, chunk, offset)
                offset += len(chunk)
            disk.fsync(writer)
        finally:
            disk.close(writer)
    finally:
        disk.close(reader)
    disk.rename(temporary, target)
    disk.fsync_dir(target.parent)


def drop_snapshots(disk: Disk, folder: Path, keep: int = 2) -> Sequence[Path]:
    """Remove all but the newest `keep` snapshots, and the records kept for older ones.

    Also those of a snapshot that never came to be: its maker died between the two.
    """
    listed = snapshot_paths(disk, folder)
    gone = listed[: -max(1, keep)]
    for path in gone:
        disk.unlink(path)
        disk.fsync_dir(path.parent)
    oldest = listed[len(gone)].with_suffix(KEPT_SUFFIX).name if listed else ""
    _remove(disk, folder, lambda name: is_numbered(name, KEPT_SUFFIX) and name < oldest)
    return gone


def clear_leftovers(disk: Disk, folder: Path) -> None:
    """Remove what makers of snapshots left half written. Only while none is at work for us: one
    that outlived its coordinator fails then, and nobody waits for it."""
    endings = (SNAPSHOT_TEMPORARY, KEPT_TEMPORARY)
    _remove(disk, folder, lambda name: any(is_numbered(name, ending) for ending in endings))


def _remove(disk: Disk, folder: Path, is_going: Callable[[str], bool]) -> None:
    place = folder / SNAPSHOTS_FOLDER
    going = [name for name in disk.listdir(place) if is_going(name)] if disk.exists(place) else []
    for name in going:
        disk.unlink(place / name)
    if going:
        disk.fsync_dir(place)
