"""Asking servers elsewhere for a page, without holding up the coordinator's turns.

Few are asked at a time, on threads that end when there is nothing more to ask, and the others wait
in line; the answer is told on the coordinator's thread. A server that sends without end, or too
slowly, is given up: nobody here waits for it.
"""

import http.client
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from threading import Event, Lock, Thread, Timer
from typing import Final
from urllib.parse import urlsplit

from holdfast.runtimes.analyzers import Answered

AT_ONCE: Final = 4
IN_LINE: Final = 1_000
CONTENT_BYTES_MAX: Final = 1 << 20
READ_BYTES: Final = 1 << 16

Connection = http.client.HTTPConnection


class Asker:
    """`post` has something done on the coordinator's thread, from any thread."""

    def __init__(self, post: Callable[[Callable[[], None]], None]) -> None:
        self._post = post
        self._lock = Lock()
        self._line: deque[tuple[str, float, Answered]] = deque()
        self._busy = 0

    def ask(self, url: str, timeout_ms: int, answered: Answered) -> None:
        """Get a page. Told exactly once, and never before this returns."""
        with self._lock:
            is_full = len(self._line) >= IN_LINE
            if not is_full:
                self._line.append((url, timeout_ms / 1_000, answered))
            is_helped = not is_full and self._busy < AT_ONCE
            self._busy += is_helped
        if is_full:
            self._post(lambda: answered(None, f"{IN_LINE} questions are open already"))
        elif is_helped:
            Thread(target=self._ask_on, name="asking-away", daemon=True).start()

    def _ask_on(self) -> None:
        """Work off the line, and end with it."""
        while True:
            with self._lock:
                if not self._line:
                    self._busy -= 1
                    return
                url, patience_s, answered = self._line.popleft()
            self._get(url, patience_s, answered)

    def _get(self, url: str, patience_s: float, answered: Answered) -> None:
        content, why = None, "it could not be asked"
        try:
            content, why = page(url, patience_s), ""
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = str(error) or type(error).__name__
        self._tell(content, why, answered)

    def _tell(self, content: bytes | None, why: str, answered: Answered) -> None:
        try:
            self._post(lambda: answered(content, why))
        except RuntimeError:
            # The loop has been left meanwhile, and with it whoever asked.
            return


def page(url: str, patience_s: float) -> bytes:
    """The content of a page. `ValueError`, `OSError` or `HTTPException` say why there is none."""
    give_up_at = time.monotonic() + patience_s
    address = urlsplit(url)
    if not address.hostname:
        raise ValueError(f"{url} names no host")
    kind = http.client.HTTPSConnection if address.scheme == "https" else Connection
    path = f"{address.path or '/'}{'?' if address.query else ''}{address.query}"
    with closing(kind(address.hostname, address.port, timeout=patience_s)) as connection:
        with cut_off(connection, patience_s) as is_cut:
            connection.connect()
            if is_cut.is_set():
                # There was nothing to cut yet.
                raise TimeoutError("timed out")
            connection.request("GET", path, headers={"accept": "application/json"})
            answer = connection.getresponse()
        content = bytearray()
        while chunk := answer.read1(READ_BYTES):
            content += chunk
            if len(content) > CONTENT_BYTES_MAX:
                raise ValueError(f"the answer is longer than {CONTENT_BYTES_MAX} bytes")
            if time.monotonic() >= give_up_at:
                raise TimeoutError("timed out")
        if time.monotonic() >= give_up_at:
            raise TimeoutError("timed out")
    # What is wrong with a question Prometheus says in the answer, and 400 above it.
    if answer.status >= 500 or (answer.status >= 300 and not content.startswith(b"{")):
        raise ValueError(f"it answered {answer.status}")
    return bytes(content)


@contextmanager
def cut_off(connection: Connection, patience_s: float) -> Iterator[Event]:
    """Have whoever waits for the head of an answer wait so long at most. A timeout of a socket is
    one between two bytes, which a server that drips never reaches. Set when the time was up; a
    connection that was not there by then is not cut."""

    is_cut = Event()

    def cut() -> None:
        is_cut.set()
        with suppress(OSError):
            if connection.sock is not None:
                connection.sock.shutdown(socket.SHUT_RDWR)

    timer = Timer(patience_s, cut)
    timer.daemon = True
    timer.start()
    try:
        yield is_cut
    except (OSError, http.client.HTTPException):
        if is_cut.is_set():
            raise TimeoutError("timed out") from None
        raise
    finally:
        timer.cancel()
