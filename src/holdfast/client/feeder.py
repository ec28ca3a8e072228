"""Feeding a map: items in chunks, lazily, never more than a window ahead of the workers."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from itertools import islice
from typing import Any, Final

from holdfast.client.backend import Backend
from holdfast.client.errors import DiskLow, Refused
from holdfast.client.feed import JobFeed
from holdfast.client.handles import Feeding

CHUNK_ITEMS = 1_000
CHUNK_BYTES = 512 * 1024
CHUNK_SECONDS = 0.05
STOP_SECONDS = 1.0
WINDOW_ITEMS = 100_000

Encode = Callable[[Any], bytes]


class Chunks:
    """Cuts encoded items into chunks: by number, by size, and by time for a slow source.

    A thread of its own takes the items, a little ahead: a source may fall silent for an hour after
    any item, and what it gave before that must not wait for what comes after.
    """

    def __init__(self, items: Iterable[object], encode: Encode, *, digests: bool) -> None:
        self._items: Iterator[object] = iter(items)
        self._encode = encode
        self._hash = blake2b(digest_size=16) if digests else None
        self._changed = threading.Condition()
        # The one who takes appends, the one who feeds removes: neither needs the lock for that.
        self._taken: deque[bytes] = deque()
        self._bytes_in = 0
        self._bytes_out = 0
        # How many items or bytes make the taker stop and look: it must be cheap an item.
        self._look_items = 0
        self._look_bytes = 0
        self._is_over = False
        self._trouble: BaseException | None = None
        self._taker: threading.Thread | None = None
        self.exhausted = False

    def next(self, patience_s: float | None = None) -> tuple[bytes, ...]:
        """The next items, as soon as there are enough or time is up; raises what the source did.
        None at all where the source was silent for as long as `patience_s`."""
        if self._taker is None:
            self._taker = threading.Thread(target=self._take, name="holdfast-source", daemon=True)
            self._taker.start()
        chunk: list[bytes] = []
        size = 0
        with self._changed:
            self._await(self._is_something, patience_s, items=1, size=1)
            if self._is_something():
                self._await(self._is_enough, CHUNK_SECONDS, items=CHUNK_ITEMS, size=CHUNK_BYTES)
            while self._taken and len(chunk) < CHUNK_ITEMS and size < CHUNK_BYTES:
                chunk.append(self._taken.popleft())
                size += len(chunk[-1])
            self._bytes_out += size
            self._look_at(2 * CHUNK_ITEMS, 2 * CHUNK_BYTES)
            self._changed.notify_all()
            self.exhausted = self._is_over and not self._taken and self._trouble is None
            if not chunk and self._trouble is not None:
                raise self._trouble
        if self._hash is not None:
            self._hash.update(b"".join(chunk))
        return tuple(chunk)

    def stop(self) -> None:
        """Nobody will ask again. A source that is stuck is left to itself."""
        with self._changed:
            self._is_over = True
            self._look_items = 0
            self._changed.notify_all()

    def _take(self) -> None:
        encode, taken = self._encode, self._taken
        try:
            for item in self._items:
                payload = encode(item)
                taken.append(payload)
                self._bytes_in += len(payload)
                if len(taken) >= self._look_items or self._bytes_in >= self._look_bytes:
                    with self._changed:
                        self._changed.notify_all()
                        self._changed.wait_for(self._has_space)
                    if self._is_over:
                        return
        except BaseException as error:  # noqa: BLE001 - whatever the source raises ends the feeding
            self._trouble = error
        self.stop()

    def _await(
        self, ready: Callable[[], bool], seconds: float | None, *, items: int, size: int
    ) -> None:
        """Said before it is looked at, so that whoever makes it true knows that somebody waits."""
        self._look_at(items, size)
        self._changed.wait_for(ready, seconds)
        self._look_at(2 * CHUNK_ITEMS, 2 * CHUNK_BYTES)

    def _look_at(self, items: int, size: int) -> None:
        self._look_items, self._look_bytes = items, self._bytes_out + size

    def _is_something(self) -> bool:
        return bool(self._taken) or self._is_over

    def _is_enough(self) -> bool:
        return self._is_over or self._holds(1)

    def _has_space(self) -> bool:
        return self._is_over or not self._holds(2)

    def _holds(self, chunks: int) -> bool:
        waiting_bytes = self._bytes_in - self._bytes_out
        return len(self._taken) >= chunks * CHUNK_ITEMS or waiting_bytes >= chunks * CHUNK_BYTES

    def skip(self, count: int) -> int:
        """Pass over items that are recorded already, hashing them; how many there were."""
        skipped = 0
        for item in islice(self._items, count):
            if self._hash is not None:
                self._hash.update(self._encode(item))
            skipped += 1
        return skipped

    def has_more(self) -> bool:
        return next(self._items, self) is not self

    def digest(self) -> bytes:
        return b"" if self._hash is None else self._hash.digest()


DISK_PAUSE_S: Final = 1.0
"""How long items wait until they are offered again to a disk that had no room for them."""


class Feeder(Feeding):
    """Feeds the rest of a map from a thread of its own, so that results can be read meanwhile."""

    def __init__(self, backend: Backend, feed: JobFeed, chunks: Chunks, fed: int) -> None:
        self._backend = backend
        self._feed = feed
        self._chunks = chunks
        self._fed = fed
        self._stopping = False
        self.is_over = False
        self._thread = threading.Thread(target=self.run, name="holdfast-feeder", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """Wait until everything is fed and sealed."""
        self._join(None)

    def stop(self) -> None:
        """Give up feeding: the job stays open and is settled by the next opening, or by a server
        that hears no more of us. A source that is stuck is not waited for; what it yields later
        is taken by nobody."""
        self._stopping = True
        self._chunks.stop()
        with self._feed.changed:
            self._feed.changed.notify_all()
        self._join(STOP_SECONDS)

    def _join(self, seconds: float | None) -> None:
        # Ctrl-C may have struck while the thread was being started: it feeds nothing then, or
        # soon finds the folder closed.
        with suppress(RuntimeError):
            self._thread.join(seconds)

    def run(self) -> None:
        """Feed everything and seal: in the thread that `start` starts, or in the caller's."""
        try:
            while not self._chunks.exhausted and not self._stopping:
                self._feed_some(self._backend.silence_s)
            if not self._stopping:
                self._seal(interrupted=False)
        except BaseException as error:  # noqa: BLE001 - it is told to whoever waits for the job
            self.error = error
            self._give_up(error)
        finally:
            self.is_over = True

    def _feed_some(self, silence_s: float | None) -> None:
        """Feed a chunk. Where the workers or the source take their time, say that we live."""
        items: tuple[bytes, ...] = ()
        if self._feed.wait_for(self._has_room, silence_s) and not self._stopping:
            items = self._chunks.next(silence_s)
        if items:
            self._add(items)
        elif not self._chunks.exhausted and not self._stopping:
            self._backend.still_feeding(self._feed.job_id)

    def _has_room(self) -> bool:
        return self._stopping or self._fed - self._feed.done_count < WINDOW_ITEMS

    def _add(self, items: tuple[bytes, ...]) -> None:
        """Have items recorded. Where the disk is short of room they wait: the rest of a map must
        not be lost because somebody else has filled it."""
        while not self._stopping:
            try:
                self._backend.add_items(self._feed.job_id, self._fed, items, self._chunks.digest())
            except DiskLow:
                self._feed.wait_for(lambda: self._stopping, DISK_PAUSE_S)
                self._backend.still_feeding(self._feed.job_id)
            else:
                self._fed += len(items)
                return

    def _seal(self, *, interrupted: bool) -> None:
        self._backend.seal(self._feed.job_id, self._fed, interrupted=interrupted)

    def _give_up(self, error: BaseException) -> None:
        """A cancelled job takes no more items, which is no trouble; anything else interrupts.

        Under a key the job stays open instead: the same map, once what was wrong is right, goes on
        where this one stopped. Who waits for this one is told why it did.
        """
        if isinstance(error, Refused) and error.code == "job_sealed":
            self.error = None
            return
        if self._chunks.digest():
            self._feed.broken(error)
            return
        try:
            self._seal(interrupted=True)
        except Exception:  # noqa: BLE001 - the first error is the one that matters
            return
