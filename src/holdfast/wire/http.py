"""HTTP as a client of Holdfast speaks it: what is asked, and what is asked again.

A request that may safely be repeated is repeated while the server is away, with growing pauses
that differ from client to client; what is not safe to repeat fails at once. Who asks too often is
told when to come again, and does.
"""

import random
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import Any, BinaryIO, Final, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from holdfast.wire.answers import AWAY, Broken, Heard, Rejected, decoded, rejection
from holdfast.wire.errors import Unreachable
from holdfast.wire.line import Lines, NotConnected
from holdfast.wire.target import MSGPACK, Server, target_of

__all__ = ["MSGPACK", "AnyBody", "Http", "Rejected", "Server", "Unreachable", "decoded"]

T = TypeVar("T")
AnyBody = Struct | Mapping[str, Any]
"""What is asked for: of a type that both sides know, or a document as somebody wrote it."""

BYTES: Final = "application/octet-stream"
FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 5.0
LEAST_PAUSE_S: Final = 1.0
"""A server that wants to be asked again so soon is about to come, or to go."""
CONNECT_S: Final = 5.0
ANSWER_S: Final = 60.0
PLAIN: Final = "/%:@!$&'()*+,;=~?"
"""What may stand in a path as it is."""
CHUNK: Final = 1 << 16
TOO_OFTEN: Final = 429
"""The answer that means: nothing was done, come again later. Anything may be asked again then."""


class Http:
    """Requests from any thread. `patience_s` is how long a server may be away."""

    def __init__(self, server: Server, *, patience_s: float = 60.0, connections: int = 32) -> None:
        self.server = server
        self._patience_s = patience_s
        self._closed = threading.Event()
        try:
            self._target = target_of(server)
        except ValueError as error:
            raise Unreachable(server.url, str(error)) from error
        self._lines = Lines(
            self._target, most=connections, connect_s=CONNECT_S, wait_s=ANSWER_S
        )

    def get(self, path: str, kind: type[T], /, **query: Any) -> T:
        params = {name: value for name, value in query.items() if value not in (None, "")}
        return self._answer(self._ask("GET", path, params=params), kind)

    def text(self, path: str) -> str:
        """What is told to programs and people that speak neither JSON nor msgpack."""
        heard = self._ask("GET", path)
        if heard.status >= 400:
            raise rejection(heard)
        return heard.content.decode()

    def post(
        self,
        path: str,
        body: AnyBody | None,
        kind: type[T],
        *,
        key: str = "",
        answer_s: float = ANSWER_S,
        **query: Any,
    ) -> T:
        """Ask for a change. With a `key` it is repeated until the server has answered; the server
        knows a repeat by it. `answer_s` is how long the answer itself may take."""
        heard = self._ask("POST", path, params=query, body=body, key=key, answer_s=answer_s)
        return self._answer(heard, kind)

    def put(self, path: str, body: Struct | None, kind: type[T]) -> T:
        return self._answer(self._ask("PUT", path, body=body), kind)

    def patch(self, path: str, body: Struct, kind: type[T]) -> T:
        """Change what is named; said twice, it is as it was said once."""
        return self._answer(self._ask("PATCH", path, body=body), kind)

    def delete(self, path: str, kind: type[T]) -> T:
        return self._answer(self._ask("DELETE", path), kind)

    def head(self, path: str) -> None:
        """Whether it is there; `Rejected` where it is not, or may not be asked for."""
        self._answer(self._ask("HEAD", path), dict)

    def upload(self, path: str, content: BinaryIO, size: int) -> None:
        """Put the bytes of a file where `path` says, from its beginning, however often that takes
        while the server is away."""
        self._answer(self._ask("PUT", path, file=(content, size)), dict)

    def fetch(self, path: str) -> bytes:
        """What is there, as it is."""
        heard = self._ask("GET", path)
        if heard.status >= 400:
            raise rejection(heard)
        return heard.content

    @contextmanager
    def stream(self, path: str, *, idle_s: float, **query: Any) -> Iterator[Iterator[bytes]]:
        """An answer that does not end: its bytes as they come; silence for `idle_s` breaks it."""
        head = self._target.head("GET", _named(path, query), {}, 0)
        try:
            with self._lines.taken() as line:
                heard = line.begin(head, idle_s)
                chunks = line.chunks(heard.content)
                if heard.status >= 400:
                    raise rejection(msgspec.structs.replace(heard, content=b"".join(chunks)))
                yield chunks
        except (OSError, Broken, NotConnected) as error:
            raise Unreachable(self.server.url, said(error)) from error

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
        self._lines.close()

    def _ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: AnyBody | None = None,
        key: str = "",
        file: tuple[BinaryIO, int] | None = None,
        answer_s: float = ANSWER_S,
    ) -> Heard:
        headers = {"idempotency-key": key} if key else {}
        content, size = b"", 0
        if body is not None:
            content, headers["content-type"] = msgspec.msgpack.encode(body), MSGPACK
            size = len(content)
        if file is not None:
            headers["content-type"], size = BYTES, file[1]
        request = self._target.head(method, _named(path, params), headers, size) + content
        repeatable = bool(key) or method in ("GET", "HEAD", "PUT", "PATCH", "DELETE")
        give_up_at = time.monotonic() + self._patience_s
        pause = FIRST_PAUSE_S
        while True:
            if self._closed.is_set():
                raise RuntimeError("this client was closed")
            try:
                content_of = () if file is None else _chunks(file[0])
                heard = self._ask_once(method, request, content_of, answer_s)
                if heard.status == TOO_OFTEN:
                    if not self._waits_as_told(heard, give_up_at):
                        return heard
                    continue
                if heard.status not in AWAY or not repeatable:
                    return heard
                if _pause_told(heard) > max(LEAST_PAUSE_S, give_up_at - time.monotonic()):
                    # It says why, and when to come back: nobody has so much time.
                    return heard
                why = f"it answered {heard.status}"
            except NotConnected as error:
                why = said(error)
            except (OSError, Broken) as error:
                why = said(error)
                if not repeatable:
                    raise Unreachable(self.server.url, why) from error
            left = give_up_at - time.monotonic()
            if left <= 0 or self._closed.is_set():
                raise Unreachable(self.server.url, why)
            # Full jitter: a thousand clients must not come back in step.
            self._closed.wait(min(left, random.uniform(0, pause)))  # noqa: S311
            pause = min(pause * 2, LONGEST_PAUSE_S)

    def _ask_once(
        self, method: str, request: bytes, body: Iterable[bytes], answer_s: float
    ) -> Heard:
        with self._lines.taken() as line:
            # Nothing follows the head of an answer to HEAD, whatever it says.
            if method == "HEAD":
                return line.begin(request, answer_s)
            return line.ask(request, body, answer_s)

    def _waits_as_told(self, heard: Heard, give_up_at: float) -> bool:
        """Wait until the server wants to be asked again; False where nobody has so much time."""
        seconds = _pause_told(heard) or LONGEST_PAUSE_S
        if time.monotonic() + seconds > give_up_at:
            return False
        # Those who were told the same do not come back together.
        return not self._closed.wait(seconds + random.uniform(0, FIRST_PAUSE_S))  # noqa: S311

    def _answer(self, heard: Heard, kind: type[T]) -> T:
        if heard.status >= 400:
            raise rejection(heard)
        return decoded(heard.content, heard.content_type, kind)


def _named(path: str, query: Mapping[str, Any] | None) -> str:
    """What is asked for, with whatever follows the path."""
    if not path.isascii() or not path.isprintable() or " " in path:
        path = quote(path, safe=PLAIN)
    told = urlencode(query, doseq=True) if query else ""
    return f"{path}?{told}" if told else path


def _pause_told(heard: Heard) -> float:
    """How long to wait before the next try, as far as the server says; zero where it does not."""
    told = heard.headers.get("retry-after", "")
    return float(told) if told.isascii() and told.isdigit() else 0.0


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    file.seek(0)
    while chunk := file.read(CHUNK):
        yield chunk


def said(error: Exception) -> str:
    return str(error) or type(error).__name__
