"""What a command prints, kept in a file that cannot grow without bound.

Everything is written as it comes, and what lies between the head and a tail that moves on is given
back to the disk: the file has a hole there, and whoever reads it is told. Where the disk cannot do
that, only the head is written as it comes; the tail follows when the command has ended, after a
line that says how much is missing.
"""

from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast.worker.captures import ALIGNED, punch

HEAD_BYTES_MAX: Final = 2 * 1024 * 1024
TAIL_BYTES_MAX: Final = 2 * 1024 * 1024
LAST_WORDS_BYTES_MAX: Final = 2 * 1024
LAST_WORDS_LINES_MAX: Final = 20


class Capture:
    """One stream of one attempt. A full disk costs the output, never the command."""

    def __init__(
        self, path: Path, *, head_max: int = HEAD_BYTES_MAX, tail_max: int = TAIL_BYTES_MAX
    ) -> None:
        self._head_max = self._head_room = head_max
        self._size = self._punched = 0
        self._tail_max = max(tail_max, LAST_WORDS_BYTES_MAX)
        # Everything past the head, cut to the bound now and then.
        self._tail = bytearray()
        self._last = b""
        self._dropped = 0
        # Unbuffered: whoever looks at the file sees what was printed so far.
        self._file = path.open("wb", buffering=0)
        self._can_punch = punch(self._file.fileno(), 0, ALIGNED)

    def add(self, chunk: bytes) -> None:
        self._last = (self._last + chunk)[-LAST_WORDS_BYTES_MAX:]
        if self._can_punch:
            self._write(chunk)
            self._size += len(chunk)
            self._punch()
            return
        head, rest = chunk[: self._head_room], chunk[self._head_room :]
        if head:
            self._head_room -= len(head)
            self._write(head)
        if rest:
            self._tail += rest
            if len(self._tail) > 2 * self._tail_max:
                self._cut()

    def close(self) -> None:
        self._cut()
        if self._dropped:
            self._write(f"\n… {self._dropped} bytes left out …\n".encode())
        self._write(bytes(self._tail))
        self._file.close()

    def last_words(self) -> str:
        """The last lines, as text."""
        lines = self._last.decode("utf-8", "replace").strip().splitlines()
        return "\n".join(lines[-LAST_WORDS_LINES_MAX:])

    def _punch(self) -> None:
        """Give back what lies before the tail, now and then."""
        start = max(self._head_max, self._punched)
        if self._size - start > 2 * self._tail_max:
            self._punched = self._size - self._tail_max
            punch(self._file.fileno(), start, self._punched)

    def _cut(self) -> None:
        excess = len(self._tail) - self._tail_max
        if excess > 0:
            self._dropped += excess
            del self._tail[:excess]

    def _write(self, chunk: bytes) -> None:
        with suppress(OSError):
            self._file.write(chunk)
