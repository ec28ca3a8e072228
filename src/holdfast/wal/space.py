"""Space prepared ahead: the next segment is zero-filled and synced before it is needed.

Zeros are really written, because space that is only reserved may still have to be allocated by a
frame's write. Where there is no room for a segment of the usual size a smaller one will do. Running
out of disk here is backpressure: nothing of the log is touched.
"""

from pathlib import Path
from threading import Lock
from typing import Final

from holdfast.wal.disk import Disk, is_full, write_all
from holdfast.wal.frames import Edge
from holdfast.wal.segments import (
    NEXT_NAME,
    SEGMENT_HEADER_BYTES,
    Segment,
    SegmentHeader,
    segment_name,
)

SMALLEST_BYTES: Final = 1024 * 1024
LARGEST_BYTES: Final = 64 * 1024 * 1024
SCANT_BYTES: Final = 64 * 1024
PAGE_BYTES: Final = 4096
FILL_BYTES: Final = 1024 * 1024


class SegmentSpace:
    """Makes segments. `pressure` is up while there was no room for one of the usual size."""

    def __init__(self, disk: Disk, folder: Path, segment_bytes: int | None) -> None:
        self.pressure = False
        self._disk = disk
        self._folder = folder
        self._fixed = segment_bytes
        self._ready = 0
        self._is_closed = False
        self._preparing = Lock()

    @property
    def is_ready(self) -> bool:
        return self._ready > 0

    def size_after(self, current: int) -> int:
        """How large the segment after one of `current` bytes should be: small logs stay small."""
        if self._fixed is not None:
            return self._fixed
        return min(LARGEST_BYTES, max(SMALLEST_BYTES, 2 * current))

    def sizes_for(self, frame_bytes: int, current: int) -> tuple[int, int]:
        """The least and the usual size of a segment that begins with a frame of this size."""
        needed = -(-(SEGMENT_HEADER_BYTES + frame_bytes) // PAGE_BYTES) * PAGE_BYTES
        usual = max(self.size_after(current), needed)
        return min(usual, max(needed, SCANT_BYTES)), usual

    def prepare(self, frame_bytes: int, current: int) -> bool:
        """Have space ready for a frame of this size; False, with pressure, while there is none."""
        least, usual = self.sizes_for(frame_bytes, current)
        size = usual
        with self._preparing:
            if self._is_closed:
                return False
            if self._ready >= SEGMENT_HEADER_BYTES + frame_bytes:
                return True
            self._ready = 0
            while not self._has_room_for(size):
                self.pressure = True
                if size == least:
                    return False
                size = max(least, size // 2 // PAGE_BYTES * PAGE_BYTES)
            self._ready = size
            self.pressure = size < usual
            return True

    def begin(self, log_id: bytes, edge: Edge, epoch: int) -> Segment:
        """Turn the prepared space into the segment that continues `edge`, durably."""
        header = SegmentHeader(log_id, edge.position + 1, epoch, edge.chain)
        source = self._folder / NEXT_NAME
        target = self._folder / segment_name(header.first)
        with self._preparing:
            size, self._ready = self._ready, 0
            fd = self._disk.open(source, write=True)
            try:
                write_all(self._disk, fd, header.encode(), 0)
                self._disk.fsync(fd)
            finally:
                self._disk.close(fd)
            self._disk.rename(source, target)
            self._disk.fsync_dir(self._folder)
        return Segment(target, header, size)

    def close(self) -> None:
        """Wait for a preparation under way and start no other.

        Zeros written after the folder was let go could fall on the next writer's frames.
        """
        with self._preparing:
            self._is_closed = True

    def _has_room_for(self, size: int) -> bool:
        try:
            self._fill(size)
        except OSError as error:
            if not is_full(error):
                raise
            self._give_back()
            return False
        return True

    def _fill(self, size: int) -> None:
        """Zeros from end to end, also over what an earlier writer left: that needs no new space."""
        fd = self._disk.open(self._folder / NEXT_NAME, create=True)
        try:
            if self._disk.size(fd) > size:
                self._disk.truncate(fd, size)
            zeros = bytes(min(size, FILL_BYTES))
            for offset in range(0, size, FILL_BYTES):
                write_all(self._disk, fd, zeros[: size - offset], offset)
            self._disk.fsync(fd)
        finally:
            self._disk.close(fd)

    def _give_back(self) -> None:
        """A half-filled file would keep the disk full for everyone else."""
        path = self._folder / NEXT_NAME
        if self._disk.exists(path):
            self._disk.unlink(path)
