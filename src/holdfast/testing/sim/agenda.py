"""Virtual time: what happens when, in one heap. Nothing waits; time jumps to what comes next."""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

Action = Callable[[], None]

SECOND: Final = 1_000_000
MILLI: Final = 1_000
PATIENCE: Final = 1_000
"""So much may happen in one instant until what comes anew has to stand behind what waits in it:
else chance could keep one waiting for ever, and time with it."""
_CHOSEN: Final = (1 << 32) - 1
_MASK: Final = (1 << 64) - 1


def mixed(*parts: int) -> int:
    """A number of 64 bits that follows from these and looks like chance.

    Chance that is looked up by what it is for, instead of drawn from one stream, does not shift
    when something before it is left out: that is what makes a failing run smaller.
    """
    found = 0x9E3779B97F4A7C15
    for part in parts:
        found = (found ^ part) & _MASK
        found = ((found ^ (found >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        found = ((found ^ (found >> 27)) * 0x94D049BB133111EB) & _MASK
        found ^= found >> 31
    return found


def part_of(chance: int) -> float:
    """The same as a throw in [0, 1)."""
    return (chance >> 11) / (1 << 53)


class Agenda:
    """Time is counted in true microseconds, which no machine knows. What falls on the same
    instant comes in an order that the seed chooses; `at_once` is how much of it there was."""

    def __init__(self, seed: int) -> None:
        self.now_us = 0
        self.done = 0
        self.at_once = 0
        self._seed = seed
        self._count = 0
        self._heap: list[tuple[int, int, int, Action]] = []

    def at(self, instant_us: int, action: Action) -> None:
        self._count += 1
        # An odd factor makes a permutation of it: no two that meet come alike.
        order = (self._count * 0x9E3779B97F4A7C15 ^ self._seed) & _CHOSEN
        if self.at_once > PATIENCE:
            # Somebody looks again and again for what is about to happen: it does, now.
            order = _CHOSEN + self._count
        heappush(self._heap, (max(instant_us, self.now_us), order, self._count, action))

    def after(self, us: int, action: Action) -> None:
        self.at(self.now_us + us, action)

    def next_us(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def step(self) -> None:
        instant, _, _, action = heappop(self._heap)
        self.at_once = self.at_once + 1 if instant == self.now_us else 0
        self.now_us = instant
        self.done += 1
        action()
