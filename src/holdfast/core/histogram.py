"""How often something took how long, or was how large: counts by bounds, as curves need them."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

SECONDS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300, 600, 3_600, 86_400)
SYNC_SECONDS: Final = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5)
RECORDS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)


class Histogram:
    """One thread observes; others may read, and see it a moment earlier or later."""

    __slots__ = ("_counts", "bounds", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.total = 0.0
        self._counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float, count: int = 1) -> None:
        self._counts[bisect_left(self.bounds, value)] += count
        self.total += value * count

    @property
    def count(self) -> int:
        return sum(self._counts)

    def cumulated(self) -> Iterator[tuple[float, int]]:
        """How many were at most each bound; the last of them, endless, is all."""
        seen = 0
        for bound, count in zip((*self.bounds, float("inf")), self._counts, strict=True):
            seen += count
            yield bound, seen
