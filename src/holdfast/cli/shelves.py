"""Where the output of attempts is read: at a server that may get more of it, or in a folder."""

from collections.abc import Iterator
from typing import Final, Protocol

from msgspec import Struct

from holdfast.wire.output import Output

STREAMS_A_PAGE: Final = 1_000
PIECE_BYTES: Final = 256 * 1024


class Place(Struct, frozen=True):
    """One stream of one attempt."""

    job_id: str
    index: int
    attempt: int
    stream: str


class Shelf(Protocol):
    """What attempts have printed, wherever it is kept."""

    def read(self, place: Place, offset: int, wait_s: float = 0) -> Output:
        """Some bytes from an offset on, or from so far before the end. Where there are none yet
        it waits a while."""
        ...

    def listed(self, job_id: str, first: int = 0) -> Iterator[tuple[Place, int]]:
        """The streams of a job from task `first` on that have bytes, and how long each is."""
        ...
