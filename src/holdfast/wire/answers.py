"""Answers of a server as its clients hear them: put together from bytes, then understood."""

from http import HTTPStatus
from typing import Final, TypeVar

import httptools
import msgspec
from msgspec import Struct

from holdfast.core.unreadable import UNREADABLE
from holdfast.wire.bodies import Problem
from holdfast.wire.target import MSGPACK

T = TypeVar("T")

AWAY: Final = frozenset({502, 503, 504})
"""Answers that mean: not now. The request was not taken, or is safe to repeat."""
NOT_NOW: Final = AWAY | {429, 500}
"""Answers after which the same may be asked again later, by whoever has time."""

UNASKED: Final = "an answer came that nobody waits for"


class Rejected(Exception):
    """The server understood and said no; `problem` says why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail or problem.title)
        self.problem = problem


class Broken(Exception):
    """The connection ended, or what came over it was no answer."""


class Heard(Struct, frozen=True):
    """An answer as it came. Names of headers are in small letters."""

    status: int
    headers: dict[str, str]
    content: bytes = b""

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "")


class Ear:
    """Hears one answer after another. `has_head`: its status and headers are there; `is_over`: all
    of it is; `keeps`: the connection may be asked again."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self.begin()

    def begin(self) -> None:
        """Expect the next answer."""
        self.has_head = self.is_over = self.keeps = False
        self._headers: dict[str, str] = {}
        self._chunks: list[bytes] = []

    def hear(self, data: bytes) -> None:
        """`Broken` where this is no answer, or more than one."""
        if self.is_over:
            raise Broken(UNASKED)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            raise Broken(UNASKED) from error
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            raise Broken(f"what answered does not speak HTTP: {error}") from error

    def ends_here(self) -> bool:
        """Whether the end of the connection is the end of the answer, which has no other."""
        told = self._headers
        is_open = "content-length" not in told and "transfer-encoding" not in told
        return self.has_head and is_open

    def taken(self) -> bytes:
        """What has come of the body and was not taken before."""
        chunks, self._chunks = self._chunks, []
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def heard(self) -> Heard:
        return Heard(self._parser.get_status_code(), self._headers, self.taken())

    # What the parser finds.

    def on_message_begin(self) -> None:
        if self.is_over:
            raise Broken(UNASKED)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.has_head = True

    def on_body(self, chunk: bytes) -> None:
        self._chunks.append(chunk)

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() < 200:
            # Only a sign that the answer will follow.
            self.begin()
            return
        self.is_over = True
        self.keeps = self._parser.should_keep_alive()


def decoded(content: bytes, content_type: str, kind: type[T]) -> T:
    if not content:
        return msgspec.convert(None, kind) if kind is type(None) else msgspec.convert({}, kind)
    if content_type.startswith(MSGPACK):
        return msgspec.msgpack.decode(content, type=kind)
    return msgspec.json.decode(content, type=kind)


def rejection(heard: Heard) -> Rejected:
    try:
        problem = decoded(heard.content, heard.content_type, Problem)
    except (*UNREADABLE, TypeError):
        status = heard.status
        known = status in HTTPStatus.__members__.values()
        problem = Problem(
            type="about:blank", title=HTTPStatus(status).phrase if known else "", status=status,
            detail=f"the server answered {status} and not in a form we know", code="unknown",
        )  # fmt: skip
    return Rejected(problem)
