"""One request as it arrives, whoever brings it: the head at once, the body piece by piece."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping


def _nothing() -> None:
    """For whoever need not be asked to go on."""


class Left(Exception):
    """The asker went away before its body was whole, or before it was answered."""


class Asked:
    """Filled by whoever reads the wire, read by whoever answers, on one thread.

    `more` is called when the body is wanted, and again whenever what came of it was taken: until
    then whoever brings it may hold it back. `unread` is how much of it lies here.
    """

    __slots__ = (
        "_awaited", "_leavings", "_more", "_on_leaving", "_pieces", "has_left", "headers",
        "is_whole", "method", "path", "query", "unread",
    )  # fmt: skip

    def __init__(
        self,
        method: str,
        path: str,
        query: bytes,
        headers: Mapping[str, str],
        *,
        more: Callable[[], None] = _nothing,
    ) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.unread = 0
        self.is_whole = False
        self.has_left = False
        self._more = more
        self._pieces: list[bytes] = []
        self._awaited: asyncio.Future[None] | None = None
        self._leavings: set[asyncio.Future[None]] | None = None
        self._on_leaving: Callable[[], None] = _nothing

    # For whoever brings it.

    def add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self.unread += len(piece)
        self._tell()

    def end(self) -> None:
        self.is_whole = True
        self._tell()

    def leave(self) -> None:
        """Nobody waits for an answer any more."""
        self.has_left = True
        self._tell()
        for leaving in tuple(self._leavings or ()):
            if not leaving.done():
                leaving.set_result(None)
        self._on_leaving()

    # For whoever answers.

    def taken(self) -> bytes:
        """What has come of the body and was not taken before."""
        pieces, self._pieces, self.unread = self._pieces, [], 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes; `Left` where it never will."""
        while True:
            while not (self._pieces or self.is_whole or self.has_left):
                self._awaited = asyncio.get_running_loop().create_future()
                self._more()
                await self._awaited
            if self._pieces:
                yield self.taken()
            elif self.is_whole:
                return
            else:
                raise Left

    def gone(self) -> "asyncio.Future[None]":
        """Done when the asker has left. Whoever wants to know has one of their own."""
        leaving: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.has_left:
            leaving.set_result(None)
        else:
            if self._leavings is None:
                self._leavings = set()
            self._leavings.add(leaving)
            leaving.add_done_callback(self._leavings.discard)
        return leaving

    def when_left(self, do: Callable[[], None]) -> None:
        """Have this done in the moment the asker leaves. One who answers may want that."""
        if self.has_left:
            do()
        else:
            self._on_leaving = do

    def _tell(self) -> None:
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(None)
