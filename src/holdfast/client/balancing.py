"""Requests to a service that has several replicas, one replica after the other."""

import threading
import time
import weakref
from collections.abc import Callable, Sequence
from http.client import BadStatusLine, IncompleteRead
from typing import Final, TypeVar

from holdfast.client.errors import Closed, HoldfastError, NoEndpoint
from holdfast.core.errors import OperatingError

T = TypeVar("T")

Changed = Callable[[], bool]
"""Returns when the addresses may be others, or when it has waited long enough; whether they may."""

REFRESH_S: Final = 5.0
WATCHED_S: Final = 60.0
"""So rarely they are looked up while somebody says when they change."""
PAUSES_S: Final = (0.5, 30.0)
"""How long a watch that failed pauses, from the first time on."""
REST_S: Final = 10.0

BROKEN: Final = (OSError, IncompleteRead, BadStatusLine)
"""What is raised where nobody is there, or is no more: a replica that ends while it answers leaves
an answer behind that is shorter than it said, which is no OSError."""


class RoundRobin:
    """The addresses of a service, in turn. With `changed` a thread of its own waits for changes
    and looks them up when there is one. Without it, and while it fails, they are looked up every
    `refresh_s`, and at once when none is left; one that failed is left out for `rest_s`, unless it
    is told anew.

    May be used by many threads. While nobody can be asked for addresses the last known ones hold.
    """

    def __init__(
        self,
        look: Callable[[], Sequence[str]],
        name: str = "",
        *,
        refresh_s: float = REFRESH_S,
        rest_s: float = REST_S,
        changed: Changed | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._look = look
        self._refresh_s = refresh_s
        self._rest_s = rest_s
        self._clock = clock
        self._lock = threading.Lock()
        self._known: tuple[str, ...] = ()
        self._looked_at: float | None = None
        self._resting: dict[str, float] = {}
        self._turn = 0
        self._changed = changed
        self._is_watched = False
        self._watcher: threading.Thread | None = None
        self._left = threading.Event()
        # Whoever watches for it ends with it.
        weakref.finalize(self, self._left.set)

    @property
    def addresses(self) -> tuple[str, ...]:
        """Those that may be asked now, `host:port` each."""
        with self._lock:
            return self._usable()

    def next(self) -> str:
        """The address whose turn it is; `NoEndpoint` where there is none."""
        with self._lock:
            usable = self._usable()
            if not usable:
                self._refresh()
                # Better one that failed a moment ago than none.
                usable = self._usable() or self._known
            if not usable:
                raise NoEndpoint(f"nobody takes requests of {self.name or 'this service'} now")
            self._turn += 1
            return usable[self._turn % len(usable)]

    def failed(self, address: str) -> None:
        """Leave this address out for a while."""
        with self._lock:
            self._resting[address] = self._clock() + self._rest_s

    def call(self, do: Callable[[str], T]) -> T:
        """What `do` makes of an address. Where it cannot connect, or the answer breaks off, the
        next address is tried, each once; the error of the last one is raised. `do` may be called
        more than once, and only something that is safe to repeat belongs in there."""
        address = self.next()
        tried = {address}
        while True:
            try:
                return do(address)
            except BROKEN:
                self.failed(address)
                # Where all that were known have failed this looks them up: there may be others.
                address = self.next()
                if address in tried:
                    raise
                tried.add(address)

    def _usable(self) -> tuple[str, ...]:
        now = self._clock()
        refresh_s = max(self._refresh_s, WATCHED_S) if self._is_watched else self._refresh_s
        if self._looked_at is None or now >= self._looked_at + refresh_s:
            self._refresh()
        if self._watcher is None and self._changed is not None:
            self._watcher = threading.Thread(
                target=_watch,
                args=(weakref.ref(self), self._changed, self._left),
                name=f"endpoints of {self.name}",
                daemon=True,
            )
            self._watcher.start()
        self._resting = {each: until for each, until in self._resting.items() if until > now}
        return tuple(each for each in self._known if each not in self._resting)

    def _refresh(self) -> None:
        self._looked_at = self._clock()
        try:
            self._known = tuple(self._look())
        except OperatingError:
            if not self._known:
                raise
            return
        # What is no longer told needs no rest: if it comes back it is another replica.
        self._resting = {
            each: until for each, until in self._resting.items() if each in self._known
        }

    def _hear(self, *, is_well: bool, is_new: bool) -> None:
        """A watch came back: what it said is looked at, and a failed one is made up for."""
        with self._lock:
            self._is_watched = is_well
            if is_new:
                try:
                    self._refresh()
                except (OperatingError, HoldfastError):
                    self._looked_at = None

    def __repr__(self) -> str:
        return f"<endpoints of {self.name}>"


def _watch(
    ring: "weakref.ref[RoundRobin]", changed: Changed, left: threading.Event
) -> None:
    """Tell a ring of every change, until nobody has it any more."""
    pause_s, longest_s = PAUSES_S
    while not left.is_set():
        try:
            is_new, is_well = changed(), True
        except Closed:
            # Nobody will be asked any more.
            left.set()
            is_new, is_well = False, False
        except (OperatingError, HoldfastError):
            is_new, is_well = False, False
        found = ring()
        if found is None:
            return
        found._hear(is_well=is_well, is_new=is_new)
        # Held on to no longer than it takes: whoever waits here must not keep it alive.
        del found
        if is_well:
            pause_s = PAUSES_S[0]
        else:
            left.wait(pause_s)
            pause_s = min(2 * pause_s, longest_s)
