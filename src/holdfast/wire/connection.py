"""One connection to a server, for one request at a time: just enough HTTP/1.1, and fast.

A worker asks thousands of times a second and a task waits for it each time, so nothing stands
between the socket and the parser. TLS and unix sockets are the event loop's.
"""

import asyncio
from typing import cast

from holdfast.wire.answers import UNASKED, Broken, Ear, Heard
from holdfast.wire.target import Server, Target, target_of


class Connection(asyncio.Protocol):
    """`is_free`: it may be asked; one that was broken, or closed by the server, never is again."""

    def __init__(self) -> None:
        self.is_free = False
        self._transport: asyncio.Transport | None = None
        self._ear = Ear()
        self._answer: asyncio.Future[Heard] | None = None

    async def ask(self, request: bytes) -> Heard:
        """The answer to this request. Who stops waiting for it must `close` the connection."""
        if self._transport is None:
            raise Broken("there is no connection")
        self.is_free = False
        self._ear.begin()
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def close(self) -> None:
        self.is_free = False
        if self._transport is not None:
            self._transport.abort()

    # What the event loop tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # What the faster loop gives is no instance of what it stands for.
        self._transport = cast(asyncio.Transport, transport)
        self.is_free = True

    def data_received(self, data: bytes) -> None:
        try:
            self._ear.hear(data)
        except Broken as error:
            self._break(str(error))
            return
        if self._ear.is_over:
            self._give()

    def connection_lost(self, error: Exception | None) -> None:
        self._break(f"the connection was lost: {error}" if error else "the connection was closed")

    def _give(self) -> None:
        answer, self._answer = self._answer, None
        if answer is None or answer.done():
            # Nobody asked, or nobody waits: who knows what the next answer would belong to.
            self._break(UNASKED)
            return
        self.is_free = self._ear.keeps
        answer.set_result(self._ear.heard())
        if not self.is_free:
            self.close()

    def _break(self, why: str) -> None:
        answer, self._answer = self._answer, None
        self.close()
        if answer is not None and not answer.done():
            answer.set_exception(Broken(why))


async def connected(target: Target) -> Connection:
    loop = asyncio.get_running_loop()
    if target.path is not None:
        _, made = await loop.create_unix_connection(Connection, target.path)
    else:
        _, made = await loop.create_connection(
            Connection, target.host, target.port, ssl=target.trust
        )
    return made


class Connections:
    """A few connections to one place, kept open between requests."""

    def __init__(self, server: Server, *, most: int, connect_s: float) -> None:
        self._server = server
        self._target: Target | None = None
        self._room = asyncio.Semaphore(most)
        self._connect_s = connect_s
        self._free: list[Connection] = []
        self._all: set[Connection] = set()

    async def post(self, path: str, content: bytes, content_type: str, answer_s: float) -> Heard:
        """Ask once. `OSError`, `Broken` or `TimeoutError` where no answer came."""
        if self._target is None:
            self._target = target_of(self._server)
        head = self._target.head("POST", path, {"content-type": content_type}, len(content))
        async with self._room:
            connection = await self._connection(self._target)
            heard: Heard | None = None
            try:
                async with asyncio.timeout(answer_s):
                    heard = await connection.ask(head + content)
                return heard
            finally:
                if heard is not None and connection.is_free:
                    self._free.append(connection)
                else:
                    self._all.discard(connection)
                    connection.close()

    async def _connection(self, target: Target) -> Connection:
        while self._free:
            # The one that was used last is the least likely to have been closed meanwhile.
            connection = self._free.pop()
            if connection.is_free:
                return connection
            self._all.discard(connection)
        async with asyncio.timeout(self._connect_s):
            connection = await connected(target)
        self._all.add(connection)
        return connection

    async def close(self) -> None:
        for connection in self._all:
            connection.close()
        self._all.clear()
        self._free.clear()
        # A transport says goodbye in the next pass of the loop.
        await asyncio.sleep(0)
