"""The misbehaving network does what it says, or tests that rely on it prove nothing."""

import socket
import threading
from collections.abc import Iterator

import pytest

from holdfast.testing.proxy import Proxy


class Echo:
    """A server that answers every line with the same line, and remembers what it heard."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rwb") as stream:
            try:
                for line in stream:
                    self.heard.append(line)
                    stream.write(line)
                    stream.flush()
            except OSError:
                return

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[Proxy]:
    made = Proxy(echo.port).start()
    yield made
    made.close()


def call(proxy: Proxy, line: bytes = b"hello\n") -> bytes:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as connection:
        connection.sendall(line)
        try:
            return connection.recv(100)
        except ConnectionError:
            return b""


def test_bytes_pass_both_ways(proxy: Proxy) -> None:
    assert call(proxy) == b"hello\n"


def test_a_lost_answer_was_heard_by_the_server(proxy: Proxy, echo: Echo) -> None:
    proxy.lose_answers(1)
    assert call(proxy, b"act\n") == b""
    assert echo.heard == [b"act\n"]
    assert call(proxy) == b"hello\n"


def test_cutting_breaks_what_is_open_and_nothing_later(proxy: Proxy) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as connection:
        connection.sendall(b"one\n")
        assert connection.recv(100) == b"one\n"
        proxy.cut()
        assert proxy.cuts == 1
        with pytest.raises(ConnectionError):
            _read_until_broken(connection)
    assert call(proxy) == b"hello\n"


def _read_until_broken(connection: socket.socket) -> None:
    if not connection.recv(100):
        raise ConnectionError("closed")


def test_a_network_that_refuses_lets_nobody_in(proxy: Proxy, echo: Echo) -> None:
    proxy.refuses = True
    assert call(proxy) == b""
    assert echo.heard == []
