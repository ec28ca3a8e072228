"""How many might start, and how long tasks took: notes beside the log, for whoever asks about the
past.

A bucket of a rate, and the mean of a function, are in memory alone. They are noted when they have
changed, once a second at most, in a file that has its own bound: a busy limit must not push out
the notes of the fleet.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.notebook import LOOK_MS, Notebook
from holdfast.coordinator.placement import Placement
from holdfast.core.ids import NEVER, Instant
from holdfast.core.unreadable import UNREADABLE
from holdfast.scheduler.ledger import Name

FILE: Final = "pace.notes"
LONGEST_TARGET: Final = 500
CHANGED: Final = 4
"""A mean is noted again when it has changed by this part of itself."""

Function = tuple[str, str]


class Pace(Struct, frozen=True, array_like=True):
    """From this position and time on: what each bucket held since when, and what each function
    takes in microseconds. `is_first`: nothing of what was noted before counts any more."""

    position: int
    at: int
    is_first: bool
    levels: tuple[tuple[str, str, float, int], ...] = ()
    means: tuple[tuple[str, str, int], ...] = ()


class Paced(Struct):
    """What was known at a moment, as far as it was noted. `is_noted`: a bucket that is not here had
    not begun, and so held nothing."""

    is_noted: bool = False
    levels: dict[Name, tuple[float, Instant]] = field(default_factory=dict)
    means_us: dict[Function, int] = field(default_factory=dict)


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Pace).decode


class PaceNotes:
    """A hook of the engine that writes what changed. A disk that takes no notes is let be."""

    def __init__(self, folder: Path, coordinator: Coordinator, placement: Placement) -> None:
        self._book = Notebook(folder, FILE)
        self._coordinator = coordinator
        self._placement = placement
        self._means: dict[Function, int] = {}
        self._is_begun = False
        self._is_broken = False
        self._next = Instant(0)

    def step(self, now: Instant) -> None:
        if self._is_broken or now < self._next:
            return
        self._next = Instant(now + LOOK_MS)
        try:
            self._note(now)
        except OSError:
            self._is_broken = True

    def next_due(self) -> Instant:
        """Whoever waits for a rate may wait long, and nothing else happens meanwhile."""
        is_waiting = self._placement.rates.touched and not self._is_broken
        return self._next if is_waiting else NEVER

    def _note(self, now: Instant) -> None:
        rates, known = self._placement.rates, self._placement.paces.means_us
        touched = rates.touched
        is_first = not self._is_begun
        if self._is_begun and self._book.is_full():
            self._book.begin_anew()
            is_first, self._means, touched = True, {}, set(self._coordinator.state.limits)
        levels = rates.levels(touched)
        means = {name: mean for name, mean in known.items() if self._has_changed(name, mean)}
        rates.touched = set()
        if levels or means or is_first:
            pace = Pace(
                int(self._coordinator.state.position), now, is_first,
                tuple((*name, *level) for name, level in sorted(levels.items())),
                tuple((*name, mean) for name, mean in means.items()),
            )  # fmt: skip
            self._book.write([_encode(pace)])
        self._is_begun = True
        self._means = {name: mean for name, mean in self._means.items() if name in known} | means

    def _has_changed(self, name: Function, mean: int) -> bool:
        before = self._means.get(name)
        if len(name[1]) > LONGEST_TARGET:
            return False
        return before is None or abs(mean - before) * CHANGED > before


def paced_at(folder: Path, position: int, now: Instant) -> Paced:
    """What was known at a moment."""
    found = Paced()
    for pace in _read(folder):
        if pace.position > position or pace.at > now:
            continue
        if pace.is_first:
            found = Paced(is_noted=True)
        for scope, name, level, since in pace.levels:
            found.levels[(scope, name)] = (level, Instant(since))
        for kind, target, mean in pace.means:
            found.means_us[(kind, target)] = mean
    return found


def _read(folder: Path) -> Iterator[Pace]:
    for line in Notebook(folder, FILE).lines():
        try:
            yield _decode(line)
        except UNREADABLE:
            # Empty, or cut short by a crash: what was noted next is whole.
            continue
