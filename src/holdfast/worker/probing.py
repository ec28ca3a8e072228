"""Asking a replica, once: does its port take a connection, does it answer over HTTP, and what.

Every answer has a bound in time and in bytes; a replica that drips or never stops is as bad as one
that is silent.
"""

import asyncio
from contextlib import suppress
from typing import Final

from holdfast.version import VERSION
from holdfast.wire.answers import Broken, Ear, Heard
from holdfast.worker.ports import address_of

READ_BYTES: Final = 1 << 16
HEAD_BYTES_MAX: Final = 1 << 16
BODY_BYTES_MAX: Final = 4 << 20
CONTENT: Final = range(200, 400)


class Unwell(Exception):
    """It did not answer as it should: the message says what came instead."""


async def ask_tcp(host: str, port: int, timeout_ms: int) -> None:
    """Whether somebody takes connections there."""
    try:
        async with asyncio.timeout(timeout_ms / 1_000):
            _, writer = await asyncio.open_connection(host, port)
            writer.transport.abort()
    except (TimeoutError, OSError) as error:
        raise Unwell(f"tcp {address_of(host, port)}: {_said(error, timeout_ms)}") from None


async def ask_http(host: str, port: int, path: str, timeout_ms: int) -> None:
    """Whether the answer there is a good one. Its body is nobody's business."""
    heard = await _get(host, port, path, timeout_ms)
    if heard.status not in CONTENT:
        raise Unwell(f"http {path} answered {heard.status}")


async def read_http(
    host: str, port: int, path: str, timeout_ms: int, *, bytes_max: int = BODY_BYTES_MAX
) -> bytes:
    """What is there."""
    heard = await _get(host, port, path, timeout_ms, bytes_max)
    if heard.status != 200:
        raise Unwell(f"http {path} answered {heard.status}")
    return heard.content


async def _get(
    host: str, port: int, path: str, timeout_ms: int, body_bytes_max: int | None = None
) -> Heard:
    """The answer; without a bound for its body no more of it than its head."""
    request = (
        f"GET {path} HTTP/1.1\r\nhost: {address_of(host, port)}\r\n"
        f"user-agent: holdfast/{VERSION}\r\naccept: */*\r\nconnection: close\r\n\r\n"
    ).encode("latin-1")
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(timeout_ms / 1_000):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(request)
            return await _hear(reader, body_bytes_max)
    except (TimeoutError, OSError, Broken) as error:
        raise Unwell(f"http {path}: {_said(error, timeout_ms)}") from None
    finally:
        if writer is not None:
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()


async def _hear(reader: asyncio.StreamReader, body_bytes_max: int | None) -> Heard:
    ear, size = Ear(), 0
    bound = HEAD_BYTES_MAX if body_bytes_max is None else body_bytes_max
    while not (ear.is_over or (ear.has_head and body_bytes_max is None)):
        data = await reader.read(READ_BYTES)
        if not data:
            if ear.ends_here():
                break
            raise Broken("the connection was closed")
        ear.hear(data)
        size += len(data)
        if size > bound:
            raise Broken(f"the answer is longer than {bound} bytes")
    return ear.heard()


def _said(error: BaseException, timeout_ms: int) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "nobody takes connections there"
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout_ms / 1_000:g} s"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
