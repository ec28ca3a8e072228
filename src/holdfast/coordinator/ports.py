"""What the coordinator needs from the world, each behind a door that a simulation can stand in."""

import os
import random
import socket
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


class Machine(Protocol):
    """Where a coordinator runs: two clocks, and what others call it by."""

    def boot_ms(self) -> int:
        """How long it has been up, its sleep included. Nobody can set this one."""

    def wall_ms(self) -> int: ...

    def host(self) -> str: ...

    def pid(self) -> int: ...


_BOOT: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class ThisMachine:
    def boot_ms(self) -> int:
        return time.clock_gettime_ns(_BOOT) // 1_000_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def host(self) -> str:
        return socket.gethostname()

    def pid(self) -> int:
        return os.getpid()


class SystemClock:
    """Log time anchored once: the later of the wall clock and the last recorded instant, plus
    what has passed since. Neither a jump of the wall clock nor a restart takes it back."""

    def __init__(self, last: Instant, machine: Machine | None = None) -> None:
        self._machine = machine or ThisMachine()
        self._anchor = max(self.wall(), last) - self._machine.boot_ms()

    def now(self) -> Instant:
        return Instant(self._anchor + self._machine.boot_ms())

    def wall(self) -> Instant:
        return Instant(self._machine.wall_ms())


class SystemDice:
    def __init__(self) -> None:
        self._random = random.Random(os.urandom(8))  # noqa: S311 - jitter is no secret.

    def roll(self) -> float:
        return self._random.random()


class NoFaults:
    def reach(self, point: str) -> None:
        return
