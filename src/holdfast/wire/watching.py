"""What a watcher of jobs is told over a stream: each job as it stood, then every change.

A stream is a sequence of frames, each a length of four bytes (big endian) and a message packed as
an array. It opens with `Opened`; jobs are added by naming the stream. A stream that breaks is
replaced by another, on which every job is told anew: nothing here must be kept.
"""

from collections.abc import Iterable, Sequence
from itertools import chain

import msgspec
from msgspec import Struct

LENGTH_BYTES = 4


class Message(Struct, frozen=True, array_like=True, tag=True):
    """Something a watcher is told."""


class Opened(Message, frozen=True):
    """The stream is there; this is its name."""

    stream: str


class Alive(Message, frozen=True):
    """Nothing happened, and the stream is well."""


class Begun(Message, frozen=True):
    """A job as it stands: a cell a task, the positions of their ends, and the job's own end.
    `ends` are unsigned 64-bit numbers, little endian; there are none where nothing has ended."""

    job_id: str
    states: bytes
    ends: bytes
    sealed: bool
    ended: str
    reason: str


class Grown(Message, frozen=True):
    """The job has so many tasks now."""

    job_id: str
    count: int
    sealed: bool


class Finished(Message, frozen=True):
    """Tasks ended in this state, told in the record at `position`."""

    job_id: str
    spans: tuple[tuple[int, int], ...]
    state: int
    position: int


class Reopened(Message, frozen=True):
    """Tasks that had ended wait again."""

    job_id: str
    spans: tuple[tuple[int, int], ...]


class Ended(Message, frozen=True):
    """The job itself ended, well or not."""

    job_id: str
    state: str
    reason: str


class Missing(Message, frozen=True):
    """There is no such job to watch, and why."""

    job_id: str
    code: str
    message: str


AnyMessage = Opened | Alive | Begun | Grown | Finished | Reopened | Ended | Missing

_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(AnyMessage)


def packed(message: AnyMessage) -> bytes:
    body = _encode(message)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def unpacked(held: bytearray) -> list[AnyMessage]:
    """The whole messages at the front of what has arrived, which are taken out of it."""
    messages: list[AnyMessage] = []
    while len(held) >= LENGTH_BYTES:
        size = int.from_bytes(held[:LENGTH_BYTES], "big")
        if len(held) < LENGTH_BYTES + size:
            break
        messages.append(_decoder.decode(bytes(held[LENGTH_BYTES : LENGTH_BYTES + size])))
        del held[: LENGTH_BYTES + size]
    return messages


def spans_of(indices: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Indices in any order as runs of neighbours, first and last included."""
    if isinstance(indices, range) and indices.step == 1:
        return ((indices.start, indices.stop - 1),) if indices else ()
    spans: list[list[int]] = []
    for index in indices:
        if spans and index == spans[-1][1] + 1:
            spans[-1][1] = index
        else:
            spans.append([index, index])
    return tuple((first, last) for first, last in spans)


def indices_of(spans: Iterable[tuple[int, int]]) -> Sequence[int]:
    spans = tuple(spans)
    if len(spans) == 1:
        return range(spans[0][0], spans[0][1] + 1)
    return list(chain.from_iterable(range(first, last + 1) for first, last in spans))
