"""Bundles: code on its way to workers, put here once and fetched by each worker that needs it."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import BinaryIO, Final

from holdfast.api.call import Answer, Call, Stream, nothing
from holdfast.api.problems import Declined
from holdfast.coordinator.bundles import Arrival, Bundles, Unwelcome
from holdfast.wire.archives import is_digest

BYTES: Final = "application/octet-stream"
GATHERED: Final = 1 << 18
"""So much is handed to the disk at once, and no more of a bundle than this is in memory."""
STALLED_S: Final = 30.0


async def put(call: Call) -> Answer:
    """Bring a bundle. It is known by its digest, so bringing it twice changes nothing."""
    digest = _digest(call)
    bundles = call.service.served.bundles
    try:
        with bundles.arriving(digest) as arrival:
            await _take_in(call, bundles, arrival)
            await asyncio.to_thread(arrival.seal)
            is_new = bundles.admit(arrival)
            await asyncio.to_thread(bundles.settle)
    except Unwelcome as no:
        code = "too_large" if no.is_too_large else "invalid"
        raise Declined(code, str(no)) from no
    except OSError as error:
        raise Declined("not_ready", f"the bundle could not be written: {error}") from error
    return Answer({"digest": digest, "size": arrival.size}, 201 if is_new else 200)


async def _take_in(call: Call, bundles: Bundles, arrival: Arrival) -> None:
    gathered = bytearray()
    chunks = aiter(call.chunks)
    while (chunk := await _next(chunks)) is not None:
        bundles.expect(arrival, len(chunk))
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


async def look(call: Call) -> Stream:
    """Whether a bundle is here. Asking keeps it for another day."""
    return Stream(BYTES, nothing(), (("content-length", str(_size(call))),))


async def get(call: Call) -> Stream:
    """A bundle, as it was brought."""
    digest, size = _digest(call), _size(call)
    bundles = call.service.served.bundles
    try:
        content = await asyncio.to_thread(open, bundles.path_of(digest), "rb")
    except FileNotFoundError:
        # Somebody removed it by hand; bringing it again is then worth while.
        bundles.drop([digest])
        raise Declined("not_found", f"there is no bundle {digest}") from None
    except OSError as error:
        raise Declined("not_ready", f"the bundle cannot be read: {error}") from error
    return Stream(BYTES, _chunks(content), (("content-length", str(size)),))


def check_bundle(call: Call, digest: str) -> None:
    """A job may refer only to a bundle that is here. Looked at on the loop's thread, together with
    the decision about the job, so it cannot be removed between."""
    if digest and call.service.served.bundles.ask_for(digest) is None:
        raise Declined(
            "not_found", f"there is no bundle {digest[:80]}; PUT /api/v1/bundles/DIGEST brings one"
        )


def _digest(call: Call) -> str:
    digest = call.path["digest"]
    if not is_digest(digest):
        raise Declined("not_found", "a bundle is named by 64 small hexadecimal digits")
    return digest


def _size(call: Call) -> int:
    digest = _digest(call)
    size = call.service.served.bundles.ask_for(digest)
    if size is None:
        raise Declined("not_found", f"there is no bundle {digest}")
    return size


async def _chunks(content: BinaryIO) -> AsyncGenerator[bytes, None]:
    try:
        while chunk := await asyncio.to_thread(content.read, GATHERED):
            yield chunk
    finally:
        content.close()
