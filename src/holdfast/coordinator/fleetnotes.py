"""Which workers there were, and when: notes beside the log, for whoever asks about the past.

The log says what was decided, and a worker that joins or leaves decides nothing. So each change of
the fleet is noted with the position and the time of the log. Where the notes do not reach back,
nobody knows which workers there were.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.exchanges import Exchanges
from holdfast.coordinator.notebook import LOOK_MS, Notebook
from holdfast.coordinator.seats import Worker
from holdfast.core.ids import NEVER, Instant, WorkerId
from holdfast.core.unreadable import UNREADABLE
from holdfast.scheduler.desks import DRAINING, OPEN, SILENT
from holdfast.wire.exchange import Capacity, Hello

FILE: Final = "fleet.notes"
GONE: Final = ""
NOWHERE: Final = Capacity(0, 0, 0, 0)


class Note(Struct, frozen=True, array_like=True):
    """How a worker stood from this position and time on. Without a name: nobody is there, since
    the coordinator, or the file, has just begun."""

    position: int
    at: int
    worker: str = ""
    incarnation: int = 0
    standing: str = GONE
    capacity: Capacity = NOWHERE
    attributes: tuple[tuple[str, str], ...] = ()


Stand = tuple[int, str, Capacity, tuple[tuple[str, str], ...]]
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Note).decode


class FleetNotes:
    """A hook of the engine that writes what changed. A disk that takes no notes is let be."""

    def __init__(self, folder: Path, coordinator: Coordinator, exchanges: Exchanges) -> None:
        self._book = Notebook(folder, FILE)
        self._coordinator = coordinator
        self._exchanges = exchanges
        self._known: dict[WorkerId, Stand] | None = None
        self._silent: set[WorkerId] = set()
        self._next = Instant(0)
        self._is_broken = False

    def step(self, now: Instant) -> None:
        registry = self._exchanges.registry
        names, registry.changed = registry.changed, set()
        if self._is_broken:
            return
        if now >= self._next:
            self._next = Instant(now + LOOK_MS)
            workers = self._exchanges.workers.items()
            silent = {name for name, worker in workers if registry.is_silent(worker)}
            names |= silent ^ self._silent
            self._silent = silent
        if not names and self._known is not None:
            return
        try:
            self._note(names, now)
        except OSError:
            self._is_broken = True

    def next_due(self) -> Instant:
        """Nothing announces that somebody falls silent."""
        may_be_silent = self._exchanges.registry.term_ms and self._exchanges.workers
        return self._next if may_be_silent and not self._is_broken else NEVER

    def leave(self) -> None:
        """The workers end with this process, and it ends now."""
        if self._known and not self._is_broken:
            position, now = int(self._coordinator.state.position), self._coordinator.now()
            try:
                self._book.write(_encode(Note(position, now, name)) for name in self._known)
            except OSError:
                self._is_broken = True

    def _note(self, names: set[WorkerId], now: Instant) -> None:
        position = int(self._coordinator.state.position)
        workers = self._exchanges.workers
        notes: list[Note] = []
        if self._known is None or self._book.is_full():
            if self._known is not None:
                self._book.begin_anew()
            notes.append(Note(position, now))
            self._known, names = {}, set(workers)
        for name in sorted(names):
            stand = self._stand(workers.get(name))
            if stand == self._known.get(name):
                continue
            if stand is None:
                del self._known[name]
                notes.append(Note(position, now, name))
            else:
                self._known[name] = stand
                notes.append(Note(position, now, name, *stand))
        if notes:
            self._book.write(map(_encode, notes))

    def _stand(self, worker: Worker | None) -> Stand | None:
        if worker is None or worker.has_left or not worker.capacity.slots:
            return None
        standing = DRAINING if worker.draining else OPEN
        if self._exchanges.registry.is_silent(worker):
            standing = SILENT
        attributes = () if worker.hello is None else worker.hello.attributes
        return worker.incarnation, standing, worker.capacity, attributes


def fleet_at(folder: Path, position: int, now: Instant) -> list[tuple[Worker, str]] | None:
    """The workers of a moment, each with how it stood; None where no note reaches back so far."""
    found: dict[str, Note] | None = None
    for note in _read(folder):
        if note.position > position or note.at > now:
            continue
        if not note.worker:
            found = {}
        elif found is not None and note.standing == GONE:
            found.pop(note.worker, None)
        elif found is not None:
            found[note.worker] = note
    if found is None:
        return None
    return [(_worker(note), note.standing) for note in found.values()]


def _worker(note: Note) -> Worker:
    worker = Worker(WorkerId(note.worker), note.incarnation, note.capacity)
    worker.hello = Hello("", 0, "", attributes=note.attributes)
    return worker


def _read(folder: Path) -> Iterator[Note]:
    for line in Notebook(folder, FILE).lines():
        try:
            yield _decode(line)
        except UNREADABLE:
            # Empty, or cut short by a crash: what was noted next is whole.
            continue
