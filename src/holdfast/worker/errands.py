"""What the executor of commands and its warden say to each other, and how it looks on the socket.

Names, arguments and values are bytes, because the system does not hold them to any encoding. Times
are milliseconds of the machine's monotonic clock, which both processes read.
"""

import struct
from collections.abc import Iterator
from typing import Final

from msgspec import Struct
from msgspec.msgpack import Decoder, Encoder

from holdfast.core.ids import LeaseId

_HEAD: Final = struct.Struct("<I")
_ENCODE: Final = Encoder().encode


class Launch(Struct, frozen=True, array_like=True, tag=0):
    """Start this command. `must_end`: it may not outlive what `Until` says. `is_service`: who
    looks after it wants to know which process it is, and its last words, on whichever stream."""

    lease_id: LeaseId
    argv: list[bytes]
    env: dict[bytes, bytes]
    cwd: bytes
    outputs: bytes
    memory_bytes: int
    must_end: bool
    is_service: bool = False


class Halt(Struct, frozen=True, array_like=True, tag=1):
    """End this one and everything it has started: politely, and after the grace for certain."""

    lease_id: LeaseId
    grace_ms: int


class Until(Struct, frozen=True, array_like=True, tag=2):
    """Those that must end are asked to at `ends_ms` and killed at `kill_ms`, unless a later word
    comes before. Nobody else need be awake for that."""

    ends_ms: int
    kill_ms: int


class Guard(Struct, frozen=True, array_like=True, tag=3):
    """The group this process leads ends with the worker; `must_end`: `Until` holds for it too."""

    pid: int
    must_end: bool


class Forget(Struct, frozen=True, array_like=True, tag=4):
    """That group has ended."""

    pid: int


class Begun(Struct, frozen=True, array_like=True, tag=5):
    """A service has been started: this process leads its group."""

    lease_id: LeaseId
    pid: int


class Ended(Struct, frozen=True, array_like=True, tag=6):
    """How a command ended. `code` is negative for a signal, None where it could not be started and
    `error` says why. `halted`: the warden was asked to end it. `was_struck`: it was killed because
    it took more memory than it may."""

    lease_id: LeaseId
    code: int | None
    ran_ms: int
    halted: bool
    error: str
    last_words: str
    was_struck: bool = False


Errand = Launch | Halt | Until | Guard | Forget

decode_errand: Final = Decoder(Errand).decode
decode_news: Final = Decoder(Begun | Ended).decode


def framed(message: Struct) -> bytes:
    body = _ENCODE(message)
    return _HEAD.pack(len(body)) + body


class Letters:
    """Bytes as they come from a socket, cut into messages."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, chunk: bytes) -> None:
        self._bytes += chunk

    def bodies(self) -> Iterator[bytes]:
        while len(self._bytes) >= _HEAD.size:
            (length,) = _HEAD.unpack_from(self._bytes)
            end = _HEAD.size + length
            if len(self._bytes) < end:
                return
            body = bytes(self._bytes[_HEAD.size : end])
            del self._bytes[:end]
            yield body
