"""Frames: one batch of records, the unit of write, checksum and sync. Pure: bytes in, facts out.

A frame is a header of 76 bytes, little endian, and a payload:

    offset size field
         0    4 magic
         4    4 payload length
         8    8 position of the first record
        16    4 number of records
        20    4 flags, 0
        24    8 epoch of the writer
        32    8 at: log time in milliseconds
        40    8 wall: wall clock in milliseconds
        48    8 acked: the highest position known durable when this was written
        56   16 chain: BLAKE2b-16 over the previous chain, bytes 0 to 56 and the payload
        72    4 crc32 over bytes 0 to 72 and the payload, begun with the crc32 of the log's id

The payload is, for each record, its length in 4 bytes and its bytes. The checksum begins with the
log's id so that a frame of another log, lying in a record or in a recycled block, is never taken
for one of ours.
"""

import struct
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, NamedTuple
from zlib import crc32

from msgspec import Struct

from holdfast.core.errors import BrokenInvariant

FIELDS: Final = struct.Struct("<IIQIIQqqQ")
HEADER: Final = struct.Struct("<IIQIIQqqQ16sI")
LENGTH: Final = struct.Struct("<I")
COUNT: Final = struct.Struct("<QI")
COUNT_AT: Final = 8
HEADER_BYTES: Final = HEADER.size
CHAIN_AT: Final = FIELDS.size
CRC_AT: Final = HEADER_BYTES - 4
MAGIC: Final = 0xB7464CE9
MAGIC_BYTES: Final = LENGTH.pack(MAGIC)
PAYLOAD_CAP: Final = 64 * 1024 * 1024
FRAME_CAP: Final = HEADER_BYTES + PAYLOAD_CAP
MARK_EVERY: Final = 4096
PATIENCE: Final = 32


class Frame(Struct, frozen=True):
    """A batch of records as it stands in the log; `chain` is the chain after it."""

    first: int
    epoch: int
    at: int
    wall: int
    acked: int
    records: tuple[bytes, ...]
    chain: bytes

    @property
    def last(self) -> int:
        return self.first + len(self.records) - 1


class Edge(NamedTuple):
    """Where a log stands: what the next frame must continue."""

    position: int
    epoch: int
    chain: bytes


class Scan(NamedTuple):
    """How far a run of frames is good, and what ended it.

    `end` is the offset after the last good frame and `tail` the offset of that frame (-1: none).
    `flaw` says why the bytes at `end` are no frame. `marks` are (position, offset) pairs about
    every 4 KiB, from which any frame can be found quickly.
    """

    edge: Edge
    end: int
    tail: int
    flaw: str
    marks: list[tuple[int, int]]


def seed_of(log_id: bytes) -> int:
    """What the checksums of this log begin with."""
    return crc32(log_id)


def genesis(log_id: bytes) -> Edge:
    """Where a log stands before its first record."""
    return Edge(0, 0, blake2b(log_id, digest_size=16, person=b"holdfast log").digest())


def payload_of(records: Sequence[bytes]) -> bytes:
    pack = LENGTH.pack
    if len(records) == 1:
        return pack(len(records[0])) + records[0]
    return b"".join([part for record in records for part in (pack(len(record)), record)])


def encode(
    edge: Edge, seed: int, records: Sequence[bytes], *, epoch: int, at: int, wall: int
) -> tuple[bytes, Edge]:
    """The bytes of the frame that continues `edge`, and where the log stands after it.

    Everything before a frame is durable when it is written, so it acknowledges all of it.
    """
    if not records:
        raise BrokenInvariant("a frame holds at least one record")
    payload = payload_of(records)
    if len(payload) > PAYLOAD_CAP:
        raise BrokenInvariant(f"a frame of {len(payload)} bytes is beyond the cap {PAYLOAD_CAP}")
    position, _, chain = edge
    fields = FIELDS.pack(
        MAGIC, len(payload), position + 1, len(records), 0, epoch, at, wall, position
    )
    digest = blake2b(chain + fields, digest_size=16)
    digest.update(payload)
    chain = digest.digest()
    head = fields + chain
    crc = crc32(payload, crc32(head, seed))
    return b"".join((head, LENGTH.pack(crc), payload)), Edge(position + len(records), epoch, chain)


def scan(content: bytes, start: int, edge: Edge, seed: int) -> Scan:
    """Follow the frames from `start` while each one verifies and continues the one before.

    A left fold: scanning from any frame's end with the edge there gives the same as from the start.
    """
    view = memoryview(content)
    size = len(content)
    unpack = HEADER.unpack_from
    position, current, chain = edge
    offset, tail, marked = start, -1, -MARK_EVERY
    marks: list[tuple[int, int]] = []
    flaw = ""
    while True:
        if offset + HEADER_BYTES > size:
            flaw = "the file ends here"
            break
        magic, length, first, count, flags, epoch, _, _, acked, link, crc = unpack(content, offset)
        body = offset + HEADER_BYTES
        end = body + length
        if magic != MAGIC:
            flaw = "no frame begins here"
        elif length > PAYLOAD_CAP or end > size:
            flaw = f"a frame claims {length} bytes where {size - body} are left"
        elif crc32(view[body:end], crc32(view[offset : offset + CRC_AT], seed)) != crc:
            flaw = "the frame's checksum does not match"
        elif first != position + 1 or count < 1:
            flaw = f"the frame holds position {first} where {position + 1} is due"
        elif epoch < current or acked >= first or flags:
            flaw = f"the frame is out of line: epoch {epoch} after {current}, acked {acked}"
        else:
            digest = blake2b(chain, digest_size=16)
            digest.update(view[offset : offset + CHAIN_AT])
            digest.update(view[body:end])
            if digest.digest() != link:
                flaw = "the frame does not continue the chain"
        if flaw:
            break
        if offset - marked >= MARK_EVERY:
            marks.append((first, offset))
            marked = offset
        position, current, chain = position + count, epoch, link
        tail, offset = offset, end
    return Scan(Edge(position, current, chain), offset, tail, flaw, marks)


def decode(content: bytes, offset: int, seed: int, previous: bytes | None) -> Frame | str:
    """The frame at `offset`, or why there is none. With `previous`, the chain is checked too."""
    if (flaw := flaw_at(content, offset, seed)) is not None:
        return flaw
    _, length, first, count, _, epoch, at, wall, acked, chain, _ = HEADER.unpack_from(
        content, offset
    )
    body = offset + HEADER_BYTES
    if previous is not None:
        digest = blake2b(previous + content[offset : offset + CHAIN_AT], digest_size=16)
        digest.update(memoryview(content)[body : body + length])
        if digest.digest() != chain:
            return "the frame does not continue the chain"
    records = []
    cursor, end = body, body + length
    unpack = LENGTH.unpack_from
    while cursor + 4 <= end:
        stop = cursor + 4 + unpack(content, cursor)[0]
        records.append(content[cursor + 4 : stop])
        cursor = stop
    if cursor != end or len(records) != count:
        return f"the frame holds {len(records)} records where it claims {count}"
    return Frame(first, epoch, at, wall, acked, tuple(records), chain)


def flaw_at(content: bytes, offset: int, seed: int) -> str | None:
    """Why the bytes at `offset` are no whole frame of this log by themselves; None if they are."""
    if offset + HEADER_BYTES > len(content):
        return "the file ends here"
    magic, length, *_, crc = HEADER.unpack_from(content, offset)
    body = offset + HEADER_BYTES
    if magic != MAGIC:
        return "no frame begins here"
    if length > PAYLOAD_CAP or body + length > len(content):
        return f"a frame claims {length} bytes where {len(content) - body} are left"
    view = memoryview(content)
    if crc32(view[body : body + length], crc32(view[offset : offset + CRC_AT], seed)) != crc:
        return "the frame's checksum does not match"
    return None


def extent_at(content: bytes, offset: int) -> int:
    """How many bytes the frame at `offset` claims; only its header need be there."""
    length = HEADER.unpack_from(content, offset)[1]
    return HEADER_BYTES + int(length)


def later_frame(content: bytes, offset: int, position: int, seed: int) -> int | None:
    """Where, from `offset` on, a whole frame lies that proves the bytes at `offset` were safe once.

    At `offset` itself any whole frame is such a proof. Behind it, a frame of `position` or later:
    it was written only after all before it was durable. Older frames prove nothing: a record may
    hold a copy of the log's own past. A tail made to look like very many frames, so that checking
    them all would take for ever, counts as such a proof too: refusing is the safe answer.
    """
    if flaw_at(content, offset, seed) is None:
        return offset
    patience = PATIENCE * len(content)
    found = content.find(MAGIC_BYTES, offset + 1)
    while 0 <= found <= len(content) - HEADER_BYTES:
        _, length, first, *_ = HEADER.unpack_from(content, found)
        if first >= position and found + HEADER_BYTES + length <= len(content):
            patience -= length
            if patience < 0 or flaw_at(content, found, seed) is None:
                return found
        found = content.find(MAGIC_BYTES, found + 1)
    return None
