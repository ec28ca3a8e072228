"""How many tasks may start in a span of time: a bucket for each bound, filled evenly."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from holdfast.core.ids import NEVER, Instant
from holdfast.scheduler.ledger import Name


class Rate(Struct, frozen=True):
    """So many starts in so many milliseconds."""

    starts: int
    per_ms: int


def filled(rate: Rate, tokens: float, ms: int) -> float:
    """What a bucket holds after so long in which nothing started."""
    return min(float(rate.starts), tokens + max(0, ms) * rate.starts / rate.per_ms)


class _Bucket(Struct):
    rate: Rate
    tokens: float
    at: Instant


class Rates:
    """Safe to lose: a bucket begins empty, so that a restart never lets more start than asked.
    It holds at most what one span brings. `touched` are those that began or gave something; what
    they hold later follows from the passing of time alone."""

    def __init__(self) -> None:
        self.touched: set[Name] = set()
        self._buckets: dict[Name, _Bucket] = {}

    def tokens(self, rates: Mapping[Name, Rate], now: Instant) -> dict[Name, int]:
        """How many of each may start now."""
        for name in [name for name in self._buckets if name not in rates]:
            del self._buckets[name]
        for name, rate in rates.items():
            bucket = self._buckets.get(name)
            if bucket is None:
                self._buckets[name] = _Bucket(rate, 0.0, now)
                self.touched.add(name)
                continue
            bucket.tokens = filled(rate, bucket.tokens, now - bucket.at)
            bucket.rate, bucket.at = rate, now
        return {name: int(bucket.tokens) for name, bucket in self._buckets.items()}

    def spend(self, names: Iterable[Name], count: int) -> None:
        for name in names:
            bucket = self._buckets.get(name)
            if bucket is not None:
                bucket.tokens -= count
                self.touched.add(name)

    def levels(self, names: Iterable[Name]) -> dict[Name, tuple[float, Instant]]:
        """What each of these holds, and since when; those that are no more are left out."""
        found = [(name, self._buckets[name]) for name in names if name in self._buckets]
        return {name: (bucket.tokens, bucket.at) for name, bucket in found}

    def next_token(self, now: Instant) -> Instant:
        """When one more may start where none may now; never, where that is nowhere."""
        waits = [wait for wait in map(_wait_ms, self._buckets.values()) if wait]
        return Instant(now + min(waits)) if waits else NEVER

    def wait_ms(self, name: Name) -> int | None:
        """How long until one more may start, as of when tokens were counted last."""
        bucket = self._buckets.get(name)
        return None if bucket is None else _wait_ms(bucket)


def _wait_ms(bucket: _Bucket) -> int:
    if bucket.tokens >= 1.0:
        return 0
    return int((1.0 - bucket.tokens) * bucket.rate.per_ms / bucket.rate.starts) + 1
