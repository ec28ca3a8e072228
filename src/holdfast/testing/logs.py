"""A log on a simulated disk, and the few things that every test of one does with it."""

from pathlib import Path
from typing import Final

from holdfast.core.errors import BrokenInvariant
from holdfast.testing.disks import FaultyDisk
from holdfast.wal import FileLog, FolderReader, write_snapshot

DATA: Final = Path("/data")
WAL: Final = DATA / "wal"
SNAPSHOTS: Final = DATA / "snapshots"
SEGMENT_BYTES: Final = 8192
PAYLOAD: Final = (b"state " * 9, b"", b"more state")
SYNCS: Final = ("fsync", "fdatasync", "fsync_dir")


def open_log(disk: FaultyDisk, size: int | None = SEGMENT_BYTES) -> FileLog:
    return FileLog.open(DATA, disk=disk, segment_bytes=size)


def put(log: FileLog, *records: bytes) -> None:
    """One frame, durable."""
    log.append(records, at=0, wall=0)
    log.sync()


def records_of(log: FileLog | FolderReader, position: int = 1) -> list[bytes]:
    return [record for frame in log.read(position) for record in frame.records]


def segments_of(disk: FaultyDisk) -> list[Path]:
    return [path for path in disk.files() if path.suffix == ".seg" and path.stem.isdigit()]


def long_log(count: int = 60, disk: FaultyDisk | None = None) -> tuple[FaultyDisk, FileLog]:
    """A log of several segments: position N holds N - 1 in two digits, a hundred times."""
    disk = disk or FaultyDisk()
    log = open_log(disk)
    for number in range(count):
        put(log, b"%02d" % number * 100)
    return disk, log


def syncs_of(disk: FaultyDisk) -> int:
    """How many syncs of any kind this disk was asked for."""
    return sum(disk.operations[name] for name in SYNCS)


def snap(disk: FaultyDisk, log: FileLog, position: int, *, log_id: str = "") -> Path:
    """A snapshot of the history up to `position`, where a frame must end."""
    head = log.chain_after(position)
    if head is None:
        raise BrokenInvariant(f"no frame ends at position {position}")
    return write_snapshot(disk, DATA, position, head, log_id or log.log_id, PAYLOAD, b"hash")


def flip(disk: FaultyDisk, path: Path, byte: int) -> None:
    """One bit of a file rots."""
    content = bytearray(disk.content(path))
    content[byte] ^= 1
    disk.plant(path, bytes(content))
