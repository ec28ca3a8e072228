"""Segments: files of zero-filled space that frames are written into, one after another.

A segment opens with a header of 4096 bytes, alone in its page, little endian:

    offset size field
         0    8 magic "HOLDFAST"
         8    4 format version, 1
        12    4 zero
        16   16 log id
        32    8 position of the first record this segment will hold
        40    8 epoch of the writer that began it
        48   16 chain before its first frame
        64   …  zeros
      4092    4 crc32 over bytes 0 to 4092

The checksum is judged before the version: a flipped bit is damage, never a newer format. Every
later format keeps the magic, the version and this checksum where they are.
"""

import struct
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from holdfast.core.errors import BrokenInvariant
from holdfast.wal.disk import NAME_DIGITS, Disk, is_numbered, read_all
from holdfast.wal.errors import HistoryGone, LogDamaged, NewerFormat
from holdfast.wal.frames import (
    COUNT,
    COUNT_AT,
    HEADER_BYTES,
    MARK_EVERY,
    Frame,
    Scan,
    decode,
    extent_at,
)

FORMAT: Final = 1
SEGMENT_HEADER_BYTES: Final = 4096
SEGMENT_MAGIC: Final = b"HOLDFAST"
WINDOW_BYTES: Final = 256 * 1024
FIRST_WINDOW_BYTES: Final = 8 * 1024
SUFFIX: Final = ".seg"
NEXT_NAME: Final = "next.seg"

_FIELDS: Final = struct.Struct("<8sI4x16sQQ16s")
_CRC: Final = struct.Struct("<I")


class SegmentHeader(NamedTuple):
    """Which log a segment belongs to and what its first frame must continue."""

    log_id: bytes
    first: int
    epoch: int
    chain: bytes

    def encode(self) -> bytes:
        fields = _FIELDS.pack(
            SEGMENT_MAGIC, FORMAT, self.log_id, self.first, self.epoch, self.chain
        )
        body = fields.ljust(SEGMENT_HEADER_BYTES - 4, b"\0")
        return body + _CRC.pack(crc32(body))


def decode_header(path: Path, content: bytes) -> SegmentHeader:
    """The header of a segment, or the reason to go no further."""
    if len(content) < SEGMENT_HEADER_BYTES:
        raise LogDamaged(path, len(content), "the segment is shorter than its header")
    body = content[: SEGMENT_HEADER_BYTES - 4]
    (crc,) = _CRC.unpack_from(content, SEGMENT_HEADER_BYTES - 4)
    magic, version, log_id, first, epoch, chain = _FIELDS.unpack_from(content)
    if crc != crc32(body):
        raise LogDamaged(path, 0, "the segment header's checksum does not match")
    if magic != SEGMENT_MAGIC:
        raise LogDamaged(path, 0, "this is not a segment of a log")
    if version > FORMAT:
        raise NewerFormat(path, version, FORMAT)
    if path.name != segment_name(first):
        raise LogDamaged(path, 32, f"the segment begins at position {first}, not as it is named")
    return SegmentHeader(log_id, first, epoch, chain)


def check_format(disk: Disk, folder: Path) -> None:
    """Refuse a folder of a newer format before anything else in it is judged by our eyes."""
    for path in segment_paths(disk, folder)[-1:]:
        content = read_all(disk, path, SEGMENT_HEADER_BYTES)
        # Damage is for the survey to name; here only a newer format is looked for.
        with suppress(LogDamaged):
            decode_header(path, content)


def segment_name(first: int) -> str:
    return f"{first:0{NAME_DIGITS}d}{SUFFIX}"


def segment_paths(disk: Disk, folder: Path) -> list[Path]:
    """The segments of a log folder, oldest first; whatever else lies there is not looked at."""
    names = disk.listdir(folder)
    return [folder / name for name in sorted(names) if is_numbered(name, SUFFIX)]


class Segment:
    """One segment and where its frames lie: a mark about every 4 KiB, not one for every frame.

    The writer moves `end` before `last`, so whoever reads `last` first finds the bytes it stands
    for below `end`.
    """

    def __init__(self, path: Path, header: SegmentHeader, size: int) -> None:
        self.path = path
        self.header = header
        self.first = header.first
        self.size = size
        self.end = SEGMENT_HEADER_BYTES
        self.last = header.first - 1
        self._positions = array("Q")
        self._offsets = array("Q")

    def take(self, found: Scan) -> None:
        """Adopt what a scan of this segment found."""
        for position, offset in found.marks:
            self._offsets.append(offset)
            self._positions.append(position)
        self.end = found.end
        self.last = found.edge.position

    def grow(self, offset: int, end: int, last: int) -> None:
        """A frame was written at `offset`."""
        if not self._offsets or offset - self._offsets[-1] >= MARK_EVERY:
            self._offsets.append(offset)
            self._positions.append(self.last + 1)
        self.end = end
        self.last = last

    def before(self, position: int) -> int:
        """The offset of a frame that holds `position` or stands a little before it."""
        mark = bisect_right(self._positions, position) - 1
        return self._offsets[mark] if mark >= 0 else SEGMENT_HEADER_BYTES


class History:
    """The frames of a folder, found by position. Safe to read while the one writer appends.

    The list of segments is replaced, never changed, so a reader in another thread sees either the
    old list or the new one.
    """

    def __init__(self, disk: Disk, seed: int, segments: list[Segment]) -> None:
        self.segments = segments
        self._disk = disk
        self._seed = seed
        self._recent: Frame | None = None

    @property
    def oldest(self) -> int:
        return self.segments[0].first

    @property
    def last(self) -> int:
        return self.segments[-1].last

    def add(self, segment: Segment) -> None:
        """One without a frame gives its name to the next, which begins where it did."""
        kept = (former for former in self.segments if former.path != segment.path)
        self.segments = [*kept, segment]

    def forget(self, segment: Segment) -> None:
        self.segments = [kept for kept in self.segments if kept is not segment]

    def bytes_after(self, position: int) -> int:
        """About how many bytes of frames come after `position`."""
        return sum(
            segment.end - segment.before(position + 1)
            for segment in self.segments
            if segment.last > position
        )

    def read(self, position: int, upto: Callable[[], int]) -> Iterator[Frame]:
        """Frames from the one that holds `position` to wherever the log then ends."""
        if position < self.oldest:
            raise HistoryGone(self.oldest)
        return self._frames(position, upto)

    def frame(self, position: int) -> Frame:
        """The frame that holds `position`, verified by its checksum."""
        if position > self.last or position < 1:
            raise BrokenInvariant(
                f"position {position} was never written: the log ends at {self.last}"
            )
        if position < self.oldest:
            raise HistoryGone(self.oldest)
        recent = self._recent
        if recent is not None and recent.first <= position <= recent.last:
            return recent
        for frame in self._frames(position, lambda: position):
            self._recent = frame
            return frame
        raise HistoryGone(self.oldest)

    def chain_after(self, position: int) -> bytes | None:
        """The chain head right after `position`; None where no frame ends there any more."""
        for segment in self.segments:
            if segment.first - 1 == position:
                return segment.header.chain
        if position < self.oldest or position > self.last:
            return None
        frame = self.frame(position)
        return frame.chain if frame.last == position else None

    def _segment_of(self, position: int) -> Segment:
        segments = self.segments
        if position < segments[0].first:
            raise HistoryGone(segments[0].first)
        return segments[bisect_right(segments, position, key=_first_of) - 1]

    def _frames(self, position: int, upto: Callable[[], int]) -> Iterator[Frame]:
        previous: bytes | None = None
        while position <= upto():
            segment = self._segment_of(position)
            if position == segment.first:
                previous = segment.header.chain
            for frame in self._within(segment, position, previous):
                previous = frame.chain
                position = frame.last + 1
                yield frame

    def _within(self, segment: Segment, position: int, previous: bytes | None) -> Iterator[Frame]:
        try:
            fd = self._disk.open(segment.path)
        except FileNotFoundError:
            # The writer may be another process, which tells us nothing of what it drops.
            raise HistoryGone(max(self.oldest, segment.last + 1)) from None
        try:
            window, base, offset = b"", 0, segment.before(position)
            while position <= segment.last:
                window, base = self._cover(fd, segment, window, base, offset)
                place = offset - base
                first, count = COUNT.unpack_from(window, place + COUNT_AT)
                if first + count > position:
                    found = decode(window, place, self._seed, previous)
                    if isinstance(found, str):
                        raise LogDamaged(segment.path, offset, found)
                    if found.first > position:
                        raise LogDamaged(segment.path, offset, f"position {position} is missing")
                    position, previous = found.last + 1, found.chain
                    yield found
                offset += extent_at(window, place)
        finally:
            self._disk.close(fd)

    def _cover(
        self, fd: int, segment: Segment, window: bytes, base: int, offset: int
    ) -> tuple[bytes, int]:
        """A window on the file that holds the whole frame at `offset`, and where it begins."""
        wanted = HEADER_BYTES
        for _ in range(2):
            if offset - base + wanted > len(window):
                room = segment.end - offset
                if wanted > room:
                    raise LogDamaged(segment.path, offset, "a frame reaches past the written end")
                # The first look is small: most readers want one record and no more.
                usual = WINDOW_BYTES if window else FIRST_WINDOW_BYTES
                window = self._disk.pread(fd, min(room, max(usual, wanted)), offset)
                base = offset
                if len(window) < wanted:
                    raise LogDamaged(segment.path, offset + len(window), "the file was cut short")
            wanted = extent_at(window, offset - base)
        return window, base


def _first_of(segment: Segment) -> int:
    return segment.first
