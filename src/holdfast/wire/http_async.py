"""HTTP on an event loop: the counterpart of `wire.http` for programs that do many things at once.

Nothing is repeated here. Whoever asks knows what may be asked again, and when it has waited long
enough.
"""

from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from holdfast.core.unreadable import UNREADABLE
from holdfast.wire.answers import NOT_NOW, Broken, Rejected, decoded, rejection
from holdfast.wire.connection import Connections
from holdfast.wire.errors import Unreachable
from holdfast.wire.http import CONNECT_S, said
from holdfast.wire.target import MSGPACK, Server

T = TypeVar("T")

ANSWER_S: Final = 60.0


class AsyncHttp:
    """Requests of one event loop. Close it on that loop."""

    def __init__(self, server: Server, *, connections: int = 4) -> None:
        self.server = server
        self._connections = Connections(server, most=connections, connect_s=CONNECT_S)

    async def post(
        self, path: str, body: Struct, kind: type[T], *, answer_s: float = ANSWER_S
    ) -> T:
        """Ask once. `Unreachable` when nobody answers within `answer_s`, or says: not now;
        `Rejected` when the answer is no."""
        content = msgspec.msgpack.encode(body)
        try:
            heard = await self._connections.post(path, content, MSGPACK, answer_s)
        except TimeoutError as error:
            raise Unreachable(self.server.url, "it did not answer in time") from error
        except (OSError, Broken, ValueError) as error:
            raise Unreachable(self.server.url, said(error)) from error
        if heard.status in NOT_NOW:
            raise Unreachable(self.server.url, f"it answered {heard.status}")
        if heard.status >= 400:
            raise rejection(heard)
        try:
            return decoded(heard.content, heard.content_type, kind)
        except UNREADABLE as error:
            why = f"what answered there is not a Holdfast server: {error}"
            raise Unreachable(self.server.url, why) from error

    async def close(self) -> None:
        await self._connections.close()


__all__ = ["ANSWER_S", "AsyncHttp", "Rejected", "Server", "Unreachable"]
