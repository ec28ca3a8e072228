"""Connections that a thread waits on: one request at a time on each, kept open between them."""

import select
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from holdfast.wire.answers import Broken, Ear, Heard
from holdfast.wire.target import Target

READ_BYTES: Final = 1 << 16


class NotConnected(Exception):
    """Nobody is there. Nothing was sent, so anything may be tried again."""


class Line:
    """One connection to a server."""

    def __init__(self, target: Target, connect_s: float) -> None:
        try:
            self._socket = _connected(target, connect_s)
        except OSError as error:
            raise NotConnected(str(error) or type(error).__name__) from error
        self._ear = Ear()
        self._look = select.poll()
        self._look.register(self._socket, select.POLLIN)

    @property
    def is_free(self) -> bool:
        """Whether it may be asked again: the last answer was whole and nothing came since, be it
        the end."""
        return self._ear.is_over and self._ear.keeps and not self._look.poll(0)

    def ask(self, request: bytes, body: Iterable[bytes], answer_s: float) -> Heard:
        """The answer to this request. `OSError`, `TimeoutError` or `Broken` where none came."""
        self._say(request, body, answer_s)
        while not self._ear.is_over:
            self._hear()
        return self._ear.heard()

    def begin(self, request: bytes, idle_s: float) -> Heard:
        """The head of the answer to this request, the rest of which is read with `chunks`."""
        self._say(request, (), idle_s)
        while not self._ear.has_head:
            self._hear()
        return self._ear.heard()

    def chunks(self, first: bytes) -> Iterator[bytes]:
        """The rest of the answer as it comes, after what came with its head."""
        chunk = first
        while True:
            if chunk:
                yield chunk
            if self._ear.is_over:
                return
            self._hear()
            chunk = self._ear.taken()

    def hang_up(self) -> None:
        """From any thread: whoever waits for the next byte meets the end of it."""
        with suppress(OSError):
            # That of TLS would say goodbye first, and may not be called from another thread.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()

    def _say(self, request: bytes, body: Iterable[bytes], answer_s: float) -> None:
        self._ear.begin()
        self._socket.settimeout(answer_s)
        self._socket.sendall(request)
        try:
            for chunk in body:
                self._socket.sendall(chunk)
        except (BrokenPipeError, ConnectionResetError):
            # A server that will not have all of it says why before it hangs up.
            self._hear()

    def _hear(self) -> None:
        data = self._socket.recv(READ_BYTES)
        if data:
            self._ear.hear(data)
        elif self._ear.ends_here():
            self._ear.is_over = True
        else:
            raise Broken("the connection was closed")


def _connected(target: Target, connect_s: float) -> socket.socket:
    if target.path is not None:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.settimeout(connect_s)
            made.connect(target.path)
        except BaseException:
            made.close()
            raise
        return made
    made = socket.create_connection((target.host, target.port), connect_s)
    try:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if target.trust is not None:
            made = target.trust.wrap_socket(made, server_hostname=target.host)
    except BaseException:
        made.close()
        raise
    return made


class Lines:
    """The lines to one server, shared by threads."""

    def __init__(self, target: Target, *, most: int, connect_s: float, wait_s: float) -> None:
        self._target = target
        self._connect_s = connect_s
        self._wait_s = wait_s
        self._room = threading.Semaphore(most)
        self._lock = threading.Lock()
        self._free: list[Line] = []
        self._used: set[Line] = set()
        self._is_closed = False

    @contextmanager
    def taken(self) -> Iterator[Line]:
        """A line for one request. It goes back only where its answer was heard to the end."""
        if not self._room.acquire(timeout=self._wait_s):
            raise NotConnected("too many requests are under way")
        try:
            line = self._line()
            try:
                yield line
            finally:
                self._give_back(line)
        finally:
            self._room.release()

    def close(self) -> None:
        """Whoever waits for an answer in another thread meets its end at once."""
        with self._lock:
            self._is_closed = True
            free, self._free = self._free, []
            used = list(self._used)
        for line in free:
            line.close()
        for line in used:
            line.hang_up()

    def _line(self) -> Line:
        while True:
            with self._lock:
                # The one that was used last is the least likely to have been closed meanwhile.
                line = self._free.pop() if self._free else None
            if line is None:
                line = Line(self._target, self._connect_s)
            elif not line.is_free:
                line.close()
                continue
            with self._lock:
                if not self._is_closed:
                    self._used.add(line)
                    return line
            line.close()
            raise NotConnected("this client was closed")

    def _give_back(self, line: Line) -> None:
        is_free = line.is_free
        with self._lock:
            self._used.discard(line)
            if is_free and not self._is_closed:
                self._free.append(line)
                return
        line.close()
