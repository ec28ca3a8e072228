"""HTTP/1.1 as the server speaks it, straight on the parser: no framework stands between.

Workers ask thousands of times a second, and a thousand idle ones still ask hundreds of times, so
what every request pays is paid here. What a connection owes: requests are answered in their order,
one at a time; a body is held back while nobody takes it; a head must be short and come soon,
because nobody has shown a token while it arrives.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from functools import partial
from logging import getLogger
from math import inf
from typing import Any, Final, cast

import httptools
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.server import ServerState

from holdfast.api.asked import Asked
from holdfast.api.response import CLOSING, STATUS_LINES, Response, Streamed
from holdfast.coordinator.promise import Promise

log = getLogger("holdfast")
requests_log = getLogger("uvicorn.access")

HEAD_BYTES: Final = 64 * 1024
HEAD_S: Final = 30.0

Answering = Promise[Response] | Coroutine[Any, Any, Response | Streamed]
Respond = Callable[[Asked], Answering]
"""Answer a request, whatever comes of it: promised, or to be awaited by a task."""

HEADER_NAMES: Final = {
    spelt.encode(): name
    for name in (
        "host", "authorization", "accept", "content-type", "content-length", "user-agent",
        "accept-encoding", "connection", "idempotency-key",
    )
    for spelt in (name, name.title())
}  # fmt: skip
"""Names that come with almost every request, as they are usually spelt."""

BODY_HELD: Final = 64 * 1024
"""So much of a body is read ahead of whoever takes it."""


class Request(Asked):
    """A request with what only its connection must know. `waits`: its asker sends the body only
    when told to go on."""

    __slots__ = ("keep_alive", "version", "waits")

    keep_alive: bool
    waits: bool
    version: str


class Talk(asyncio.Protocol):
    """One connection. The web server makes it, counts it, and asks it to end."""

    _usual: tuple[list[tuple[bytes, bytes]], bytes] = ([], b"")
    """The headers that all answers of a second have, and how they look as lines."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._respond = cast(Respond, config.app)
        self._keep_alive_s = config.timeout_keep_alive
        self._logs_requests = config.access_log
        self._state = server_state
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        # Whoever sends more after a request that closes is answered all the same.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._transport: asyncio.Transport
        self._flow: FlowControl
        self._client = ""
        # When it is let go, and the timer that looks whether that time has come.
        self._closes_at = inf
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = inf
        # Whether a head arrives, how much of it came, and whether it began only now.
        self._is_head = True
        self._head_bytes = 0
        self._is_untimed = False
        self._url = b""
        self._headers: dict[str, str] = {}
        # The request that is arriving, and those that wait for their turn; the first is answered,
        # or about to be, when all that has come with it was read.
        self._arriving: Request | None = None
        self._unbegun: Request | None = None
        self._line: deque[Request] = deque()

    # What the event loop tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # What the faster loop gives is no instance of what it stands for.
        self._transport = cast(asyncio.Transport, transport)
        self._flow = FlowControl(self._transport)
        peer = transport.get_extra_info("peername")
        self._client = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else ""
        self._state.connections.add(self)  # type: ignore[arg-type]
        self._set_timer(HEAD_S)

    def connection_lost(self, error: Exception | None) -> None:
        self._state.connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        for request in self._line:
            request.leave()
        self._flow.resume_writing()

    def data_received(self, data: bytes) -> None:
        if self._is_head:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # Nothing but this is spoken here; it is answered as if it had not been asked.
            pass
        except httptools.HttpParserError:
            self._begin()
            self._send_bad_request("Invalid HTTP request received.")
            return
        if self._unbegun is not None:
            self._begin()
        if not self._is_head or self._transport.is_closing():
            return
        if self._head_bytes > HEAD_BYTES:
            self._send_bad_request("The head of the request is too long.")
        elif self._is_untimed:
            self._is_untimed = False
            self._set_timer(HEAD_S)

    def pause_writing(self) -> None:
        self._flow.pause_writing()

    def resume_writing(self) -> None:
        self._flow.resume_writing()

    def shutdown(self) -> None:
        """The web server leaves: what is asked is answered, nothing more is taken."""
        if self._line:
            self._line[-1].keep_alive = False
        else:
            self._transport.close()

    # What the parser finds.

    def on_message_begin(self) -> None:
        self._url, self._headers = b"", {}
        if not self._is_head:
            self._is_head = self._is_untimed = True

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        # The first of a name counts.
        known = HEADER_NAMES.get(name) or name.decode("latin-1").lower()
        self._headers.setdefault(known, value.decode("latin-1"))

    def on_headers_complete(self) -> None:
        self._is_head, self._head_bytes, self._is_untimed = False, 0, False
        self._forget_timer()
        path, query = _target(self._url)
        parser = self._parser
        request = Request(
            parser.get_method().decode("ascii"), path, query, self._headers, more=self._go_on
        )
        request.version = parser.get_http_version()
        request.keep_alive = request.version != "1.0" and parser.should_keep_alive()
        request.waits = self._headers.get("expect", "").lower() == "100-continue"
        self._arriving = request
        self._line.append(request)
        if len(self._line) == 1:
            self._unbegun = request
        else:
            self._flow.pause_reading()

    def on_body(self, body: bytes) -> None:
        request = self._arriving
        # Who was answered before it had said everything is not listened to any more.
        if request is not None and self._line and self._line[-1] is request:
            request.add(body)
            if request.unread > BODY_HELD:
                self._flow.pause_reading()

    def on_message_complete(self) -> None:
        if self._arriving is not None:
            self._arriving.end()
            self._arriving = None

    # Answers.

    def _go_on(self) -> None:
        """The body is wanted by whoever answers the first in line."""
        request = self._line[0]
        if request.waits and not self._transport.is_closing():
            request.waits = False
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._flow.resume_reading()

    def _begin(self) -> None:
        """Have the first in line answered. A body that came with its head is whole by now."""
        request, self._unbegun = self._unbegun, None
        if request is None or request.has_left:
            return
        answering = self._respond(request)
        if isinstance(answering, Promise):
            answering.then(partial(self._tell, request))
            return
        task = self._loop.create_task(self._answer(request, answering))
        self._state.tasks.add(task)
        task.add_done_callback(self._state.tasks.discard)

    def _tell(self, request: Request, response: Response | Exception) -> None:
        """A promise was kept, by whoever had other things to do: our trouble is not theirs."""
        if not isinstance(response, Response) or request.has_left:
            return
        try:
            if not self._transport.is_closing():
                self._send(request, response)
            self._next(request)
        except Exception:
            self._transport.abort()
            log.exception("an answer broke off, and that is a bug of ours")

    async def _answer(
        self, request: Request, answering: Coroutine[Any, Any, Response | Streamed]
    ) -> None:
        try:
            response = await answering
            if isinstance(response, Streamed):
                await self._send_stream(request, response)
            elif not self._transport.is_closing():
                self._send(request, response)
            self._next(request)
        except BaseException as error:
            # Half an answer must not be taken for a whole one.
            self._transport.abort()
            if not isinstance(error, Exception):
                raise
            log.exception("an answer broke off, and that is a bug of ours")

    def _send(self, request: Request, response: Response) -> None:
        head = self._head(request, response.status, response.lines, closes=response.closes)
        has_body = request.method != "HEAD"
        self._transport.write(head + response.content if has_body else head)

    async def _send_stream(self, request: Request, response: Streamed) -> None:
        how = b"" if response.sized else b"transfer-encoding: chunked\r\n"
        transport, has_body = self._transport, request.method != "HEAD"
        if not transport.is_closing():
            transport.write(self._head(request, 200, response.lines + how))
        async with aclosing(response.chunks):
            async for chunk in response.chunks:
                await self._flow.drain()
                if transport.is_closing():
                    return
                if chunk and has_body:
                    sized = chunk if response.sized else b"%x\r\n%b\r\n" % (len(chunk), chunk)
                    transport.write(sized)
        if not response.sized and has_body and not transport.is_closing():
            transport.write(b"0\r\n\r\n")

    def _head(
        self, request: Request, status: int, lines: bytes, *, closes: bool = False
    ) -> bytes:
        if self._logs_requests:
            target = f"{request.path}?{request.query.decode('latin-1')}".rstrip("?")
            requests_log.info(
                '%s - "%s %s HTTP/%s" %d',
                self._client, request.method, target, request.version, status,
            )  # fmt: skip
        if closes:
            request.keep_alive = False
        closing = b"" if request.keep_alive or closes else CLOSING
        return b"".join((STATUS_LINES[status], self._usual_lines(), lines, closing, b"\r\n"))

    def _usual_lines(self) -> bytes:
        headers = self._state.default_headers
        if Talk._usual[0] is not headers:
            Talk._usual = (headers, b"".join([b"%b: %b\r\n" % pair for pair in headers]))
        return Talk._usual[1]

    def _next(self, request: Request) -> None:
        """The first in line has its answer; now the one behind it."""
        self._state.total_requests += 1
        self._line.popleft()
        if self._transport.is_closing():
            return
        if not request.keep_alive:
            self._transport.close()
            return
        self._flow.resume_reading()
        if self._line:
            # In a pass of its own: who sends a thousand at once must not keep all others waiting.
            self._unbegun = self._line[0]
            self._loop.call_soon(self._begin)
        elif not self._is_head:
            self._set_timer(self._keep_alive_s)

    def _send_bad_request(self, why: str) -> None:
        """What came is no request, so nobody knows in which form an answer is wanted."""
        lines = f"content-type: text/plain; charset=utf-8\r\ncontent-length: {len(why)}\r\n"
        head = (STATUS_LINES[400], self._usual_lines(), lines.encode(), CLOSING, b"\r\n")
        self._transport.write(b"".join((*head, why.encode())))
        self._transport.close()

    # Patience.

    def _set_timer(self, seconds: float) -> None:
        """A timer that is set stays: it is cheaper to look again than to set it anew each time."""
        self._closes_at = self._loop.time() + seconds
        if self._timer is None or self._closes_at < self._rings_at:
            if self._timer is not None:
                self._timer.cancel()
            self._rings_at = self._closes_at
            self._timer = self._loop.call_at(self._rings_at, self._ring)

    def _forget_timer(self) -> None:
        self._closes_at = inf

    def _ring(self) -> None:
        self._timer = None
        if self._closes_at <= self._rings_at:
            self._transport.close()
        elif self._closes_at < inf:
            self._rings_at = self._closes_at
            self._timer = self._loop.call_at(self._rings_at, self._ring)


def _target(url: bytes) -> tuple[str, bytes]:
    """The path as it was sent, and what follows it."""
    if url.startswith(b"/") and b"#" not in url:
        path, _, query = url.partition(b"?")
    else:
        parsed = httptools.parse_url(url)
        path, query = parsed.path or b"/", parsed.query or b""
    return path.decode("latin-1"), query
