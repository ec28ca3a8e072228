"""Output as it comes: read by threads, one a stream, and written by whoever takes it from here."""

import queue
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Final

from holdfast.cli.errors import say
from holdfast.cli.shelves import Place, Shelf
from holdfast.wire.http import Rejected
from holdfast.wire.output import Output

WAIT_S: Final = 20.0
WINDOW: Final = 64 * 1024
TAIL_MOST: Final = 8 * 1024 * 1024
BOTH: Final = ("stdout", "stderr")

Piece = tuple[Place, Output]


class Writer:
    """Writes to the stream of the same name. Where several tasks speak, lines begin with who."""

    def __init__(self, *, prefixed: bool) -> None:
        self._prefixed = prefixed
        self._begun: dict[Place, bytes] = {}

    def write(self, place: Place, piece: Output) -> None:
        if piece.dropped:
            self.flush(place)
            say(f"… {piece.dropped:,} bytes of {_name(place)} {place.stream} are not kept …")
        if not self._prefixed:
            _write(place.stream, piece.content)
            return
        *lines, rest = (self._begun.pop(place, b"") + piece.content).split(b"\n")
        if lines:
            _write(place.stream, b"".join(_prefix(place) + line + b"\n" for line in lines))
        if rest:
            self._begun[place] = rest
        if piece.ended:
            self.flush(place)

    def flush(self, place: Place) -> None:
        """Write a line that has no end."""
        rest = self._begun.pop(place, b"")
        if rest:
            _write(place.stream, _prefix(place) + rest + b"\n")

    def close(self) -> None:
        for place in list(self._begun):
            self.flush(place)


def pieces(shelf: Shelf, place: Place, offset: int, wait_s: float = 0) -> Iterator[Piece]:
    """A stream from an offset on. Without a wait: what is there; with one: until it has ended."""
    while True:
        piece = shelf.read(place, offset, wait_s)
        if piece.content or piece.dropped or piece.ended:
            yield place, piece
        if piece.ended or (not wait_s and not piece.content and not piece.dropped):
            return
        offset = piece.next


def follow_attempt(shelf: Shelf, places: Sequence[Place], starts: Sequence[int]) -> Iterator[Piece]:
    """Several streams at once, in the order in which their pieces come, until all have ended."""
    came: queue.SimpleQueue[Piece | Exception | None] = queue.SimpleQueue()

    def read(place: Place, start: int) -> None:
        try:
            for piece in pieces(shelf, place, start, WAIT_S):
                came.put(piece)
            came.put(None)
        except Exception as error:  # noqa: BLE001 - it is raised again where somebody listens
            came.put(error)

    for place, start in zip(places, starts, strict=True):
        # They end with the program: a server may keep them waiting.
        threading.Thread(target=read, args=(place, start), daemon=True).start()
    left = len(places)
    while left:
        found = came.get()
        if isinstance(found, Exception):
            raise found
        if found is None:
            left -= 1
        else:
            yield found


def follow_task(
    shelf: Shelf,
    job_id: str,
    index: int,
    attempt: int,
    streams: Sequence[str] = BOTH,
    *,
    tail: int | None = None,
) -> Iterator[Piece]:
    """A task from this attempt on, and all that follow, until it is over."""
    first = attempt
    while True:
        places = [Place(job_id, index, attempt, stream) for stream in streams]
        starts = [start_of(shelf, place, tail) if attempt == first else 0 for place in places]
        try:
            yield from follow_attempt(shelf, places, starts)
        except Rejected as no:
            # There will be no such attempt: the task is over.
            if attempt > first and no.problem.code == "not_found":
                return
            raise
        attempt += 1


def start_of(shelf: Shelf, place: Place, lines: int | None) -> int:
    """Where the last so many lines begin; the very beginning where all are wanted."""
    if lines is None:
        return 0
    window = WINDOW
    while True:
        first, content = _ending(shelf, place, window)
        # The last line need not have an end.
        ends = [at for at, byte in enumerate(content[:-1]) if byte == ord("\n")]
        if not lines:
            return first + len(content)
        if len(ends) >= lines:
            return first + ends[-lines] + 1
        if len(content) < window or window >= TAIL_MOST:
            return first
        window *= 4


def _ending(shelf: Shelf, place: Place, size: int) -> tuple[int, bytes]:
    """The last so many bytes, as far as they lie together, and where they begin."""
    first, content, offset = 0, b"", -size
    while True:
        piece = shelf.read(place, offset)
        if piece.dropped or not content:
            first, content = piece.offset, b""
        if not piece.content:
            return first, content
        content += piece.content
        offset = piece.next


def _write(stream: str, content: bytes) -> None:
    file = sys.stdout if stream == "stdout" else sys.stderr
    if file is None or not content:
        return
    file.flush()
    # Bytes of users stay what they are, whatever the encoding of this terminal.
    file.buffer.write(content)
    file.buffer.flush()


def _prefix(place: Place) -> bytes:
    return f"{_name(place)} | ".encode()


def _name(place: Place) -> str:
    again = f":{place.attempt}" if place.attempt > 1 else ""
    return f"{place.job_id}/{place.index}{again}"
