"""HTTP as a client of Holdfast speaks it: the one module that knows which library carries it.

A request that may safely be repeated is repeated while the server is away, with growing pauses
that differ from client to client; what is not safe to repeat fails at once. Who asks too often is
told when to come again, and does.
"""

import random
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from typing import Any, BinaryIO, Final, TypeVar

import httpx2
import msgspec
from msgspec import Struct

from holdfast.version import VERSION
from holdfast.wire.bodies import Problem
from holdfast.wire.errors import Unreachable

__all__ = ["Http", "Rejected", "Server", "Unreachable", "decoded"]

T = TypeVar("T")

MSGPACK: Final = "application/msgpack"
JSON: Final = "application/json"
BYTES: Final = "application/octet-stream"
UNIX: Final = "unix:"
FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 5.0
CONNECT_S: Final = 5.0
CHUNK: Final = 1 << 16
AWAY: Final = frozenset({502, 503, 504})
"""Answers that mean: not now. The request was not taken, or is safe to repeat."""
TOO_OFTEN: Final = 429
"""The answer that means: nothing was done, come again later. Anything may be asked again then."""


class Rejected(Exception):
    """The server understood and said no; `problem` says why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail or problem.title)
        self.problem = problem


class Server(Struct, frozen=True, kw_only=True):
    """Where a server is and how one may ask it. `ca_file`: whom to trust beside the system."""

    url: str
    token: str = ""
    ca_file: str = ""

    def base_url(self) -> str:
        return "http://holdfast" if self.url.startswith(UNIX) else self.url.rstrip("/")

    def headers(self) -> dict[str, str]:
        known = {"user-agent": f"holdfast/{VERSION}", "accept": MSGPACK}
        if self.token:
            known["authorization"] = f"Bearer {self.token}"
        return known

    def socket(self) -> str | None:
        return self.url.removeprefix(UNIX) if self.url.startswith(UNIX) else None

    def trust(self) -> ssl.SSLContext | bool:
        if not self.url.startswith("https:"):
            return False
        return ssl.create_default_context(cafile=self.ca_file or None)


class Http:
    """Requests from any thread. `patience_s` is how long a server may be away."""

    def __init__(self, server: Server, *, patience_s: float = 60.0, connections: int = 32) -> None:
        self.server = server
        self._patience_s = patience_s
        self._closed = threading.Event()
        self._streaming: set[httpx2.Response] = set()
        self._client = httpx2.Client(
            base_url=server.base_url(),
            headers=server.headers(),
            timeout=httpx2.Timeout(60.0, connect=CONNECT_S),
            transport=httpx2.HTTPTransport(
                uds=server.socket(),
                verify=server.trust(),
                limits=httpx2.Limits(max_connections=connections),
            ),
        )

    def get(self, path: str, kind: type[T], **query: Any) -> T:
        params = {name: value for name, value in query.items() if value not in (None, "")}
        return self._answer(self._ask("GET", path, params=params), kind)

    def post(self, path: str, body: Struct | None, kind: type[T], *, key: str = "") -> T:
        """Ask for a change. With a `key` it is repeated until the server has answered; the server
        knows a repeat by it."""
        return self._answer(self._ask("POST", path, body=body, key=key), kind)

    def put(self, path: str, body: Struct | None, kind: type[T]) -> T:
        return self._answer(self._ask("PUT", path, body=body), kind)

    def delete(self, path: str, kind: type[T]) -> T:
        return self._answer(self._ask("DELETE", path), kind)

    def head(self, path: str) -> None:
        """Whether it is there; `Rejected` where it is not, or may not be asked for."""
        self._answer(self._ask("HEAD", path), dict)

    def upload(self, path: str, content: BinaryIO, size: int) -> None:
        """Put the bytes of a file where `path` says, from its beginning, however often that takes
        while the server is away."""
        self._answer(self._ask("PUT", path, file=(content, size)), dict)

    @contextmanager
    def stream(self, path: str, *, idle_s: float, **query: Any) -> Iterator[Iterator[bytes]]:
        """An answer that does not end: its bytes as they come; silence for `idle_s` breaks it."""
        timeout = httpx2.Timeout(CONNECT_S, read=idle_s)
        try:
            with self._client.stream("GET", path, params=query, timeout=timeout) as response:
                if response.status_code >= 400:
                    response.read()
                    raise _rejection(response)
                self._streaming.add(response)
                try:
                    yield response.iter_raw()
                finally:
                    self._streaming.discard(response)
        except httpx2.TransportError as error:
            raise Unreachable(self.server.url, _said(error)) from error

    def clock(self) -> float | None:
        """What the server's wall clock shows, in seconds since 1970 and whole ones only; None
        where it does not say."""
        told = self._ask("GET", "/api/v1/livez").headers.get("date", "")
        try:
            return parsedate_to_datetime(told).timestamp()
        except ValueError:
            return None

    def close(self) -> None:
        """End everything; who reads a stream in another thread meets its end at once."""
        self._closed.set()
        for response in list(self._streaming):
            _hang_up(response)
        self._client.close()

    def _ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Struct | None = None,
        key: str = "",
        file: tuple[BinaryIO, int] | None = None,
    ) -> httpx2.Response:
        headers = {"idempotency-key": key} if key else {}
        content: bytes | Iterator[bytes] | None = None
        if body is not None:
            content, headers["content-type"] = msgspec.msgpack.encode(body), MSGPACK
        repeatable = bool(key) or method in ("GET", "HEAD", "PUT", "DELETE")
        give_up_at = time.monotonic() + self._patience_s
        pause = FIRST_PAUSE_S
        while True:
            if file is not None:
                headers |= {"content-type": BYTES, "content-length": str(file[1])}
                content = _chunks(file[0])
            try:
                response = self._client.request(
                    method, path, params=params, content=content, headers=headers
                )
                if response.status_code == TOO_OFTEN:
                    if not self._waits_as_told(response, give_up_at):
                        return response
                    continue
                if response.status_code not in AWAY or not repeatable:
                    return response
                why = f"it answered {response.status_code}"
            except httpx2.ConnectError as error:
                # Nothing was sent, so anything may be tried again.
                why = _said(error)
            except httpx2.TransportError as error:
                why = _said(error)
                if not repeatable:
                    raise Unreachable(self.server.url, why) from error
            left = give_up_at - time.monotonic()
            if left <= 0 or self._closed.is_set():
                raise Unreachable(self.server.url, why)
            # Full jitter: a thousand clients must not come back in step.
            self._closed.wait(min(left, random.uniform(0, pause)))  # noqa: S311
            pause = min(pause * 2, LONGEST_PAUSE_S)

    def _waits_as_told(self, response: httpx2.Response, give_up_at: float) -> bool:
        """Wait until the server wants to be asked again; False where nobody has so much time."""
        told = response.headers.get("retry-after", "")
        seconds = float(told) if told.isascii() and told.isdigit() else LONGEST_PAUSE_S
        if time.monotonic() + seconds > give_up_at:
            return False
        # Those who were told the same do not come back together.
        return not self._closed.wait(seconds + random.uniform(0, FIRST_PAUSE_S))  # noqa: S311

    def _answer(self, response: httpx2.Response, kind: type[T]) -> T:
        if response.status_code >= 400:
            raise _rejection(response)
        return decoded(response.content, response.headers.get("content-type", ""), kind)


def decoded(content: bytes, content_type: str, kind: type[T]) -> T:
    if not content:
        return msgspec.convert(None, kind) if kind is type(None) else msgspec.convert({}, kind)
    if content_type.startswith(MSGPACK):
        return msgspec.msgpack.decode(content, type=kind)
    return msgspec.json.decode(content, type=kind)


def _rejection(response: httpx2.Response) -> Rejected:
    try:
        problem = decoded(response.content, response.headers.get("content-type", ""), Problem)
    except (msgspec.DecodeError, TypeError):
        status = response.status_code
        problem = Problem(
            type="about:blank", title=response.reason_phrase, status=status,
            detail=f"the server answered {status} and not in a form we know", code="unknown",
        )  # fmt: skip
    return Rejected(problem)


def _hang_up(response: httpx2.Response) -> None:
    """Shut the connection, which wakes whoever waits for its next byte; closing alone does not."""
    connection = response.extensions["network_stream"].get_extra_info("socket")
    if connection is not None:
        with suppress(OSError):
            socket.socket.shutdown(connection, socket.SHUT_RDWR)


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    file.seek(0)
    while chunk := file.read(CHUNK):
        yield chunk


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
