"""Bundles: code on its way to workers, put here once and fetched by each worker that needs it."""

import asyncio

from holdfast.api.call import Answer, Call, Stream, nothing
from holdfast.api.contents import BYTES, digest_in, pieces, take_in
from holdfast.api.problems import Declined


async def put(call: Call) -> Answer:
    """Bring a bundle. It is known by its digest, so bringing it twice changes nothing."""
    return await take_in(call, call.service.served.bundles)


async def look(call: Call) -> Stream:
    """Whether a bundle is here. Asking keeps it for another day."""
    return Stream(BYTES, nothing(), (("content-length", str(_size(call))),))


async def get(call: Call) -> Stream:
    """A bundle, as it was brought."""
    digest, size = digest_in(call), _size(call)
    bundles = call.service.served.bundles
    try:
        content = await asyncio.to_thread(open, bundles.path_of(digest), "rb")
    except FileNotFoundError:
        # Somebody removed it by hand; bringing it again is then worth while.
        bundles.drop([digest])
        raise Declined("not_found", f"there is no bundle {digest}") from None
    except OSError as error:
        raise Declined("not_ready", f"the bundle cannot be read: {error}") from error
    return Stream(BYTES, pieces(content), (("content-length", str(size)),))


def check_bundle(call: Call, digest: str) -> None:
    """A job may refer only to a bundle that is here. Looked at on the loop's thread, together with
    the decision about the job, so it cannot be removed between."""
    if digest and call.service.served.bundles.ask_for(digest) is None:
        raise Declined(
            "not_found", f"there is no bundle {digest[:80]}; PUT /api/v1/bundles/DIGEST brings one"
        )


def _size(call: Call) -> int:
    digest = digest_in(call)
    size = call.service.served.bundles.ask_for(digest)
    if size is None:
        raise Declined("not_found", f"there is no bundle {digest}")
    return size
