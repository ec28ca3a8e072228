"""Connections to a server: kept between requests, given up when anything about them is unclear."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from holdfast.wire.answers import Broken, Heard
from holdfast.wire.connection import Connections
from holdfast.wire.target import Server, target_of

OK = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 4\r\n\r\nfine"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nfi\r\n2\r\nne\r\n0\r\n\r\n"


class Site:
    """A server of one's own making: what it says to each request is written down before."""

    def __init__(self, path: Path, *answers: bytes | None) -> None:
        self.path = path
        self.visitors = 0
        self.left = asyncio.Event()
        self._answers = list(answers)

    async def attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.visitors += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                await reader.readexactly(length)
                answer = self._answers.pop(0)
                if answer is None:
                    # Silence, until the other side has had enough of it.
                    await reader.read()
                    break
                writer.write(answer)
                if b"connection: close" in answer or not answer.startswith(b"HTTP"):
                    break
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()
            self.left.set()


def visit(
    path: Path, story: Callable[[Connections, Site], Awaitable[None]], *answers: bytes | None
) -> None:
    async def told() -> None:
        site = Site(path, *answers)
        server = await asyncio.start_unix_server(site.attend, path)
        connections = Connections(Server(url=f"unix:{path}"), most=2, connect_s=5)
        try:
            await story(connections, site)
        finally:
            await connections.close()
            server.close()
            await server.wait_closed()

    asyncio.run(told())


async def ask(connections: Connections, answer_s: float = 5.0) -> Heard:
    return await connections.post("/x", b"hello", "text/plain", answer_s)


def test_a_connection_serves_one_request_after_another(tmp_path: Path) -> None:
    async def story(connections: Connections, site: Site) -> None:
        for _ in range(3):
            heard = await ask(connections)
            assert (heard.status, heard.content_type, heard.content) == (200, "text/plain", b"fine")
        assert site.visitors == 1

    visit(tmp_path / "s", story, OK, OK, OK)


def test_an_answer_in_pieces_is_put_together(tmp_path: Path) -> None:
    async def story(connections: Connections, site: Site) -> None:
        assert (await ask(connections)).content == b"fine"
        assert (await ask(connections)).content == b"fine"
        assert site.visitors == 1

    visit(tmp_path / "s", story, CHUNKED, CHUNKED)


def test_a_connection_that_the_server_closes_is_not_used_again(tmp_path: Path) -> None:
    async def story(connections: Connections, site: Site) -> None:
        closing = OK.replace(b"content-type", b"connection: close\r\ncontent-type")
        site._answers = [closing, OK]
        assert (await ask(connections)).content == b"fine"
        assert (await ask(connections)).content == b"fine"
        assert site.visitors == 2

    visit(tmp_path / "s", story)


def test_who_waited_long_enough_is_never_given_that_answer_later(tmp_path: Path) -> None:
    async def story(connections: Connections, site: Site) -> None:
        with pytest.raises(TimeoutError):
            await ask(connections, answer_s=0.01)
        # The connection is gone with the question, and the server hears of it.
        await site.left.wait()
        assert (await ask(connections)).content == b"fine"
        assert site.visitors == 2

    visit(tmp_path / "s", story, None, OK)


def test_who_is_cancelled_leaves_no_connection_behind(tmp_path: Path) -> None:
    async def story(connections: Connections, site: Site) -> None:
        asking = asyncio.ensure_future(ask(connections))
        while not site.visitors:
            await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await site.left.wait()

    visit(tmp_path / "s", story, None)


@pytest.mark.parametrize(
    ("said", "why"),
    [(b"220 mail ready\r\n", "does not speak HTTP"), (b"", "was closed")],
)
def test_what_is_no_answer_breaks_the_connection(tmp_path: Path, said: bytes, why: str) -> None:
    async def story(connections: Connections, site: Site) -> None:
        with pytest.raises(Broken, match=why):
            await ask(connections)

    visit(tmp_path / "s", story, said)


def test_two_may_ask_at_once_and_a_third_waits_for_its_turn(tmp_path: Path) -> None:
    async def story(connections: Connections, site: Site) -> None:
        heard = await asyncio.gather(*[ask(connections) for _ in range(3)])
        assert [each.content for each in heard] == [b"fine"] * 3
        assert site.visitors <= 2

    visit(tmp_path / "s", story, OK, OK, OK)


@pytest.mark.parametrize("token", ["a\r\nx-more: b", "ключ"])
def test_a_token_cannot_add_lines_to_a_request(token: str) -> None:
    with pytest.raises(ValueError, match="one word"):
        target_of(Server(url="http://127.0.0.1:1", token=token))


def test_a_request_names_the_host_and_keeps_the_path_of_the_address() -> None:
    target = target_of(Server(url="http://[::1]:7700/under/", token="hf_a_b"))
    head = target.head("POST", "/x", {"a": "b"}, 5)
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /under/x HTTP/1.1"
    assert b"host: [::1]:7700" in lines
    assert b"content-length: 5" in lines
    assert b"authorization: Bearer hf_a_b" in lines
    assert b"a: b" in lines
    assert head.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("path", ["/x\r\nevil: 1", "/x y", "/ü"])
def test_a_path_cannot_add_lines_to_a_request(path: str) -> None:
    target = target_of(Server(url="http://127.0.0.1:1"))
    with pytest.raises(ValueError, match="cannot be asked for"):
        target.head("GET", path, {}, 0)
