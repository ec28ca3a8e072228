"""How much one asker may ask, and from where."""

import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final

import httptools
from msgspec import Struct

from holdfast.api.problems import Declined

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1", "holdfast"})
NAMES_KEPT: Final = 64
MOST_ASKERS: Final = 10_000


class Limits(Struct, frozen=True, kw_only=True):
    """How much is too much: requests a second of one token, jobs in all, followers of the log."""

    per_second: float = 5_000.0
    jobs: int = 5_000_000
    followers: int = 100


class Rates:
    """So many requests a second for every token, with `burst` seconds of them saved up."""

    def __init__(
        self, per_second: float, clock: Callable[[], float], *, burst_s: float = 2.0
    ) -> None:
        self._burst_s = burst_s
        self.limit(per_second)
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}

    def limit(self, per_second: float) -> None:
        self._per_second = per_second
        self._most = per_second * self._burst_s

    def spend(self, token_id: str) -> None:
        """Count one request; `Declined` says when to come again."""
        now = self._clock()
        left, since = self._left.get(token_id, (self._most, now))
        left = min(self._most, left + (now - since) * self._per_second)
        if left < 1.0:
            wait_s = max(1, math.ceil((1.0 - left) / self._per_second))
            raise Declined(
                "rate_limited",
                f"more than {self._per_second:g} requests a second; try again in {wait_s} s",
                headers={"retry-after": str(wait_s)},
            )
        if len(self._left) >= MOST_ASKERS:
            self._left.clear()
        self._left[token_id] = (left - 1.0, now)


class Door:
    """Which names this server answers to. A page in somebody's browser can be made to call any
    address; it cannot choose the Host and Origin it calls with."""

    def __init__(self, hosts: Iterable[str], *, any_host: bool) -> None:
        self._hosts = LOOPBACK.union(host.lower() for host in hosts)
        self._any_host = any_host

    def check(self, host: str, origin: str) -> None:
        if not self._any_host and _name(host) not in self._hosts:
            raise Declined(
                "forbidden",
                f"this server is not called {host[:80]!r}; start it with --host to allow the name",
            )
        if origin and origin.lower().partition("://")[2] != host.lower():
            raise Declined("forbidden", f"requests from {origin[:80]!r} are not taken")


@lru_cache(maxsize=NAMES_KEPT)
def _name(host: str) -> str:
    """The name without the port; empty where there is more in it than that."""
    if "@" in host or "/" in host:
        return ""
    try:
        name = httptools.parse_url(b"http://" + host.encode("latin-1")).host
    except (httptools.HttpParserError, UnicodeEncodeError):
        return ""
    return name.decode("latin-1").lower() if name else ""
