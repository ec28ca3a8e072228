"""Snapshots: opaque bytes that stand for the history up to a position.

A snapshot file opens with a header of 256 bytes, little endian, and then the payload:

    offset size field
         0    8 magic "HFSNAPS1"
         8    4 format version, 1
        12    4 zero
        16   16 log id
        32    8 position: the last one this stands for
        40   16 chain head at that position
        56    1 length of the state hash
        57   64 state hash
       121    8 payload length
       129   32 BLAKE2b-32 of the payload
       161   …  zeros
       252    4 crc32 over bytes 0 to 252

It is written under another name, synced, read back and only then renamed, so a file with the right
name is whole unless the disk damaged it. A damaged one is reported, never taken for absent.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple, Protocol
from zlib import crc32

from holdfast.core.errors import BrokenInvariant
from holdfast.wal.disk import Disk, is_full, is_numbered, make_folder, read_all, write_all
from holdfast.wal.errors import DiskFull, LogDamaged, NewerFormat

SNAPSHOT_FORMAT: Final = 1
SNAPSHOT_HEADER_BYTES: Final = 256
SNAPSHOT_MAGIC: Final = b"HFSNAPS1"
SNAPSHOTS_FOLDER: Final = "snapshots"
SNAPSHOT_SUFFIX: Final = ".snap"
SNAPSHOT_TEMPORARY: Final = ".tmp"
CHUNK_BYTES: Final = 1024 * 1024

_FIELDS: Final = struct.Struct("<8sI4x16sQ16sB64sQ32s")
_CRC: Final = struct.Struct("<I")


class Snapshot(NamedTuple):
    """A snapshot file whose header verifies. `payload` reads it and raises if it does not match."""

    path: Path
    log_id: str
    position: int
    chain_head: bytes
    state_hash: bytes
    payload_bytes: int
    digest: bytes

    def payload(self, disk: Disk) -> Iterator[bytes]:
        """The payload in chunks. The last chunk comes only when all of it matched its digest."""
        fd = disk.open(self.path)
        try:
            if disk.size(fd) != SNAPSHOT_HEADER_BYTES + self.payload_bytes:
                raise LogDamaged(self.path, 0, "the snapshot has not the length it claims")
            digest = blake2b(digest_size=32)
            held, offset = b"", SNAPSHOT_HEADER_BYTES
            while chunk := disk.pread(fd, CHUNK_BYTES, offset):
                digest.update(chunk)
                offset += len(chunk)
                if held:
                    yield held
                held = chunk
            if digest.digest() != self.digest:
                raise LogDamaged(self.path, SNAPSHOT_HEADER_BYTES, "the payload's digest differs")
            if held:
                yield held
        finally:
            disk.close(fd)


class Rejected(NamedTuple):
    """A snapshot that cannot be used, and why."""

    path: Path
    why: str


class Choice(NamedTuple):
    """The snapshot to start from, if any, and those passed over on the way to it, newest first."""

    snapshot: Snapshot | None
    rejected: tuple[Rejected, ...]


class Chained(Protocol):
    """What a snapshot is compared with: any log or reader of one."""

    @property
    def log_id(self) -> str: ...

    @property
    def last(self) -> int: ...

    @property
    def oldest(self) -> int: ...

    def chain_after(self, position: int) -> bytes | None: ...


def write_snapshot(
    disk: Disk,
    folder: Path,
    position: int,
    chain_head: bytes,
    log_id: str,
    payload_chunks: Iterable[bytes],
    state_hash: bytes,
) -> Path:
    """Write a snapshot of the durable history up to `position` into the data folder; its path.

    When this returns it survives a power cut; before that, no file bears its name.
    """
    if len(state_hash) > 64:
        raise BrokenInvariant(f"a state hash of {len(state_hash)} bytes does not fit in 64")
    target = folder / SNAPSHOTS_FOLDER / f"{position:020d}{SNAPSHOT_SUFFIX}"
    temporary = target.with_suffix(SNAPSHOT_TEMPORARY)
    make_folder(disk, target.parent)
    try:
        fd = disk.open(temporary, create=True)
        try:
            disk.truncate(fd, 0)
            digest, offset = blake2b(digest_size=32), SNAPSHOT_HEADER_BYTES
            for chunk in payload_chunks:
                write_all(disk, fd, chunk, offset)
                digest.update(chunk)
                offset += len(chunk)
            header = _encode(
                log_id,
                position,
                chain_head,
                state_hash,
                offset - SNAPSHOT_HEADER_BYTES,
                digest.digest(),
            )
            write_all(disk, fd, header, 0)
            disk.fsync(fd)
        finally:
            disk.close(fd)
        verify_snapshot(disk, temporary)
    except OSError as error:
        if not is_full(error):
            raise
        if disk.exists(temporary):
            disk.unlink(temporary)
        raise DiskFull(target.parent, SNAPSHOT_HEADER_BYTES) from error
    disk.rename(temporary, target)
    disk.fsync_dir(target.parent)
    return target


def _encode(
    log_id: str, position: int, chain_head: bytes, state_hash: bytes, length: int, digest: bytes
) -> bytes:
    body = _FIELDS.pack(
        SNAPSHOT_MAGIC,
        SNAPSHOT_FORMAT,
        bytes.fromhex(log_id),
        position,
        chain_head,
        len(state_hash),
        state_hash,
        length,
        digest,
    ).ljust(SNAPSHOT_HEADER_BYTES - 4, b"\0")
    return body + _CRC.pack(crc32(body))


def read_header(path: Path, content: bytes) -> Snapshot:
    """The header of a snapshot file, or the reason why it cannot be used."""
    if len(content) < SNAPSHOT_HEADER_BYTES:
        raise LogDamaged(path, len(content), "the snapshot is shorter than its header")
    body = content[: SNAPSHOT_HEADER_BYTES - 4]
    if _CRC.unpack_from(content, SNAPSHOT_HEADER_BYTES - 4)[0] != crc32(body):
        raise LogDamaged(path, 0, "the snapshot header's checksum does not match")
    magic, version, log_id, position, head, hashed, state, length, digest = _FIELDS.unpack_from(
        body
    )
    if magic != SNAPSHOT_MAGIC:
        raise LogDamaged(path, 0, "this is not a snapshot")
    if version > SNAPSHOT_FORMAT:
        raise NewerFormat(path, version, SNAPSHOT_FORMAT)
    return Snapshot(path, log_id.hex(), position, head, state[:hashed], length, digest)


def peek(disk: Disk, path: Path) -> Snapshot:
    """A snapshot by its header alone; its payload is not looked at."""
    return read_header(path, read_all(disk, path, SNAPSHOT_HEADER_BYTES))


def verify_snapshot(disk: Disk, path: Path) -> Snapshot:
    """The snapshot in this file, every byte of it checked."""
    snapshot = peek(disk, path)
    for _ in snapshot.payload(disk):
        pass
    return snapshot


def newest_snapshot(
    disk: Disk, folder: Path, log: Chained, judge: Callable[[Snapshot], str] | None = None
) -> Choice:
    """The newest snapshot that verifies, belongs to this very history, and has nothing that `judge`
    says against it.

    One that is bad or cannot be read is passed over and reported. `LogDamaged` where nothing usable
    stands for dropped history (`NewerFormat` where something may that we do not understand), or
    where a good snapshot proves that the log was longer once.
    """
    rejected: list[Rejected] = []
    newer: NewerFormat | None = None
    for path in reversed(snapshot_paths(disk, folder)):
        try:
            snapshot = verify_snapshot(disk, path)
        except FileNotFoundError:
            # The writer has just dropped it; a newer one was there first.
            continue
        except (OSError, LogDamaged, NewerFormat) as error:
            rejected.append(Rejected(path, str(error)))
            newer = error if isinstance(error, NewerFormat) else newer
            continue
        why = _mismatch(snapshot, log) or (judge(snapshot) if judge is not None else "")
        if not why:
            return Choice(snapshot, tuple(rejected))
        rejected.append(Rejected(path, why))
    if log.oldest > 1 and newer is not None:
        raise newer
    if log.oldest > 1:
        why = f"no usable snapshot stands for the history before position {log.oldest}"
        reasons = "; ".join(f"{bad.path.name}: {bad.why}" for bad in rejected)
        missing = folder / SNAPSHOTS_FOLDER / f"{log.oldest - 1:020d}{SNAPSHOT_SUFFIX}"
        raise LogDamaged(missing, 0, f"{why} ({reasons or 'none found'})")
    return Choice(None, tuple(rejected))


def _mismatch(snapshot: Snapshot, log: Chained) -> str:
    if snapshot.log_id != log.log_id:
        return f"it belongs to log {snapshot.log_id}"
    if snapshot.position > log.last:
        why = f"it stands for position {snapshot.position}, yet the log ends at {log.last}"
        raise LogDamaged(snapshot.path, 32, why)
    if snapshot.position < log.oldest - 1:
        return f"the history between it and position {log.oldest} is gone"
    if log.chain_after(snapshot.position) != snapshot.chain_head:
        return f"its chain head is not the log's at position {snapshot.position}"
    return ""


def snapshot_paths(disk: Disk, folder: Path) -> list[Path]:
    """The snapshots of a data folder, oldest first, by name; whatever else lies there is not
    looked at."""
    place = folder / SNAPSHOTS_FOLDER
    if not disk.exists(place):
        return []
    names = sorted(disk.listdir(place))
    return [place / name for name in names if is_numbered(name, SNAPSHOT_SUFFIX)]


def reaches(disk: Disk, folder: Path, log_id: bytes, position: int) -> bool:
    """Whether some snapshot of this log claims to stand for `position`, by its header.

    `NewerFormat` where only one that we cannot read may do so: that is no damage.
    """
    newer: NewerFormat | None = None
    for path in reversed(snapshot_paths(disk, folder)):
        try:
            snapshot = peek(disk, path)
        except NewerFormat as error:
            newer = newer or error
            continue
        except (OSError, LogDamaged):
            continue
        if snapshot.log_id == log_id.hex() and snapshot.position >= position:
            return True
    if newer is not None:
        raise newer
    return False
