"""Which workers there were, and when: notes beside the log, for whoever asks about the past.

The log says what was decided, and a worker that joins or leaves decides nothing. So a server notes
each change of its fleet in a file of its own, with the position and the time of the log. It is
safe to lose, holds no authority and is bounded: when it has grown it begins anew, and one former
file is kept. Where the notes do not reach back, nobody knows which workers there were.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.exchanges import Exchanges
from holdfast.coordinator.seats import Worker
from holdfast.core.ids import NEVER, Instant, WorkerId
from holdfast.scheduler.desks import DRAINING, OPEN, SILENT
from holdfast.wire.exchange import Capacity, Hello

FILE: Final = "fleet.notes"
FORMER: Final = "fleet.notes.old"
MOST_BYTES: Final = 4 * 1024 * 1024
LOOK_MS: Final = 1_000
"""How often those are looked for that have fallen silent: nothing announces that."""

GONE: Final = ""
NOWHERE: Final = Capacity(0, 0, 0, 0)


class Note(Struct, frozen=True, array_like=True):
    """How a worker stood from this position and time on. Without a name: nobody is there, since
    the server, or the file, has just begun."""

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
        self._folder = folder
        self._coordinator = coordinator
        self._exchanges = exchanges
        self._known: dict[WorkerId, Stand] | None = None
        self._silent: frozenset[WorkerId] = frozenset()
        self._next = Instant(0)
        self._is_broken = False

    def step(self, now: Instant) -> None:
        registry = self._exchanges.registry
        names, registry.changed = registry.changed, set()
        if self._is_broken:
            return
        if now >= self._next:
            self._next = Instant(now + LOOK_MS)
            silent = registry.silent(now)
            names |= silent ^ self._silent
            self._silent = silent
        if not names and self._known is not None:
            return
        try:
            self._note(names, now)
        except OSError:
            self._is_broken = True

    def next_due(self) -> Instant:
        return self._next if self._exchanges.workers and not self._is_broken else NEVER

    def _note(self, names: set[WorkerId], now: Instant) -> None:
        position = int(self._coordinator.state.position)
        workers = self._exchanges.workers
        notes: list[Note] = []
        path = self._folder / FILE
        if self._known is None or _size(path) > MOST_BYTES:
            if self._known is not None:
                os.replace(path, self._folder / FORMER)
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
            with path.open("ab") as file:
                # A line that a crash cut short ends here.
                file.write(b"".join(b"\n" + _encode(note) for note in notes))

    def _stand(self, worker: Worker | None) -> Stand | None:
        if worker is None or worker.has_left:
            return None
        standing = DRAINING if worker.draining else OPEN
        if not self._exchanges.registry.is_alive(worker):
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
    for name in (FORMER, FILE):
        try:
            lines = (folder / name).read_bytes().splitlines()
        except FileNotFoundError:
            continue
        for line in lines:
            try:
                yield _decode(line)
            except msgspec.DecodeError:
                # Empty, or cut short by a crash: what was noted next is whole.
                continue


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
