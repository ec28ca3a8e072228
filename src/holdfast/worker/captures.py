"""Files that take what tasks print, and forget it from the front.

A file only ever grows, so an offset means the same byte for ever. What has been sent, or is too
much to be sent, is punched out: the file keeps its length, and the disk gets its room back. A hole
is therefore what was lost, and whoever reads finds out where it ends.
"""

import ctypes
import errno
import fcntl
import os
import tempfile
from pathlib import Path
from typing import Final

STREAMS: Final = ("stdout", "stderr")
ALIGNED: Final = 64 * 1024
"""Only whole blocks are punched out: the rest of a block would be overwritten with zeros."""
PUNCH_LEAST: Final = 512 * 1024

_KEEP_SIZE_AND_PUNCH: Final = 0x01 | 0x02
_DATA: Final = getattr(os, "SEEK_DATA", None)
_HOLE: Final = getattr(os, "SEEK_HOLE", None)


def punch(descriptor: int, start: int, end: int) -> bool:
    """Give the whole blocks between these offsets back to the disk. False where it cannot."""
    start, end = -(-start // ALIGNED) * ALIGNED, end // ALIGNED * ALIGNED
    if start >= end:
        return True
    fallocate = getattr(ctypes.CDLL(None, use_errno=True), "fallocate", None)
    if fallocate is None:
        return False
    span = (ctypes.c_int64(start), ctypes.c_int64(end - start))
    return int(fallocate(descriptor, _KEEP_SIZE_AND_PUNCH, *span)) == 0


class CaptureFile:
    """One file, read by us and written by others. `start` is where reading began to matter."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._punched = 0

    @classmethod
    def in_folder(cls, folder: Path) -> "CaptureFile":
        """A file without a name, to be given to children as their output."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder) as file:
            descriptor = os.dup(file.fileno())
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        # Many may write, and a program that is started anew must not begin at the front.
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_APPEND)
        return cls(descriptor)

    @classmethod
    def at(cls, path: Path) -> "CaptureFile":
        """A file that somebody else fills."""
        return cls(os.open(path, os.O_RDWR | os.O_CLOEXEC))

    def size(self) -> int:
        return os.fstat(self.descriptor).st_size

    def read(self, start: int, end: int) -> tuple[int, bytes]:
        """What is there between these offsets up to the next hole, and where it begins."""
        begin = self._data_at(start, end)
        if begin >= end:
            return end, b""
        content = os.pread(self.descriptor, end - begin, begin)
        # Looked at afterwards: what is no hole now was none when it was read.
        after = self._data_at(begin, end)
        if after != begin:
            return after, b""
        hole = self._hole_at(begin, begin + len(content))
        return begin, content[: hole - begin]

    def forget(self, end: int) -> None:
        """Nobody needs what is before this offset."""
        if end - self._punched >= PUNCH_LEAST:
            punch(self.descriptor, self._punched, end)
            self._punched = end // ALIGNED * ALIGNED

    def lose(self, start: int, end: int) -> None:
        """Let go of something in the middle."""
        punch(self.descriptor, start, end)

    def close(self) -> None:
        os.close(self.descriptor)

    def _data_at(self, start: int, end: int) -> int:
        """The first offset from `start` on that is no hole, at most `end`."""
        if _DATA is None:
            return start
        try:
            return min(end, os.lseek(self.descriptor, start, _DATA))
        except OSError as error:
            # There is nothing more in the file; or the disk knows of no holes, and has none.
            return end if error.errno == errno.ENXIO else start

    def _hole_at(self, start: int, end: int) -> int:
        if _HOLE is None or start >= end:
            return end
        try:
            return min(end, os.lseek(self.descriptor, start, _HOLE))
        except OSError:
            return end


class LaneFiles:
    """The files of an executor's lanes, two a lane. They outlive the executor, because what was
    printed is sent after it has ended."""

    def __init__(self, folder: Path, lanes: int) -> None:
        self.lanes: list[tuple[CaptureFile, CaptureFile]] = []
        try:
            for _ in range(lanes):
                self.lanes.append((CaptureFile.in_folder(folder), CaptureFile.in_folder(folder)))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for files in self.lanes:
            for file in files:
                file.close()
        self.lanes = []
