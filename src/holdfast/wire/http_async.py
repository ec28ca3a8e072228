"""HTTP on an event loop: the counterpart of `wire.http` for programs that do many things at once.

Nothing is repeated here. Whoever asks knows what may be asked again, and when it has waited long
enough.
"""

from typing import Final, TypeVar

import httpx2
import msgspec
from msgspec import Struct

from holdfast.wire.http import (
    AWAY,
    CONNECT_S,
    MSGPACK,
    Rejected,
    Server,
    Unreachable,
    _rejection,
    _said,
    decoded,
)

T = TypeVar("T")

ANSWER_S: Final = 60.0
NOT_NOW: Final = AWAY | {429, 500}
"""Answers after which the same may be asked again later."""


class AsyncHttp:
    """Requests of one event loop. Close it on that loop."""

    def __init__(self, server: Server, *, connections: int = 4) -> None:
        self.server = server
        self._client = httpx2.AsyncClient(
            base_url=server.base_url(),
            headers=server.headers(),
            timeout=httpx2.Timeout(ANSWER_S, connect=CONNECT_S),
            transport=httpx2.AsyncHTTPTransport(
                uds=server.socket(),
                verify=server.trust(),
                limits=httpx2.Limits(max_connections=connections),
            ),
        )

    async def post(
        self, path: str, body: Struct, kind: type[T], *, answer_s: float = ANSWER_S
    ) -> T:
        """Ask once. `Unreachable` when nobody answers within `answer_s`, or says: not now;
        `Rejected` when the answer is no."""
        try:
            response = await self._client.post(
                path,
                content=msgspec.msgpack.encode(body),
                headers={"content-type": MSGPACK},
                timeout=httpx2.Timeout(answer_s, connect=CONNECT_S),
            )
        except (httpx2.TransportError, httpx2.StreamError) as error:
            raise Unreachable(self.server.url, _said(error)) from error
        if response.status_code in NOT_NOW:
            raise Unreachable(self.server.url, f"it answered {response.status_code}")
        if response.status_code >= 400:
            raise _rejection(response)
        try:
            return decoded(response.content, response.headers.get("content-type", ""), kind)
        except msgspec.DecodeError as error:
            why = f"what answered there is not a Holdfast server: {error}"
            raise Unreachable(self.server.url, why) from error

    async def close(self) -> None:
        await self._client.aclose()


__all__ = ["ANSWER_S", "AsyncHttp", "Rejected", "Server", "Unreachable"]
