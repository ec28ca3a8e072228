"""Where the output of attempts is read: at a server that may get more of it, or in a folder."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Protocol

from msgspec import Struct

from holdfast.cli.asking import Asker
from holdfast.cli.errors import NOT_FOUND, Trouble
from holdfast.wire.output import Output

PAGE: Final = 1_000
PIECE: Final = 256 * 1024


class Place(Struct, frozen=True):
    """One stream of one attempt."""

    job_id: str
    index: int
    attempt: int
    stream: str


class Shelf(Protocol):
    """`is_live`: more may come."""

    is_live: bool

    def read(self, place: Place, offset: int, wait_s: float = 0) -> Output:
        """Some bytes from an offset on, or from so far before the end. Where there are none yet
        it waits a while."""
        ...

    def listed(self, job_id: str, first: int = 0) -> Iterator[tuple[Place, int]]:
        """The streams of a job from task `first` on that have bytes, and how long each is."""
        ...


class ServerShelf:
    """What a server keeps."""

    is_live = True

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    def read(self, place: Place, offset: int, wait_s: float = 0) -> Output:
        # A place is made of a known job and of numbers, so it needs no spelling out.
        path = f"/api/v1/logs/{place.job_id}/{place.index}/{place.attempt}/{place.stream}"
        wait = f"{round(wait_s * 1_000)}ms" if wait_s else ""
        return self._asker.http.get(path, Output, offset=offset, limit=PIECE, wait=wait)

    def listed(self, job_id: str, first: int = 0) -> Iterator[tuple[Place, int]]:
        cursor: str | None = str(first)
        while cursor is not None:
            page = self._asker.get("jobs", job_id, "logs", cursor=cursor, limit=PAGE)
            for each in page["logs"]:
                yield _place(job_id, each), each["size"]
            cursor = page["next"]


class FolderShelf:
    """What lies beside a log that nobody need be serving."""

    is_live = False

    def __init__(self, data: Path) -> None:
        from holdfast.coordinator.output import FOLDER, OutputStore

        self._store = OutputStore(data / FOLDER)

    def read(self, place: Place, offset: int, wait_s: float = 0) -> Output:
        from holdfast.coordinator.output import OutputGone
        from holdfast.coordinator.outputparts import StreamName

        name = StreamName(place.job_id, place.index, place.attempt, place.stream)
        try:
            piece = self._store.read(name, offset, PIECE)
        except OutputGone as gone:
            raise Trouble(f"{gone}.", NOT_FOUND) from None
        # Nothing comes after what is there: nobody looks again.
        ended = not piece.content
        return Output(piece.offset, piece.content, piece.next, piece.dropped, ended)

    def listed(self, job_id: str, first: int = 0) -> Iterator[tuple[Place, int]]:
        while True:
            found = self._store.listed(job_id, first, PAGE)
            for each in found:
                yield Place(job_id, each.index, each.attempt, each.stream), each.size
            if len(found) < PAGE:
                return
            first = found[-1].index + 1


def _place(job_id: str, told: dict[str, Any]) -> Place:
    return Place(job_id, told["index"], told["attempt"], told["stream"])
