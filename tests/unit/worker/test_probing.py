"""Asking a replica once: what counts as an answer, and what is said of anything else."""

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from holdfast.worker import probing
from holdfast.worker.probing import Unwell, ask_http, ask_tcp, read_http

HERE = "127.0.0.1"
LONG_MS = 30_000
Answer = Callable[[socket.socket], None]
Ask = Callable[[int], Coroutine[Any, Any, Any]]


def saying(*pieces: bytes) -> Answer:
    """Reads a request, says this, and hangs up."""

    def answer(line: socket.socket) -> None:
        line.recv(1 << 16)
        for piece in pieces:
            line.sendall(piece)

    return answer


def silent(line: socket.socket) -> None:
    while line.recv(1 << 16):
        pass


def asked(answer: Answer, ask: Ask) -> Any:
    """Ask a port on which somebody answers so, once."""
    with socket.create_server((HERE, 0)) as listening:

        def serve() -> None:
            with listening.accept()[0] as line, suppress(OSError):
                answer(line)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            return asyncio.run(ask(listening.getsockname()[1]))
        finally:
            thread.join()


@pytest.mark.parametrize("status", [200, 204, 302, 399])
def test_an_answer_from_200_to_399_is_a_good_one(status: int) -> None:
    said = saying(f"HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n".encode())
    asked(said, lambda port: ask_http(HERE, port, "/", LONG_MS))


@pytest.mark.parametrize("status", [199, 400, 404, 500, 503])
def test_any_other_is_told(status: int) -> None:
    said = saying(f"HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n".encode())
    told = "answered" if status != 199 else "the connection was closed"
    with pytest.raises(Unwell, match=rf"^http /well.*{told}"):
        asked(said, lambda port: ask_http(HERE, port, "/well", LONG_MS))


def test_a_body_that_never_ends_is_not_waited_for() -> None:
    said = saying(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\nbegin")
    asked(said, lambda port: ask_http(HERE, port, "/", LONG_MS))


def test_silence_is_no_answer() -> None:
    with pytest.raises(Unwell, match=r"^http /: no answer within 0\.05 s$"):
        asked(silent, lambda port: ask_http(HERE, port, "/", 50))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"", "the connection was closed"),
        (b"HTTP/1.1 200 OK\r\nhalf", "the connection was closed"),
        (b"SSH-2.0-OpenSSH\r\n", "does not speak HTTP"),
    ],
)
def test_what_is_no_http_is_told(said: bytes, why: str) -> None:
    with pytest.raises(Unwell, match=f"^http /: .*{why}"):
        asked(saying(said), lambda port: ask_http(HERE, port, "/", LONG_MS))


def test_headers_without_end_are_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "HEAD_BYTES_MAX", 4_000)
    said = saying(b"HTTP/1.1 200 OK\r\n", *[b"x-%d: y\r\n" % n for n in range(2_000)])
    with pytest.raises(Unwell, match=r"^http /: "):
        asked(said, lambda port: ask_http(HERE, port, "/", LONG_MS))


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\na 1\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\na \r\n2\r\n1\n\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\na 1\n",
    ],
)
def test_what_is_there_is_read_however_its_end_is_told(said: bytes) -> None:
    content = asked(saying(said), lambda port: read_http(HERE, port, "/metrics", LONG_MS))
    assert content == b"a 1\n"


def test_more_than_anybody_needs_is_not_read() -> None:
    said = saying(b"HTTP/1.0 200 OK\r\n\r\n", b"x" * 200_000)
    with pytest.raises(Unwell, match=r"^http /metrics: the answer is longer than 1000 bytes$"):
        asked(said, lambda port: read_http(HERE, port, "/metrics", LONG_MS, bytes_max=1_000))


def test_a_port_that_takes_connections_is_enough_for_tcp() -> None:
    asked(silent, lambda port: ask_tcp(HERE, port, LONG_MS))


def test_a_port_that_nobody_opened_is_told() -> None:
    with socket.socket() as bound:
        # Bound and not listening: nobody else can open it meanwhile.
        bound.bind((HERE, 0))
        port = bound.getsockname()[1]
        with pytest.raises(Unwell, match=rf"^tcp {HERE}:{port}: nobody takes connections there$"):
            asyncio.run(ask_tcp(HERE, port, LONG_MS))
