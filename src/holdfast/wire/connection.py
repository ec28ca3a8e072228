"""One connection to a server, for one request at a time: just enough HTTP/1.1, and fast.

A worker asks thousands of times a second and a task waits for it each time, so nothing stands
between the socket and the parser. TLS and unix sockets are the event loop's.
"""

import asyncio
import ssl
from typing import cast
from urllib.parse import urlsplit

import httptools
from msgspec import Struct

from holdfast.wire.http import Server


class Heard(Struct, frozen=True):
    """An answer as it came."""

    status: int
    content_type: str
    content: bytes


class Broken(Exception):
    """The connection ended, or what came over it was no answer."""


class Connection(asyncio.Protocol):
    """`is_free`: it may be asked; one that was broken, or closed by the server, never is again."""

    def __init__(self) -> None:
        self.is_free = False
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._answer: asyncio.Future[Heard] | None = None
        self._content_type = ""
        self._chunks: list[bytes] = []

    async def ask(self, request: bytes) -> Heard:
        """The answer to this request. Who stops waiting for it must `close` the connection."""
        if self._transport is None:
            raise Broken("there is no connection")
        self.is_free = False
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
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._break(f"what answered does not speak HTTP: {error}")

    def connection_lost(self, error: Exception | None) -> None:
        self._break(f"the connection was lost: {error}" if error else "the connection was closed")

    # What the parser finds.

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"content-type":
            self._content_type = value.decode("latin-1")

    def on_body(self, chunk: bytes) -> None:
        self._chunks.append(chunk)

    def on_message_complete(self) -> None:
        chunks, content_type = self._chunks, self._content_type
        self._chunks, self._content_type = [], ""
        answer, self._answer = self._answer, None
        if answer is None or answer.done():
            # Nobody asked, or nobody waits: who knows what the next answer would belong to.
            self._break("an answer came that nobody waits for")
            return
        keeps = self._parser.should_keep_alive()
        self.is_free = keeps
        content = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        answer.set_result(Heard(self._parser.get_status_code(), content_type, content))
        if not keeps:
            self.close()

    def _break(self, why: str) -> None:
        answer, self._answer = self._answer, None
        self.close()
        if answer is not None and not answer.done():
            answer.set_exception(Broken(why))


class Target(Struct, frozen=True):
    """Where requests go: what stands before the path, and the lines that every one has."""

    server: Server
    prefix: str
    lines: str
    trust: ssl.SSLContext | None

    def request(self, path: str, content: bytes, content_type: str) -> bytes:
        head = (
            f"POST {self.prefix}{path} HTTP/1.1\r\n{self.lines}"
            f"content-type: {content_type}\r\ncontent-length: {len(content)}\r\n\r\n"
        )
        return head.encode("latin-1") + content

    async def connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        path = self.server.socket()
        if path is not None:
            _, made = await loop.create_unix_connection(Connection, path)
            return made
        parts = urlsplit(self.server.base_url())
        port = parts.port or (443 if self.trust is not None else 80)
        _, made = await loop.create_connection(
            Connection, parts.hostname or "", port, ssl=self.trust
        )
        return made


def target_of(server: Server) -> Target:
    """`ValueError` where a token or an address holds what no line of a request may."""
    parts = urlsplit(server.base_url())
    told = {"host": parts.netloc.rpartition("@")[2], **server.headers()}
    if not all(value.isascii() and value.isprintable() for value in (parts.path, *told.values())):
        raise ValueError("a token is one word of plain letters, and so is an address")
    lines = "".join(f"{name}: {value}\r\n" for name, value in told.items())
    trust = server.trust()
    return Target(
        server, parts.path.rstrip("/"), lines, trust if isinstance(trust, ssl.SSLContext) else None
    )


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
        request = self._target.request(path, content, content_type)
        async with self._room:
            connection = await self._connection(self._target)
            heard: Heard | None = None
            try:
                async with asyncio.timeout(answer_s):
                    heard = await connection.ask(request)
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
            connection = await target.connect()
        self._all.add(connection)
        return connection

    async def close(self) -> None:
        for connection in self._all:
            connection.close()
        self._all.clear()
        self._free.clear()
        # A transport says goodbye in the next pass of the loop.
        await asyncio.sleep(0)
