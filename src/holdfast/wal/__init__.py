"""The log: frames, checksums, segments, sync and snapshots. It knows bytes, not meaning.

A *record* is opaque bytes at a *position*. A *frame* holds one batch of records and is the unit of
write, checksum and sync. Frames live in *segments*; *snapshots* stand for what was dropped.
"""

from holdfast.wal.ballast import Ballast
from holdfast.wal.disk import Disk, RealDisk, size_of
from holdfast.wal.errors import DiskFull, HistoryGone, LogDamaged, LogInUse, NewerFormat
from holdfast.wal.file import WAL_FOLDER, FileLog
from holdfast.wal.folder import FolderReader, read_folder
from holdfast.wal.frames import Frame
from holdfast.wal.kept import KeptRecord, write_kept
from holdfast.wal.log import Log
from holdfast.wal.memory import MemoryLog
from holdfast.wal.recovery import TornTail
from holdfast.wal.retention import clear_leftovers, drop_snapshots
from holdfast.wal.segments import segment_paths
from holdfast.wal.snapshots import (
    Choice,
    Rejected,
    Snapshot,
    newest_snapshot,
    snapshot_paths,
    verify_snapshot,
    write_snapshot,
)

__all__ = [
    "WAL_FOLDER",
    "Ballast",
    "Choice",
    "Disk",
    "DiskFull",
    "FileLog",
    "FolderReader",
    "Frame",
    "HistoryGone",
    "KeptRecord",
    "Log",
    "LogDamaged",
    "LogInUse",
    "MemoryLog",
    "NewerFormat",
    "RealDisk",
    "Rejected",
    "Snapshot",
    "TornTail",
    "clear_leftovers",
    "drop_snapshots",
    "newest_snapshot",
    "read_folder",
    "segment_paths",
    "size_of",
    "snapshot_paths",
    "verify_snapshot",
    "write_kept",
    "write_snapshot",
]
