"""What was refused, noted beside the log: who wanted what, and why not. A refusal changes nothing,
so it is no part of the log; these notes are safe to lose and bounded in size and in number.
"""

import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.coordinator.lines import say
from holdfast.coordinator.notebook import Notebook
from holdfast.core.unreadable import UNREADABLE

FILE: Final = "refused.notes"
MOST_BYTES: Final = 1024 * 1024
MOST_A_SECOND: Final = 50
"""Whoever asks for nonsense a million times fills neither the disk nor the log lines."""
LONGEST: Final = 500
DROPPED: Final = "dropped"


class Refusal(Struct, frozen=True, kw_only=True):
    """`at` is of the wall clock; `position` is that of the last record before it. `source` and
    `target` are where it was a move of one task. `dropped`: so many more were not noted."""

    at: int
    position: int
    command: str
    actor: str = ""
    subject: str = ""
    source: str = ""
    target: str = ""
    code: str = ""
    message: str = ""
    request_id: str = ""
    dropped: int = 0


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Refusal).decode


class RefusalNotes:
    """Notes from one thread, written by another: nobody waits for this disk. One that takes no
    notes is let be."""

    def __init__(self, folder: Path) -> None:
        self._book = Notebook(folder, FILE, MOST_BYTES)
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._writer: threading.Thread | None = None
        self._second = 0
        self._count = 0
        self.dropped = 0

    def drops(self, at: int, many: int = 1) -> bool:
        """Whether what is refused now, `many` of them, is only counted: of very many in one second
        the first are noted. Asked before a note is made, so that who is refused a million times
        costs little."""
        if at // 1_000 != self._second or self._count < MOST_A_SECOND:
            return False
        self._count += many
        self.dropped += many
        return True

    def note(self, refusal: Refusal) -> bool:
        """Whether it is noted."""
        if self.drops(refusal.at):
            return False
        second = refusal.at // 1_000
        if second != self._second:
            self._tell_dropped(refusal)
            self._second, self._count = second, 0
        self._count += 1
        self._put(refusal)
        return True

    def is_first(self) -> bool:
        """Whether what was noted last was the first of its second."""
        return self._count == 1

    def close(self) -> None:
        """Write what is there."""
        if self._writer is not None:
            self._lines.put(None)
            self._writer.join()
            self._writer = None

    def _tell_dropped(self, refusal: Refusal) -> None:
        if self._count > MOST_A_SECOND:
            count = self._count - MOST_A_SECOND
            say("refusals_dropped", count=count)
            at, position = refusal.at, refusal.position
            self._put(Refusal(at=at, position=position, command="", code=DROPPED, dropped=count))

    def _put(self, refusal: Refusal) -> None:
        if self._writer is None:
            self._writer = threading.Thread(
                target=self._write, name="holdfast-refusals", daemon=True
            )
            self._writer.start()
        self._lines.put(_encode(refusal))

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            lines = [line]
            is_last = False
            while not self._lines.empty():
                more = self._lines.get()
                if more is None:
                    is_last = True
                    break
                lines.append(more)
            try:
                if self._book.is_full():
                    self._book.begin_anew()
                self._book.write(lines)
            except OSError:
                # The disk may have room again later, and nothing here is needed.
                pass
            if is_last:
                return


def refusals_in(folder: Path) -> Iterator[Refusal]:
    """What is still noted, the oldest first. A line that was cut short is passed over."""
    for line in Notebook(folder, FILE).lines():
        try:
            yield _decode(line)
        except UNREADABLE:
            continue
