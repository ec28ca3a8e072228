"""Asking servers elsewhere for a page, without holding up the coordinator's turns.

Each question has a thread of its own for as long as it may take, and there are few at a time; the
answer is told on the coordinator's thread. A server that sends without end, or too slowly, is given
up: nobody here waits for it.
"""

import http.client
import time
from collections.abc import Callable
from contextlib import closing
from threading import Semaphore, Thread
from typing import Final
from urllib.parse import urlsplit

from holdfast.runtimes.analyzers import Answered

AT_ONCE: Final = 4
CONTENT_BYTES_MAX: Final = 1 << 20
READ_BYTES: Final = 1 << 16

Connection = http.client.HTTPConnection


class Asker:
    """`post` has something done on the coordinator's thread, from any thread."""

    def __init__(self, post: Callable[[Callable[[], None]], None]) -> None:
        self._post = post
        self._free = Semaphore(AT_ONCE)

    def ask(self, url: str, timeout_ms: int, answered: Answered) -> None:
        """Get a page. Told exactly once, and never before this returns."""
        if not self._free.acquire(blocking=False):
            self._post(lambda: answered(None, f"{AT_ONCE} questions are open already"))
            return
        args = (url, timeout_ms / 1_000, answered)
        Thread(target=self._get, args=args, name="asking-away", daemon=True).start()

    def _get(self, url: str, patience_s: float, answered: Answered) -> None:
        content, why = None, "it could not be asked"
        try:
            content, why = page(url, patience_s), ""
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = str(error) or type(error).__name__
        finally:
            self._free.release()
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
        connection.request("GET", path, headers={"accept": "application/json"})
        answer = connection.getresponse()
        content = bytearray()
        while chunk := answer.read1(READ_BYTES):
            content += chunk
            if len(content) > CONTENT_BYTES_MAX:
                raise ValueError(f"the answer is longer than {CONTENT_BYTES_MAX} bytes")
            if time.monotonic() >= give_up_at:
                raise TimeoutError("it did not answer in time")
    # What is wrong with a question Prometheus says in the answer, and 400 above it.
    if answer.status >= 500 or (answer.status >= 300 and not content.startswith(b"{")):
        raise ValueError(f"it answered {answer.status}")
    return bytes(content)
