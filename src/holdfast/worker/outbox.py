"""What tasks have printed and nobody has been sent yet, in the order it should go.

Executors say what was printed where; whoever carries takes chunks from here and brings back what
became of them. A chunk stays until it is answered for, so it is sent again after a lost answer.
The box is bounded: what a slow or absent server leaves lying is lost in the middle, and told so.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import islice
from typing import Final, Protocol

from msgspec import Struct

from holdfast.core.ids import LeaseId
from holdfast.wire.output import Chunk, Kept
from holdfast.worker.captures import STREAMS, CaptureFile
from holdfast.worker.lanes import Entry
from holdfast.worker.masking import Mask

CHUNK_BYTES: Final = 256 * 1024
BATCH_BYTES: Final = 1024 * 1024
BATCH_CHUNKS: Final = 200
STREAM_BYTES: Final = 8 * 1024 * 1024
"""What may wait of one stream; beyond it the middle goes."""
HEAD_BYTES: Final = 2 * 1024 * 1024
TAIL_BYTES: Final = 2 * 1024 * 1024
ALL_BYTES: Final = 128 * 1024 * 1024
SOURCES_MAX: Final = 100_000
PAST_MAX: Final = 10_000
LOOKS: Final = 1_000
NO_MASK: Final = Mask()

SourceKey = tuple[LeaseId, str]


class Shown(Struct, frozen=True):
    """What a task that still runs has printed so far: bytes `start` to `end` of a file."""

    entry: Entry
    stream: str
    file: CaptureFile
    start: int
    end: int


class Outlet(Protocol):
    """Where executors say what was printed. Called from any thread; never waits."""

    def began(self, entry: Entry, files: Mapping[str, CaptureFile], mask: Mask) -> None:
        """This attempt fills these files, which are its own. They are closed by the outlet."""

    def ended(self, lease_id: LeaseId) -> None:
        """Nothing more comes into the files of this attempt."""

    def printed(self, entry: Entry, stream: str, file: CaptureFile, start: int, end: int) -> None:
        """An attempt that is over printed these bytes of a file that it shared with others."""


class Source:
    """One stream of one attempt. Offsets here are those of the stream; the file begins earlier."""

    def __init__(
        self, entry: Entry, stream: str, file: CaptureFile, start: int, mask: Mask
    ) -> None:
        self.entry = entry
        self.stream = stream
        self.file = file
        self.start = start
        self.mask = mask
        self.size = 0
        self.sent = 0
        self.is_over = False
        self.is_shared = True

    @property
    def waiting(self) -> int:
        return self.size - self.sent

    @property
    def key(self) -> SourceKey:
        return self.entry[1].lease_id, self.stream

    def look(self) -> None:
        """Learn how much there is, where the whole file is ours."""
        if not self.is_shared:
            self.size = max(self.size, self.file.size())

    def next_chunk(self, most: int) -> Chunk | None:
        run, item = self.entry
        first = self.start + self.sent
        last = min(self.start + self.size, first + most)
        begin, content = self.file.read(first, last)
        is_all = self.is_over and begin + len(content) == self.start + self.size
        if content:
            content = self.mask.cover(content, is_all=is_all)
        if not content and begin == first and not is_all:
            return None
        return Chunk(
            run.job_id,
            item.index,
            item.attempt,
            item.lease_id,
            self.stream,
            begin - self.start,
            content,
            skips=begin > first,
            ended=is_all,
        )

    def lose_excess(self) -> None:
        """Of what waits, keep the beginning and the end."""
        if self.waiting > STREAM_BYTES:
            first = self.start + self.sent
            self.file.lose(first + HEAD_BYTES, self.start + self.size - TAIL_BYTES)


class Outbox:
    """The `Outlet` of a worker. `showing` tells what running tasks have printed so far."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.showing: Callable[[], Iterable[Shown]] = lambda: ()
        self._wake = wake
        self._lock = threading.Lock()
        # Those under way are looked at again and again, and are few. Those that are over, however
        # many, are sent in their turn.
        self._live: dict[SourceKey, Source] = {}
        self._over: dict[SourceKey, Source] = {}
        self._over_bytes = 0
        # A look at what runs may come too late, and must not revive what is over.
        self._past: dict[LeaseId, None] = {}

    # What executors say.

    def began(self, entry: Entry, files: Mapping[str, CaptureFile], mask: Mask) -> None:
        with self._lock:
            for stream, file in files.items():
                source = Source(entry, stream, file, 0, mask)
                source.is_shared = False
                self._live[entry[1].lease_id, stream] = source
        self._wake()

    def ended(self, lease_id: LeaseId) -> None:
        with self._lock:
            for key in [(lease_id, stream) for stream in STREAMS]:
                source = self._live.pop(key, None)
                if source is not None:
                    source.look()
                    self._finish(key, source)
        self._wake()

    def printed(self, entry: Entry, stream: str, file: CaptureFile, start: int, end: int) -> None:
        key = (entry[1].lease_id, stream)
        with self._lock:
            self._past[entry[1].lease_id] = None
            if len(self._past) > PAST_MAX:
                del self._past[next(iter(self._past))]
            source = self._live.pop(key, None) or Source(entry, stream, file, start, NO_MASK)
            if not source.sent:
                # Whoever looked while it ran may have seen a later beginning.
                source.start = start
            source.size = max(source.size, end - source.start)
            self._finish(key, source)
        self._wake()

    def _finish(self, key: SourceKey, source: Source) -> None:
        source.is_over = True
        with suppress(OSError):
            source.lose_excess()
        self._over[key] = source
        self._over_bytes += min(source.size, STREAM_BYTES)

    # What the carrier asks.

    def is_empty(self) -> bool:
        return not self._live and not self._over

    def gather(self) -> list[Chunk]:
        """What to send now: at most a batch, at most one chunk of a stream."""
        self._look()
        chunks: list[Chunk] = []
        room = BATCH_BYTES
        with self._lock:
            waiting = [source for source in self._live.values() if source.waiting > 0]
            waiting += islice(self._over.values(), BATCH_CHUNKS)
        for source in waiting:
            if room <= 0 or len(chunks) >= BATCH_CHUNKS:
                break
            try:
                chunk = source.next_chunk(min(room, CHUNK_BYTES))
            except OSError:
                # Its file cannot be read, and nobody else could.
                self._drop(source.key)
                continue
            if chunk is not None:
                chunks.append(chunk)
                room -= len(chunk.content)
        return chunks

    def settle(self, chunk: Chunk, kept: Kept) -> None:
        """What became of a chunk that was sent."""
        key = (chunk.lease_id, chunk.stream)
        source = self._live.get(key) or self._over.get(key)
        if source is None or kept.code == "not_ready":
            return
        if kept.code == "offset_gap":
            # The server has lost something. Where we have too, the next chunk says so.
            source.sent = min(source.sent, kept.next)
            return
        if not kept.code:
            source.sent = min(source.size, max(source.sent, kept.next))
        if kept.code or chunk.ended:
            self._drop(key)

    def forget_sent(self) -> None:
        """Give the room of what was sent back to the disk: of each file whatever comes before the
        first that still waits."""
        with self._lock:
            found = [*self._live.values(), *islice(self._over.values(), LOOKS)]
        first: dict[CaptureFile, int] = {}
        for source in found:
            at = source.start + source.sent
            first[source.file] = min(at, first.get(source.file, at))
        for file, at in first.items():
            file.forget(at)

    def give_up(self, chunks: Iterable[Chunk]) -> None:
        """Nobody wants these, nor what would follow them."""
        for chunk in chunks:
            self._drop((chunk.lease_id, chunk.stream))

    def close(self) -> None:
        for key in [*self._live, *self._over]:
            self._drop(key)

    def _look(self) -> None:
        """Learn what those under way have printed, and let go of what is too much."""
        shown = list(self.showing())
        with self._lock:
            for each in shown:
                self._show(each)
            for source in self._live.values():
                with suppress(OSError):
                    source.look()
                    source.lose_excess()
        while self._over and (self._over_bytes > ALL_BYTES or len(self._over) > SOURCES_MAX):
            self._drop(next(iter(self._over)))

    def _show(self, each: Shown) -> None:
        lease_id = each.entry[1].lease_id
        source = self._live.get((lease_id, each.stream))
        if source is None:
            if lease_id in self._past:
                return
            source = Source(each.entry, each.stream, each.file, each.start, NO_MASK)
            self._live[source.key] = source
        source.size = max(source.size, each.end - source.start)

    def _drop(self, key: SourceKey) -> None:
        with self._lock:
            source = self._live.pop(key, None)
            if source is None:
                source = self._over.pop(key, None)
                if source is not None:
                    self._over_bytes -= min(source.size, STREAM_BYTES)
        if source is None or source.is_shared:
            return
        if source.sent == source.size:
            source.file.lose(0, source.size)
        source.file.close()
