"""The log: frames, checksums, segments, sync and snapshots. It knows bytes, not meaning.

A *record* is opaque bytes at a *position*. A *frame* holds one batch of records and is the unit of
write, checksum and sync. Frames live in *segments*; *snapshots* stand for what was dropped.
"""

from holdfast.wal.ballast import Ballast
from holdfast.wal.beginning import begin_log, chain_from
from holdfast.wal.disk import Disk, RealDisk, size_of, write_whole
from holdfast.wal.errors import DiskFull, HistoryGone, LogDamaged, LogInUse, NewerFormat
from holdfast.wal.file import WAL_FOLDER, FileLog
from holdfast.wal.folder import FolderReader, read_folder
from holdfast.wal.frames import Edge, Frame, genesis
from holdfast.wal.hint import bad_hint_slot
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
from holdfast.wal.wreckage import Reach, Wreckage

__all__ = [
    "WAL_FOLDER",
    "Ballast",
    "Choice",
    "Disk",
    "DiskFull",
    "Edge",
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
    "Reach",
    "RealDisk",
    "Rejected",
    "Snapshot",
    "TornTail",
    "Wreckage",
    "bad_hint_slot",
    "begin_log",
    "chain_from",
    "clear_leftovers",
    "drop_snapshots",
    "genesis",
    "newest_snapshot",
    "read_folder",
    "segment_paths",
    "size_of",
    "snapshot_paths",
    "verify_snapshot",
    "write_kept",
    "write_snapshot",
    "write_whole",
]
