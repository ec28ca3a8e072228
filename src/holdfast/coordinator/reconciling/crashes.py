"""The last words of replicas that keep ending by themselves, as the log has them."""

from collections.abc import Callable
from typing import Final

from holdfast.coordinator.reconciling.replicas import Stood
from holdfast.core.ids import NOWHERE, Index, Position
from holdfast.core.record import Record

LINES: Final = 5
LINE_CHARACTERS: Final = 300
KEPT: Final = 1_000

LastWords = tuple[str, ...]


class Crashes:
    """`read` gives a record of the log. What was read is kept: an end is looked at again and
    again, and never changes."""

    def __init__(self, read: Callable[[Position], Record]) -> None:
        self._read = read
        self._known: dict[tuple[Position, Index], LastWords] = {}

    def lines(self, replica: Stood) -> LastWords:
        if replica.ended == NOWHERE:
            return ()
        key = (replica.ended, replica.index)
        if key not in self._known:
            if len(self._known) >= KEPT:
                del self._known[next(iter(self._known))]
            self._known[key] = self._look(replica)
        return self._known[key]

    def _look(self, replica: Stood) -> LastWords:
        for event in self._read(replica.ended).events:
            if getattr(event, "job_id", None) != replica.job_id:
                continue
            for end in getattr(event, "ends", ()):
                if end.index == replica.index:
                    return last_lines(end.error, end.traceback)
        return ()


def last_lines(error: str, traceback: str) -> LastWords:
    """How it ended, and the end of what it said before."""
    said = [line.rstrip() for line in traceback.splitlines() if line.strip()]
    told = [line for line in error.splitlines() if line.strip()]
    room = max(0, LINES - 1)
    lines = [*told[:1], *(said or told[1:])[-room:]]
    return tuple(line[:LINE_CHARACTERS] for line in lines)
