"""The hint: a tiny file that remembers how far the log was acknowledged.

A flipped bit in the last frame looks just like a write that a power cut tore. The hint tells them
apart: what it names was acknowledged, so it may be damaged but never torn.

The file has two slots, each alone in its page; a write goes to the older one, so a torn write
leaves the other. A slot, little endian:

    offset size field
         0    8 magic "HFACKED1"
         8   16 log id
        24    8 sequence: the higher of two good slots counts
        32    8 position: durable when this was written
        40    8 epoch of the writer; 0: the log was made and never opened
        48    8 segment: first position of the newest segment
        56   16 chain head at `position`
        72    4 crc32 over bytes 0 to 72

**What a bad slot means.** The hint is written only while no frame is unsynced, and synced before
the next frame. So one crash can tear a slot or a frame, never both:

    slots that verify   the other slot     tail of the log   verdict
    two                                    any               the newer slot is the hint
    one                 never written      any               that slot is the hint
    one                 bad                clean             that slot is the hint
    one                 bad                torn              damaged: the bad slot may have named it
    none                                   any               damaged, also when the file is missing

The frames carry a second hint: each says that everything before it was durable.
"""

import struct
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from holdfast.wal.disk import Disk, read_all, write_all
from holdfast.wal.errors import LogDamaged, LogInUse

HINT_NAME: Final = "acked"
SLOT_BYTES: Final = 4096
HINT_MAGIC: Final = b"HFACKED1"

_SLOT: Final = struct.Struct("<8s16sQQQQ16s")
_CRC: Final = struct.Struct("<I")
_USED: Final = _SLOT.size + _CRC.size


class Hint(NamedTuple):
    """How far the log was known durable, by whom, and which segment was the newest."""

    log_id: bytes
    sequence: int
    position: int
    epoch: int
    segment: int
    chain: bytes

    def encode(self) -> bytes:
        body = _SLOT.pack(
            HINT_MAGIC,
            self.log_id,
            self.sequence,
            self.position,
            self.epoch,
            self.segment,
            self.chain,
        )
        return (body + _CRC.pack(crc32(body))).ljust(SLOT_BYTES, b"\0")


class HintReading(NamedTuple):
    """What the file says: the newest good slot, where it stands, and whether the other is bad."""

    hint: Hint
    slot: int
    other_is_bad: bool


def decode_slot(content: bytes) -> Hint | None:
    """The hint in a slot, or None where it does not verify."""
    if len(content) < SLOT_BYTES or content[_USED:].strip(b"\0"):
        return None
    (crc,) = _CRC.unpack_from(content, _SLOT.size)
    if crc != crc32(content[: _SLOT.size]):
        return None
    magic, log_id, sequence, position, epoch, segment, chain = _SLOT.unpack_from(content)
    if magic != HINT_MAGIC:
        return None
    return Hint(log_id, sequence, position, epoch, segment, chain)


def judge_slots(content: bytes) -> HintReading | None:
    """The table above, as far as the file alone decides it. None: no slot verifies."""
    slots = [content[:SLOT_BYTES], content[SLOT_BYTES : 2 * SLOT_BYTES]]
    read = [decode_slot(slot) for slot in slots]
    good = [(hint.sequence, place) for place, hint in enumerate(read) if hint is not None]
    if not good:
        return None
    _, place = max(good)
    hint = read[place]
    if hint is None:
        return None
    other = 1 - place
    bad = read[other] is None and (
        len(slots[other]) < SLOT_BYTES or bool(slots[other].strip(b"\0"))
    )
    return HintReading(hint, place, bad or len(content) != 2 * SLOT_BYTES)


def read_hint(disk: Disk, folder: Path) -> HintReading:
    path = folder / HINT_NAME
    try:
        content = read_all(disk, path)
    except FileNotFoundError:
        raise LogDamaged(path, 0, "the file that says what was acknowledged is missing") from None
    reading = judge_slots(content)
    if reading is None:
        raise LogDamaged(path, 0, "neither copy of what was acknowledged can be read")
    return reading


def create_hint(disk: Disk, folder: Path, hint: Hint) -> None:
    """The first hint of a log appears whole or not at all."""
    temporary = folder / f"{HINT_NAME}.tmp"
    fd = disk.open(temporary, create=True)
    try:
        disk.truncate(fd, 0)
        write_all(disk, fd, hint.encode().ljust(2 * SLOT_BYTES, b"\0"), 0)
        disk.fsync(fd)
    finally:
        disk.close(fd)
    disk.rename(temporary, folder / HINT_NAME)
    disk.fsync_dir(folder)


class HintFile:
    """The hint of a log that this process writes. Never written while a frame is unsynced.

    It is held locked, as the folder's lock file is: that one is sometimes deleted in good faith,
    this one nobody can lose without losing the log.
    """

    def __init__(self, disk: Disk, folder: Path) -> None:
        self._disk = disk
        self._path = folder / HINT_NAME
        # Locking would make the file: where it is missing or damaged nothing may be touched.
        read_hint(disk, folder)
        fd = disk.lock(self._path)
        if fd is None:
            raise LogInUse(folder.parent, "a program whose lock file was removed")
        self._fd = fd
        try:
            reading = read_hint(disk, folder)
        except BaseException:
            self.close()
            raise
        self.hint = reading.hint
        self.is_whole = not reading.other_is_bad
        self._slot = reading.slot

    def is_in_place(self) -> bool:
        """Whether the folder that was opened is still the one that bears its name."""
        return self._disk.is_at(self._fd, self._path)

    def settle(self) -> None:
        """Write the good slot again: a sync that failed before may have left it only in memory."""
        self._put(self._slot, self.hint)

    def note(self, position: int, epoch: int, segment: int, chain: bytes) -> None:
        """Remember durably that everything up to `position` is durable. A repeat writes nothing."""
        known = self.hint
        new = known._replace(
            sequence=known.sequence + 1,
            position=position,
            epoch=epoch,
            segment=segment,
            chain=chain,
        )
        if new._replace(sequence=known.sequence) == known:
            return
        self._put(1 - self._slot, new)
        self._slot = 1 - self._slot
        self.hint = new

    def close(self) -> None:
        self._disk.unlock(self._fd)

    def _put(self, slot: int, hint: Hint) -> None:
        write_all(self._disk, self._fd, hint.encode(), slot * SLOT_BYTES)
        self._disk.fdatasync(self._fd)


def bad_hint_slot(disk: Disk, folder: Path) -> bool:
    """Whether one of the two copies of what was acknowledged cannot be read. The next owner of the
    log writes it again."""
    return read_hint(disk, folder).other_is_bad
