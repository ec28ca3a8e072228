"""A queue of keys that something is to be done about: each once, however often it was asked for.

A key is worked on by one at a time. What comes for it meanwhile brings it back when that is over,
and is never lost. A key whose work failed waits longer each time. Time is told from outside.
"""

from heapq import heapify, heappop, heappush

from holdfast.core.ids import NEVER, Instant

BACKOFF_MS = 500
BACKOFF_MOST_MS = 60_000
SLACK = 64
"""So many times that no longer hold may stand in the line beside those that do."""


class WorkQueue:
    """Keys in the order they came, and keys that come later by themselves."""

    def __init__(
        self, *, backoff_ms: int = BACKOFF_MS, backoff_most_ms: int = BACKOFF_MOST_MS
    ) -> None:
        self._backoff_ms = backoff_ms
        self._backoff_most_ms = backoff_most_ms
        self._ready: dict[str, None] = {}
        self._dues: dict[str, Instant] = {}
        self._heap: list[tuple[Instant, str]] = []
        self._busy: dict[str, bool] = {}
        self._failures: dict[str, int] = {}

    def __len__(self) -> int:
        """How many are to be worked on at once, or are being worked on."""
        return len(self._ready) + len(self._busy)

    def add(self, key: str) -> None:
        """Something happened to this key."""
        if key in self._busy:
            self._busy[key] = True
        else:
            self._ready[key] = None

    def add_at(self, key: str, due: Instant) -> None:
        """Have the key come by itself at `due`, unless it will sooner."""
        known = self._dues.get(key)
        if known is None or due < known:
            self._dues[key] = due
            heappush(self._heap, (due, key))
            if len(self._heap) > 2 * len(self._dues) + SLACK:
                # A key that is often taken before its time leaves the times it had behind.
                self._heap = [(due, key) for key, due in self._dues.items()]
                heapify(self._heap)

    def take(self, now: Instant) -> str | None:
        """The next key to work on. It is this caller's until `done` or `failed`."""
        self._ripen(now)
        if not self._ready:
            return None
        key = next(iter(self._ready))
        del self._ready[key]
        # Whatever was to bring it back later is for those who work on it now to say again.
        self._dues.pop(key, None)
        self._busy[key] = False
        return key

    def done(self, key: str) -> None:
        """The work on this key is over, and went well."""
        self._failures.pop(key, None)
        self._leave(key)

    def failed(self, key: str, now: Instant) -> None:
        """The work on this key is over and has to be done again, after a while."""
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        # What came meanwhile is looked at then too: a storm of events makes nobody try faster.
        self._busy[key] = False
        self._leave(key)
        wait_ms = min(self._backoff_ms * 2 ** min(count, 20), self._backoff_most_ms)
        self.add_at(key, Instant(now + wait_ms))

    def forget(self, key: str) -> None:
        """Nothing is to be done about this key any more."""
        self._ready.pop(key, None)
        self._dues.pop(key, None)
        self._failures.pop(key, None)
        if key in self._busy:
            self._busy[key] = False

    def next_due(self, now: Instant) -> Instant:
        """When there is something to take: now, later, or never."""
        if self._ready:
            return now
        while self._heap and self._dues.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else NEVER

    def _ripen(self, now: Instant) -> None:
        while self._heap and self._heap[0][0] <= now:
            due, key = heappop(self._heap)
            if self._dues.get(key) == due:
                del self._dues[key]
                self.add(key)

    def _leave(self, key: str) -> None:
        if self._busy.pop(key, False):
            self._ready[key] = None
