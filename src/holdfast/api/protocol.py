"""The wire as the web server reads it, with bounds on what a stranger may send before asking.

Nobody has shown a token while the head of a request arrives, so it must be short and come soon.
"""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES: Final = 64 * 1024
HEAD_S: Final = 30.0


class BoundedHead(HttpToolsProtocol):
    """Closes a connection whose request has no end to its head."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._is_head = True
        self._head_bytes = 0
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_deadline()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if not self._is_head:
            self._expect_head()

    def on_headers_complete(self) -> None:
        self._is_head = False
        self._forget_deadline()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        if self._is_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._is_head and self._head_bytes > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long.")

    def _expect_head(self) -> None:
        self._is_head, self._head_bytes = True, 0
        self._forget_deadline()
        self._deadline = self.loop.call_later(HEAD_S, self.transport.close)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
