"""A clock that moves when told to, and dice that fall as their seed says."""

from random import Random

from holdfast.core.ids import Instant

EPOCH = Instant(1_000_000)


class ManualClock:
    """Both clocks of a coordinator. Log time only goes forward; the wall clock may be moved either
    way, because that is what wall clocks do."""

    def __init__(self, now: int = EPOCH) -> None:
        self._now = now
        self._wall = now

    def now(self) -> Instant:
        return Instant(self._now)

    def wall(self) -> Instant:
        return Instant(self._wall)

    def advance(self, ms: int) -> None:
        """Time passes, on both clocks alike."""
        if ms < 0:
            raise ValueError(f"time does not go back by {-ms} ms; move the wall clock instead")
        self._now += ms
        self._wall += ms

    def advance_to(self, instant: int) -> None:
        self.advance(max(0, instant - self._now))

    def move_wall(self, ms: int) -> None:
        """Somebody sets the wall clock; log time does not notice."""
        self._wall += ms


class SeededDice:
    def __init__(self, seed: int | str) -> None:
        self._random = Random(seed)

    def roll(self) -> float:
        return self._random.random()
