"""A variable of this process's environment that changes with every task.

The C library keeps every value that a variable ever had: some 80 bytes each, for as long as the
process lives, which in a warm process is millions of tasks. So the value is given to it once, as
memory of ours, and written over in place. Half of what a short task cost was this.
"""

import ctypes
import os
from typing import Final

ROOM: Final = 256
"""How long name and value together usually are at most; a longer one is given more."""

_library: Final = ctypes.CDLL(None, use_errno=True)


class Variable:
    """`is_there`: the environment has it as we wrote it last, as far as we have seen."""

    def __init__(self, name: str) -> None:
        self._name = os.fsencode(name)
        # What Python shows of the environment: to write there as usual is to tell the C library.
        self._shown: dict[bytes, bytes] = vars(os.environ)["_data"]
        self._start = len(self._name) + 1
        self._text = b""
        self.is_there = False
        self._make(ROOM)
        self._former = self._buffer

    def write(self, text: bytes) -> None:
        """Have it from now on, for whoever looks here and for every program that is started."""
        # The same object, or somebody else has written it, or taken it away.
        if self._shown.get(self._name) is not self._text:
            self.is_there = False
        elif text == self._text and self.is_there:
            return
        end = self._start + len(text) + 1
        if end > len(self._memory):
            # The environment is ours at the old place until it is given the new one.
            self._former = self._buffer
            self._make(2 * end)
            self.is_there = False
        self._memory[self._start : end] = text + b"\0"
        self._shown[self._name] = self._text = text
        if not self.is_there:
            self._give()

    def _make(self, size: int) -> None:
        self._buffer = ctypes.create_string_buffer(self._name + b"=", size)
        self._memory = memoryview(self._buffer).cast("B")

    def _give(self) -> None:
        if _library.putenv(self._buffer):
            raise OSError(ctypes.get_errno(), f"{os.fsdecode(self._name)} cannot be set")
        self.is_there = True
