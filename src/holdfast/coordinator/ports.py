"""What the coordinator needs from the world, each behind a door that a simulation can stand in."""

import os
import random
import time
from typing import Final, Protocol

from holdfast.core.ids import Instant


class Clock(Protocol):
    def now(self) -> Instant:
        """Log time in milliseconds: never goes back, goes on while the machine sleeps."""

    def wall(self) -> Instant:
        """The wall clock in milliseconds: for calendars and display, trusted for nothing else."""


class Dice(Protocol):
    def roll(self) -> float:
        """A throw in [0, 1)."""


class Faults(Protocol):
    def reach(self, point: str) -> None:
        """A named place where a test may make the world fail."""


_BOOT: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def _boot_ms() -> int:
    return time.clock_gettime_ns(_BOOT) // 1_000_000


class SystemClock:
    """Log time anchored once: the later of the wall clock and the last recorded instant, plus
    what has passed since. Neither a jump of the wall clock nor a restart takes it back."""

    def __init__(self, last: Instant) -> None:
        self._anchor = max(self.wall(), last) - _boot_ms()

    def now(self) -> Instant:
        return Instant(self._anchor + _boot_ms())

    def wall(self) -> Instant:
        return Instant(time.time_ns() // 1_000_000)


class SystemDice:
    def __init__(self) -> None:
        self._random = random.Random(os.urandom(8))  # noqa: S311 - jitter is no secret.

    def roll(self) -> float:
        return self._random.random()


class NoFaults:
    def reach(self, point: str) -> None:
        return
