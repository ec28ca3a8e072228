"""The slate: a piece of memory a child writes on and its parent reads, even after it has died.

Sending every result at once would cost more than most tasks, so a child collects results and
sends them together. What it has not sent yet stands on the slate, with the name of the task it is
in. When the child dies, its parent wipes nothing before reading: tasks that had ended keep their
results, the one that was running is known by name, and no neighbour pays for it.

The child alone writes while it lives. Each word is stored whole; the results are counted before
the next task is named, so no moment of death makes an ended task look like one never begun.
"""

import mmap
import os
import tempfile
from typing import Final

SIZE: Final = 1 << 20

_HEADER: Final = 64
_FILLED: Final = 0
_SINCE: Final = 1
_LEASE: Final = 2
_STARTS: Final = 3
_LENGTH_BITS: Final = 32
_LENGTH_MASK: Final = (1 << _LENGTH_BITS) - 1

NO_LEASE: Final = 0


def shared_file(label: str) -> int:
    """A file without a name, in memory where the system can: the descriptor is all there is."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(label)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class Slate:
    """Both ends of the slate. `descriptor` is what a child needs to see the same one."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        if os.fstat(descriptor).st_size < SIZE:
            os.ftruncate(descriptor, SIZE)
        self._memory = mmap.mmap(descriptor, SIZE)
        self._words = memoryview(self._memory)[:_HEADER].cast("Q")
        self._end = _HEADER

    # The child's side.

    def name(self, lease: int, since_ns: int) -> None:
        """From this moment the child is in this task, or in none."""
        self._words[_SINCE] = since_ns
        self._words[_LEASE] = lease

    def mark(self, starts: tuple[int, int]) -> None:
        """From here on both outputs belong to the next task. Told between two tasks, and only
        where the former one printed anything."""
        self._words[_STARTS], self._words[_STARTS + 1] = starts

    def add(self, outcome: bytes) -> bool:
        """Write down an outcome that has not been sent. False when there is no room."""
        start = self._end
        end = start + len(outcome)
        if end > SIZE:
            return False
        self._memory[start:end] = outcome
        self._words[_FILLED] += (1 << _LENGTH_BITS) + len(outcome)
        self._end = end
        return True

    def clear(self) -> None:
        """What stood here has been sent."""
        self._words[_FILLED] = 0
        self._end = _HEADER

    # Both sides.

    def unsent(self) -> tuple[int, bytes]:
        """How many outcomes stand here, and their bytes one after another."""
        filled = self._words[_FILLED]
        length = filled & _LENGTH_MASK
        return filled >> _LENGTH_BITS, self._memory[_HEADER : _HEADER + length]

    # The parent's side.

    def named(self) -> tuple[int, int]:
        """The lease of the task the child is in (`NO_LEASE` for none), and since when."""
        while True:
            lease = self._words[_LEASE]
            since_ns = self._words[_SINCE]
            if lease == self._words[_LEASE]:
                return lease, since_ns

    def shown(self) -> tuple[int, int, int]:
        """The lease of the task the child is in, and where its output begins. One that has just
        ended may be shown with the beginning of the next, and so with nothing."""
        words = self._words
        while True:
            found = (words[_LEASE], words[_STARTS], words[_STARTS + 1])
            if found[0] == words[_LEASE]:
                return found

    def wipe(self) -> None:
        """Make the slate ready for the next child. The last one must be dead."""
        self.clear()
        self.name(NO_LEASE, 0)

    def close(self) -> None:
        self._words.release()
        self._memory.close()
        os.close(self.descriptor)
