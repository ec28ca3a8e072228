"""The output of attempts on its way: chunks that say where they belong, and what is read of them.

A chunk may be sent any number of times. Its offset is that of its first byte in the stream.
"""

from msgspec import Struct

from holdfast.core.ids import Index, JobId, LeaseId, WorkerId


class Chunk(Struct, frozen=True, array_like=True):
    """Bytes of one stream of one attempt. `skips`: what is missing before them is lost to the
    sender too. `ended`: nothing comes after them."""

    job_id: JobId
    index: Index
    attempt: int
    lease_id: LeaseId
    stream: str
    offset: int
    content: bytes
    skips: bool = False
    ended: bool = False


class Chunks(Struct, frozen=True, array_like=True):
    """What a worker has to bring, of any number of attempts that it holds or held."""

    worker: WorkerId
    incarnation: int
    chunks: tuple[Chunk, ...]


class Kept(Struct, frozen=True):
    """What became of a chunk: the stream goes on at `next`, or `code` says why not."""

    next: int
    code: str = ""


class Receipt(Struct, frozen=True):
    """What became of each chunk, in their order."""

    chunks: list[Kept]


class Output(Struct, frozen=True):
    """Some bytes of a stream, from `offset` to `next`. `dropped` bytes before them, of those that
    were asked for, are no longer there. `ended`: nothing comes after them."""

    offset: int
    content: bytes
    next: int
    dropped: int
    ended: bool
