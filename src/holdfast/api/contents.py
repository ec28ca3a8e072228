"""Files named by their digests, as they come over HTTP and go: in pieces, never whole in memory."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractContextManager
from typing import BinaryIO, Final, Protocol

from holdfast.api.call import Answer, Call
from holdfast.api.problems import Declined
from holdfast.wire.contents import Arrival, Unwelcome, is_digest

BYTES: Final = "application/octet-stream"
GATHERED: Final = 1 << 18
"""So much is handed to the disk at once, and no more of a file than this is in memory."""
STALLED_S: Final = 30.0


class Store(Protocol):
    """Where files are brought."""

    what: str

    def arriving(self, digest: str) -> AbstractContextManager[Arrival]: ...

    def expect(self, arrival: Arrival, more_bytes: int) -> None: ...

    def admit(self, arrival: Arrival) -> bool: ...

    def settle(self, arrival: Arrival) -> None: ...


def digest_in(call: Call) -> str:
    digest = call.path["digest"]
    if not is_digest(digest):
        raise Declined("not_found", "it is named by 64 small hexadecimal digits")
    return digest


async def take_in(call: Call, store: Store) -> Answer:
    """What the request brings, on the disk under its digest. Bringing it twice changes nothing."""
    digest = digest_in(call)
    try:
        with store.arriving(digest) as arrival:
            await _write(call, store, arrival)
            await asyncio.to_thread(arrival.seal)
            is_new = store.admit(arrival)
            await asyncio.to_thread(store.settle, arrival)
    except Unwelcome as no:
        raise Declined("too_large" if no.is_too_large else "invalid", str(no)) from no
    except OSError as error:
        told = f"it could not be written among the {store.what}: {error}"
        raise Declined("not_ready", told) from error
    return Answer({"digest": digest, "size": arrival.size}, 201 if is_new else 200)


async def _write(call: Call, store: Store, arrival: Arrival) -> None:
    gathered = bytearray()
    chunks = aiter(call.chunks)
    while (chunk := await _next(chunks)) is not None:
        store.expect(arrival, len(chunk))
        gathered += chunk
        if len(gathered) >= GATHERED:
            await asyncio.to_thread(arrival.write, bytes(gathered))
            gathered.clear()
    await asyncio.to_thread(arrival.write, bytes(gathered))


async def _next(chunks: AsyncIterator[bytes]) -> bytes | None:
    """The next piece, None at the end. Whoever sends none must not take up room for ever."""
    try:
        async with asyncio.timeout(STALLED_S):
            return await anext(chunks, None)
    except TimeoutError:
        raise Declined("malformed", f"nothing more came for {STALLED_S:g} s") from None


async def pieces(content: BinaryIO) -> AsyncGenerator[bytes, None]:
    """A file from where it stands, closed at the end."""
    try:
        while chunk := await asyncio.to_thread(content.read, GATHERED):
            yield chunk
    finally:
        content.close()
