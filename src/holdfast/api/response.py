"""What goes back over the wire: a status, the lines of a head, and the bytes that follow."""

from collections.abc import AsyncGenerator, Iterable
from functools import lru_cache
from http import HTTPStatus
from typing import Final

from msgspec import Struct

STATUS_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}
LINES_KEPT: Final = 128
CLOSING: Final = b"connection: close\r\n"
BODILESS: Final = frozenset({204, 304})
"""Answers that never have a body, nor say how long it is."""


class Response(Struct, frozen=True):
    """`lines` are those of its head, each with its end; `closes`: the connection ends with it."""

    status: int
    lines: bytes
    content: bytes = b""
    closes: bool = False


class Streamed(Struct, frozen=True):
    """An answer in pieces. `sized`: its head says how long it is."""

    lines: bytes
    chunks: AsyncGenerator[bytes, None]
    sized: bool


def lines_of(headers: Iterable[tuple[str, str]]) -> bytes:
    """`ValueError` where a value holds what no line of a head may."""
    lines: list[str] = []
    for name, value in headers:
        if not value.isprintable():
            raise ValueError(f"{name} cannot be told: {value!r}")
        lines.append(f"{name}: {value}\r\n")
    return "".join(lines).encode("latin-1")


def whole(
    status: int,
    content: bytes = b"",
    content_type: str = "",
    headers: Iterable[tuple[str, str]] = (),
) -> Response:
    """An answer in one piece. Of headers of one name the last counts."""
    has_body = status not in BODILESS
    lines, closes = _lines(tuple(headers), content_type if has_body else "")
    if has_body:
        lines = b"%bcontent-length: %d\r\n" % (lines, len(content))
    return Response(status, lines, content, closes)


@lru_cache(maxsize=LINES_KEPT)
def _lines(headers: tuple[tuple[str, str], ...], content_type: str) -> tuple[bytes, bool]:
    """The lines of a head that many answers share, and whether they close the connection."""
    told = dict(headers)
    if content_type:
        told["content-type"] = content_type
    return lines_of(told.items()), told.get("connection") == "close"


def streamed(
    content_type: str, chunks: AsyncGenerator[bytes, None], headers: Iterable[tuple[str, str]]
) -> Streamed:
    told = {
        "content-type": content_type,
        "cache-control": "no-store",
        "x-accel-buffering": "no",
        **dict(headers),
    }
    return Streamed(lines_of(told.items()), chunks, "content-length" in told)
