"""Asking over a real socket: an answer, a no, and nobody there."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from holdfast.core.ids import WorkerId
from holdfast.wire.bodies import Problem
from holdfast.wire.exchange import Capacity, Exchange, Reply
from holdfast.wire.http_async import AsyncHttp, Rejected, Server, Unreachable

EXCHANGE = Exchange(WorkerId("w"), 1, 7, 6, Capacity(1, 1_000, 0, 0), (), (), (), (), (), 0, False)


class Listener:
    """Answers every request alike, on a unix socket; keeps what it was asked."""

    def __init__(self, status: int, body: bytes, kind: str = "application/msgpack") -> None:
        self.asked = b""
        self._answer = (
            f"HTTP/1.1 {status} So\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
        ).encode() + body

    async def attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        self.asked = head + await reader.readexactly(length)
        writer.write(self._answer)
        await writer.drain()
        writer.close()


def ask(listener: Listener, path: Path, token: str = "") -> Reply:
    async def story() -> Reply:
        server = await asyncio.start_unix_server(listener.attend, path)
        http = AsyncHttp(Server(url=f"unix:{path}", token=token))
        try:
            return await http.post("/api/v1/exchange", EXCHANGE, Reply, answer_s=5)
        finally:
            await http.close()
            server.close()
            await server.wait_closed()

    return asyncio.run(story())


def test_an_exchange_goes_and_its_answer_comes(tmp_path: Path) -> None:
    answer = Reply(7, (), (), (), (), good_ms=5)
    listener = Listener(200, msgspec.msgpack.encode(answer))
    assert ask(listener, tmp_path / "s", token="hf_a_b") == answer
    head, _, body = listener.asked.partition(b"\r\n\r\n")
    assert msgspec.msgpack.decode(body, type=Exchange) == EXCHANGE
    assert b"bearer hf_a_b" in head.lower()


def test_a_no_is_raised_with_its_reason(tmp_path: Path) -> None:
    problem = Problem(type="", title="No", status=403, detail="not you", code="forbidden")
    with pytest.raises(Rejected, match="not you") as caught:
        ask(Listener(403, msgspec.msgpack.encode(problem)), tmp_path / "s")
    assert caught.value.problem.code == "forbidden"


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_not_now_is_as_good_as_nobody_there(tmp_path: Path, status: int) -> None:
    with pytest.raises(Unreachable, match=str(status)):
        ask(Listener(status, b""), tmp_path / "s")


def test_something_else_that_answers_is_not_a_server(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="not a Holdfast server"):
        ask(Listener(200, b"<html>", "text/html"), tmp_path / "s")


def test_nobody_there_is_unreachable(tmp_path: Path) -> None:
    async def story() -> Reply:
        http = AsyncHttp(Server(url=f"unix:{tmp_path / 'nobody'}"))
        try:
            return await http.post("/api/v1/exchange", EXCHANGE, Reply)
        finally:
            await http.close()

    with pytest.raises(Unreachable):
        asyncio.run(story())
