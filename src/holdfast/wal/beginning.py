"""The beginning of a log that goes on from another one: its own id, and one record to begin with.

What came before is a snapshot beside it. Its chain begins with the head of the former log and its
own id, so that it can be shown which history it goes on from, and no frame of either fits into the
other.
"""

from hashlib import blake2b
from pathlib import Path
from typing import Final

from holdfast.wal.disk import Disk, make_folder, write_whole
from holdfast.wal.file import WAL_FOLDER
from holdfast.wal.frames import Edge, encode, seed_of
from holdfast.wal.hint import Hint, create_hint
from holdfast.wal.segments import SegmentHeader, segment_name
from holdfast.wal.space import SegmentSpace

HALF_WAL: Final = "wal.half"


def chain_from(log_id: bytes, head: bytes) -> bytes:
    """What the chain of a log begins with that goes on from `head` of another one."""
    return blake2b(head + log_id, digest_size=16, person=b"holdfast fork").digest()


def begin_log(
    disk: Disk, folder: Path, log_id: bytes, edge: Edge, record: bytes, *, at: int, wall: int
) -> None:
    """Begin a log behind `edge` with one record. A snapshot must stand for what is before it.

    The log appears whole or not at all: until then the folder has none, and nobody opens it.
    """
    half = folder / HALF_WAL
    make_folder(disk, half)
    header = SegmentHeader(log_id, edge.position + 1, edge.epoch, edge.chain)
    frame, after = encode(
        edge, seed_of(log_id), (record,), epoch=edge.epoch + 1, at=at, wall=wall
    )
    size = SegmentSpace(disk, half, None).sizes_for(len(frame), 0)[1]
    content = (header.encode() + frame).ljust(size, b"\0")
    write_whole(disk, half / segment_name(header.first), content)
    create_hint(
        disk, half, Hint(log_id, 1, after.position, after.epoch, header.first, after.chain)
    )
    disk.rename(half, folder / WAL_FOLDER)
    disk.fsync_dir(folder)
