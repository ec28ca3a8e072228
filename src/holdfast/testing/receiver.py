"""A receiver of effects on loopback that answers as it is told, byte by byte if need be."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, Final

from msgspec import Struct

OK: Final = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"

Answer = bytes | Callable[[socket.socket], None]
"""What is sent; a function is given the connection instead, and ends it."""


class Request(Struct, frozen=True):
    """A request as it came. Names of headers are in small letters."""

    line: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """`answers` are given one a request, the last of them again and again."""

    def __init__(self, answers: tuple[Answer, ...], trust: ssl.SSLContext | None) -> None:
        self.answers = list(answers) or [OK]
        self.requests: list[Request] = []
        self.connections = 0
        self._trust = trust
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._door.getsockname()[1]
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def url(self, path: str = "/in", host: str = "127.0.0.1") -> str:
        return f"{'https' if self._trust else 'http'}://{host}:{self.port}{path}"

    def close(self) -> None:
        # Shut down first: closing alone does not wake whoever waits in accept.
        for each in (self._door, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._door.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                link, _ = self._door.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(link)
            thread = threading.Thread(target=self._serve, args=(link,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, link: socket.socket) -> None:
        with suppress(OSError), link:
            if self._trust is not None:
                link = self._trust.wrap_socket(link, server_side=True)
            with link, link.makefile("rb") as stream:
                self._talk(link, stream)

    def _talk(self, link: socket.socket, stream: BinaryIO) -> None:
        while (request := _read(stream)) is not None:
            self.requests.append(request)
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            if callable(answer):
                answer(link)
                return
            link.sendall(answer)


def _read(stream: BinaryIO) -> Request | None:
    first = stream.readline().decode()
    if not first:
        return None
    headers = {}
    while (line := stream.readline().decode().strip()) != "":
        name, _, value = line.partition(": ")
        headers[name.lower()] = value
    return Request(first.strip(), headers, stream.read(int(headers.get("content-length", 0))))


@contextmanager
def receiving(*answers: Answer, trust: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    receiver = Receiver(answers, trust)
    try:
        yield receiver
    finally:
        receiver.close()


def answering(status: int, body: bytes = b"", **headers: str) -> bytes:
    """An answer with this status; underscores in names of headers stand for hyphens."""
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} X\r\ncontent-length: {len(body)}\r\n{head}\r\n".encode() + body
