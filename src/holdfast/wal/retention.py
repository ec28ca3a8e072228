"""Letting old segments go, one by one and oldest first, so that a crash never leaves a gap."""

import errno
from pathlib import Path

from holdfast.core.errors import BrokenInvariant
from holdfast.wal.disk import Disk, make_folder, write_all
from holdfast.wal.segments import History, Segment
from holdfast.wal.snapshots import CHUNK_BYTES, SNAPSHOTS_FOLDER, reaches


def drop(
    disk: Disk, history: History, log_id: bytes, folder: Path, before: int, archive: Path | None
) -> None:
    """Delete, or move to `archive`, whole segments that end before position `before`.

    Refused while no snapshot stands for what would go: such a log could not be opened again.
    """
    going = [segment for segment in history.segments[:-1] if segment.last < before]
    if not going:
        return
    if not reaches(disk, folder, log_id, going[-1].last):
        raise BrokenInvariant(
            f"no snapshot stands for position {going[-1].last}; nothing is dropped"
        )
    # Whoever wrote the snapshot may have died before its name was safe.
    disk.fsync_dir(folder / SNAPSHOTS_FOLDER)
    if archive is not None:
        make_folder(disk, archive)
    for segment in going:
        # Readers lose sight of the segment before its file goes.
        history.segments = history.segments[1:]
        if archive is None:
            disk.unlink(segment.path)
        else:
            _move(disk, segment, archive)
        disk.fsync_dir(segment.path.parent)


def _move(disk: Disk, segment: Segment, archive: Path) -> None:
    target = archive / segment.path.name
    try:
        disk.rename(segment.path, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copy(disk, segment.path, target)
        disk.unlink(segment.path)
    disk.fsync_dir(archive)


def _copy(disk: Disk, source: Path, target: Path) -> None:
    """To another disk: whole and durable under its name before the original goes."""
    temporary = target.with_suffix(".tmp")
    reader = disk.open(source)
    writer = disk.open(temporary, create=True)
    try:
        disk.truncate(writer, 0)
        offset = 0
        while chunk := disk.pread(reader, CHUNK_BYTES, offset):
            write_all(disk, writer, chunk, offset)
            offset += len(chunk)
        disk.fsync(writer)
    finally:
        disk.close(reader)
        disk.close(writer)
    disk.rename(temporary, target)
    disk.fsync_dir(target.parent)
