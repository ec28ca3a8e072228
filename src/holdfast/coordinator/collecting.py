"""Removing what nothing refers to any more: from the store of bundles, and from that of results.

A file goes when no job that is kept refers to it and nobody has asked for it for a while. Whoever
is about to refer to one asks for it first, so that it cannot go in between.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from itertools import islice
from pathlib import Path
from typing import Final, Protocol

from holdfast.coordinator.lines import say
from holdfast.core.ids import Instant
from holdfast.core.state import State

LOOK_MS: Final = 600_000
STEPS_A_TURN: Final = 20_000
REMOVED_A_TURN: Final = 500
PATIENCE_MS: Final = 200


class Store(Protocol):
    """Files named by digests, as far as those are concerned that go."""

    what: str

    def look(self) -> "Future[set[bytes]]":
        """The digests of those that nobody has asked for lately."""

    def needed(self, state: State) -> Iterator[bytes]:
        """What is referred to, a little at a time: an empty digest where there is none to tell."""

    def collect(self, digests: Iterable[bytes]) -> list[Path]:
        """They are no longer here, but for those that were asked for meanwhile; the files that are
        left to be removed."""


class Collector:
    """A hook of the engine. It looks at the jobs a part at a time, since there may be a million;
    one that refers to something meanwhile has asked for it. Files are listed and removed by other
    threads, because the engine waits for no disk."""

    def __init__(
        self, store: Store, state: State, remove: Callable[[list[Path]], None] | None = None
    ) -> None:
        self._store = store
        self._state = state
        self._remove = remove or remove_aside
        self._next = Instant(0)
        self._looking: Future[set[bytes]] | None = None
        self._left: set[bytes] = set()
        self._needed: Iterator[bytes] | None = None
        self._going: list[bytes] = []

    def step(self, now: Instant) -> None:
        if self._going:
            self._let_go()
        elif self._needed is not None:
            self._compare(self._needed)
        elif self._looking is not None:
            self._wait(self._looking, now)
        elif now >= self._next:
            self._next = Instant(now + LOOK_MS)
            self._looking = self._store.look()
            self._wait(self._looking, now)

    def next_due(self) -> Instant:
        is_busy = self._going or self._needed is not None
        return Instant(1) if is_busy else self._next

    def _wait(self, looking: "Future[set[bytes]]", now: Instant) -> None:
        if not looking.done():
            self._next = Instant(now + PATIENCE_MS)
            return
        self._looking = None
        self._next = Instant(now + LOOK_MS)
        self._left = looking.result()
        if self._left:
            self._needed = self._store.needed(self._state)
            self._compare(self._needed)

    def _compare(self, needed: Iterator[bytes]) -> None:
        found = list(islice(needed, STEPS_A_TURN))
        self._left.difference_update(found)
        if len(found) < STEPS_A_TURN:
            self._needed = None
            self._going, self._left = sorted(self._left), set()
            if self._going:
                say("unneeded_removed", what=self._store.what, count=len(self._going))
                self._let_go()

    def _let_go(self) -> None:
        going, self._going = self._going[:REMOVED_A_TURN], self._going[REMOVED_A_TURN:]
        paths = self._store.collect(going)
        if paths:
            self._remove(paths)


def remove_aside(paths: list[Path]) -> None:
    """Removing a large file takes a while, and the engine has no while."""

    def remove() -> None:
        for path in paths:
            path.unlink(missing_ok=True)

    threading.Thread(target=remove, name="holdfast-collect", daemon=True).start()


def looked(found: set[bytes]) -> "Future[set[bytes]]":
    """What is known without a look at the disk."""
    future: Future[set[bytes]] = Future()
    future.set_result(found)
    return future


def look_aside(look: Callable[[], set[bytes]]) -> "Future[set[bytes]]":
    """What a look at the disk finds, on a thread of its own. A disk that cannot be read now hides
    what there is, and is looked at again later."""
    future: Future[set[bytes]] = Future()

    def run() -> None:
        try:
            future.set_result(look())
        except OSError as error:
            say("unneeded_unseen", why=str(error))
            future.set_result(set())

    threading.Thread(target=run, name="holdfast-collect", daemon=True).start()
    return future
