"""What tasks have printed, read from the folder beside a log."""

from collections.abc import Iterator
from pathlib import Path

from msgspec import structs

from holdfast.cli.errors import NOT_FOUND, Trouble
from holdfast.cli.shelves import PIECE_BYTES, STREAMS_A_PAGE, Place
from holdfast.coordinator.output import FOLDER as OUTPUT_FOLDER
from holdfast.coordinator.output import OutputGone, OutputStore
from holdfast.coordinator.outputparts import StreamName
from holdfast.wire.output import Output


class FolderShelf:
    """What lies beside a log that nobody need be serving."""

    def __init__(self, data: Path) -> None:
        self._store = OutputStore(data / OUTPUT_FOLDER)

    def read(self, place: Place, offset: int, wait_s: float = 0) -> Output:
        name = StreamName(place.job_id, place.index, place.attempt, place.stream)
        try:
            piece = self._store.read(name, offset, PIECE_BYTES)
        except OutputGone as gone:
            raise Trouble(f"{gone}.", NOT_FOUND) from None
        # Nothing comes after what is there: nobody looks again.
        return structs.replace(piece, ended=not piece.content)

    def listed(self, job_id: str, first: int = 0) -> Iterator[tuple[Place, int]]:
        while True:
            found = self._store.listed(job_id, first, STREAMS_A_PAGE)
            for each in found:
                yield Place(job_id, each.index, each.attempt, each.stream), each.size
            if len(found) < STREAMS_A_PAGE:
                return
            first = found[-1].index + 1
