"""What a log says of the lives of class runtimes: declared, their phases and why, until they went.

A folder is asked for it whenever somebody looks; a server once, when somebody first asks what has
happened, for all that was before it started. What it hears itself from then on goes on from there.
"""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Final

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.decoding import Framed
from holdfast.coordinator.inspect import HistoryGone, Told, told_by
from holdfast.core import events as e
from holdfast.core.ids import Instant
from holdfast.core.record import Record
from holdfast.core.unreadable import UNREADABLE
from holdfast.runtimes.actions import EmitEvent
from holdfast.runtimes.documents import decode_status
from holdfast.runtimes.happenings import Happenings
from holdfast.runtimes.recalling import told_between
from holdfast.runtimes.resource import KIND
from holdfast.runtimes.status import NEW, Status
from holdfast.wal import Frame

RECORDS_MOST: Final = 500_000
"""So many records a server looks back over at most."""

_NAMED: Final = KIND.encode()


class Lives:
    """Folds records into what happened. Of a runtime that went and was declared again only the
    present life is told."""

    def __init__(self, happenings: Happenings | None = None) -> None:
        self.happenings = Happenings() if happenings is None else happenings
        self._stood: dict[str, tuple[int, Status]] = {}

    def note(self, record: Record, at: Instant) -> None:
        """What people did, and how far it had come since."""
        for event in record.events:
            if getattr(event, "kind", "") != KIND:
                continue
            name: str = getattr(event, "name", "")
            if isinstance(event, e.ResourceStatusPut):
                self._status(name, event.status, at)
            elif isinstance(event, e.ResourcePut):
                _, status = self._stood.get(name, (0, NEW))
                self._stood[name] = (event.generation, NEW if event.generation == 1 else status)
        note_deeds(self.happenings, record, at)

    def _status(self, name: str, content: bytes, at: Instant) -> None:
        generation, before = self._stood.get(name, (0, NEW))
        try:
            after = decode_status(content)
        except UNREADABLE:
            # Written by a version that knows more than this one.
            return
        self._stood[name] = (generation, after)
        for event in told_between(before, after, generation):
            self.happenings.tell(name, event, at)


def note_deeds(happenings: Happenings, record: Record, at: Instant) -> None:
    """What people asked of runtimes, as it is told of each."""
    by = f" by {record.actor}" if record.actor else ""
    # Labels that came with a spec are a part of what was declared.
    is_declared = any(isinstance(event, e.ResourcePut) for event in record.events)
    for event in record.events:
        if getattr(event, "kind", "") != KIND:
            continue
        name: str = getattr(event, "name", "")
        if isinstance(event, e.ResourcePut):
            if event.generation == 1:
                happenings.forget(name)
            told = EmitEvent(
                reason="Declared", message=f"Generation {event.generation} is declared{by}."
            )
        elif isinstance(event, e.ResourceLabelled) and not is_declared:
            told = EmitEvent(reason="Labelled", message=f"Labels or annotations are changed{by}.")
        elif isinstance(event, e.ResourceDeletionMarked):
            told = EmitEvent(reason="Deleting", message=f"It shall go, asked for{by}.")
        else:
            continue
        happenings.tell(name, told, at)


def about_runtimes(frames: Iterable[Frame], first: int, last: int) -> Iterator[Told]:
    """The records of these frames that have to do with runtimes. The others are not even read:
    nothing can be about one without naming the kind."""
    for frame in frames:
        for position, data in enumerate(frame.records, start=frame.first):
            if position > last:
                return
            if position >= first and _NAMED in data:
                yield told_by(frame, data, position)


def lives_in(history: Iterable[Told]) -> Happenings:
    """What happened to all of them. Times are those of the wall clock."""
    lives = Lives()
    for told in history:
        lives.note(told.record, Instant(told.wall(told.record.at)))
    return lives.happenings


class Remembered:
    """What happened to runtimes before this process was there, as its log has it."""

    def __init__(
        self,
        coordinator: Coordinator,
        happenings: Happenings,
        log: Framed,
    ) -> None:
        self._coordinator = coordinator
        self._happenings = happenings
        self._log = log
        self._last = int(coordinator.state.position)
        self._first = max(log.oldest, self._last - RECORDS_MOST + 1)
        self._opened_at = coordinator.now()
        self._recalling: asyncio.Future[None] | None = None

    async def recall(self) -> None:
        """Return when it is known. The log is read once, aside from whoever serves."""
        if self._first > self._last:
            return
        if self._recalling is None:
            self._recalling = asyncio.ensure_future(self._recall())
        await asyncio.shield(self._recalling)

    async def _recall(self) -> None:
        found = await asyncio.to_thread(self._look)
        clock = self._coordinator.clock
        offset = clock.wall() - clock.now()
        resources = self._coordinator.state.resources
        for name in found.names():
            known = resources.get((KIND, name))
            # One that was declared anew since then has another past.
            if known is not None and known.created_at <= self._opened_at:
                self._happenings.precede(name, found.of(name), -offset)

    def _look(self) -> Happenings:
        try:
            return lives_in(about_runtimes(self._log.read(self._first), self._first, self._last))
        except (HistoryGone, FileNotFoundError):
            # Dropped while it was read: there is nothing to tell of it any more.
            return Happenings()
