"""The log: frames, checksums, segments, sync and snapshots. It knows bytes, not meaning.

A *record* is opaque bytes at a *position*. A *frame* holds one batch of records and is the unit of
write, checksum and sync. Frames live in *segments*; *snapshots* stand for what was dropped.
"""

from holdfast.wal.disk import Disk, RealDisk
from holdfast.wal.errors import DiskFull, HistoryGone, LogDamaged, LogInUse, NewerFormat
from holdfast.wal.file import FileLog
from holdfast.wal.folder import FolderReader, read_folder
from holdfast.wal.frames import Frame
from holdfast.wal.kept import KeptRecord, write_kept
from holdfast.wal.log import Log
from holdfast.wal.memory import MemoryLog
from holdfast.wal.recovery import TornTail
from holdfast.wal.snapshots import (
    Choice,
    Rejected,
    Snapshot,
    drop_snapshots,
    newest_snapshot,
    verify_snapshot,
    write_snapshot,
)

__all__ = [
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
    "drop_snapshots",
    "newest_snapshot",
    "read_folder",
    "verify_snapshot",
    "write_kept",
    "write_snapshot",
]
