"""What a parent and its warm child say to each other, and how it looks on the socket between them.

A frame is a length, a kind and a body in msgpack. Outcomes travel many in a frame: the child
keeps them encoded, one after another, and puts the head of an array before them when it sends.

to the child    SETUP once, RUN for tasks, WITHDRAW for tasks asked back, LEAVE, VERDICT on a commit
to the parent   READY once, OUTCOMES, WITHDRAWN, DOOM when nothing can run; of the task that runs
                COMMIT asked for early, LEFT what came after it, PROGRESS
"""

import struct
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct
from msgspec.msgpack import Decoder, Encoder

from holdfast.core.ids import LeaseId
from holdfast.core.owed import Entry, Stored
from holdfast.wire.exchange import Done, Progress, Run
from holdfast.worker.executor import Left
from holdfast.worker.lanes import Aside
from holdfast.worker.results import Place
from holdfast.worker.staging import Bench

SETUP: Final = 1
RUN: Final = 2
WITHDRAW: Final = 3
LEAVE: Final = 4
READY: Final = 5
OUTCOMES: Final = 6
WITHDRAWN: Final = 7
DOOM: Final = 8
VERDICT: Final = 9
COMMIT: Final = 10
LEFT: Final = 11
PROGRESS: Final = 12

TO_PARENT: Final = frozenset((READY, OUTCOMES, WITHDRAWN, DOOM, COMMIT, LEFT, PROGRESS))
FRAME_MAX: Final = 1 << 30

HEAD: Final = struct.Struct("<IB")
_ARRAY: Final = struct.Struct(">BI")
_ARRAY_32: Final = 0xDD

encode: Final = Encoder().encode


class Setup(Struct, frozen=True, array_like=True):
    """What a child takes over from the program it works for. An argument need not be text.
    `dooms`: a program without a guard keeps everything from running, and not its task alone.
    `captured`: its output goes into files, and it says which part is whose. `bundle` is the folder
    it finds code in before anywhere else; empty for none. `worker` is whom it works for.
    `results` is where large results go, `bench` how files are staged."""

    argv: list[bytes]
    dooms: bool = True
    captured: bool = False
    bundle: str = ""
    worker: str = ""
    results: Place | None = None
    bench: Bench | None = None


class Withdraw(Struct, frozen=True, array_like=True):
    """Tasks the parent would like to have back."""

    lease_ids: list[LeaseId]


class Withdrawn(Struct, frozen=True, array_like=True):
    """The answer: `taken` had not begun and never will; the rest is running or has ended."""

    asked: list[LeaseId]
    taken: list[LeaseId]


class Said(Struct, frozen=True, array_like=True):
    """What came of a commit that a task asked for: why it was not accepted, if so."""

    lease_id: LeaseId
    why: str


class Doom(Struct, frozen=True, array_like=True):
    """Nothing can run in this child. The task that found out has not begun."""

    lease_id: LeaseId
    kind: str
    message: str


class Ran(Struct, frozen=True, array_like=True, tag=0, gc=False):
    """A task returned. `printed` is where both outputs end, if it printed anything; `owed` is what
    it promised. A large result was put away: it is told by where it is `stored`."""

    lease_id: LeaseId
    ran_us: int
    result: bytes
    printed: tuple[int, int] | None = None
    owed: tuple[Entry, ...] = ()
    stored: Stored | None = None


class Broke(Struct, frozen=True, array_like=True, tag=1, gc=False):
    """A task raised."""

    lease_id: LeaseId
    ran_us: int
    error: str
    traceback: str
    exit_code: int | None
    printed: tuple[int, int] | None = None


decode_setup: Final = Decoder(Setup).decode
decode_run: Final = Decoder(Run).decode
decode_withdraw: Final = Decoder(Withdraw).decode
decode_withdrawn: Final = Decoder(Withdrawn).decode
decode_doom: Final = Decoder(Doom).decode
decode_outcomes: Final = Decoder(list[Ran | Broke]).decode
decode_verdict: Final = Decoder(Said).decode

ASIDES: Final[dict[int, Callable[[bytes], Aside]]] = {
    COMMIT: Decoder(Done).decode,
    LEFT: Decoder(Left).decode,
    PROGRESS: Decoder(Progress).decode,
}
"""What a task says while it runs, by the kind of its frame."""


def frame(kind: int, body: bytes = b"") -> bytes:
    return HEAD.pack(len(body), kind) + body


def array_of(count: int, encoded: bytes) -> bytes:
    """One msgpack array of `count` values that are encoded already."""
    return _ARRAY.pack(_ARRAY_32, count) + encoded


class Garbled(Exception):
    """Bytes that no child of ours has sent by itself."""


class Inbox:
    """Bytes as they come from a socket, cut into frames. A frame cut short by a death is lost.
    What cannot be a frame is `Garbled`, and so is everything after it."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, chunk: bytes) -> None:
        self._bytes += chunk

    def frames(self) -> Iterator[tuple[int, bytes]]:
        start = 0
        while len(self._bytes) - start >= HEAD.size:
            length, kind = HEAD.unpack_from(self._bytes, start)
            if length > FRAME_MAX or kind not in TO_PARENT:
                raise Garbled(f"a frame of kind {kind} and {length} bytes")
            end = start + HEAD.size + length
            if len(self._bytes) < end:
                break
            yield kind, bytes(self._bytes[start + HEAD.size : end])
            start = end
        if start:
            del self._bytes[:start]
