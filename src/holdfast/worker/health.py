"""What the answers to a probe come to. Pure: time is told, and nobody is asked here.

A probe that has never been content is tried more often than its period says, so that whoever waits
for a replica to come up hears of it soon. Only one failure a period counts all the same: a replica
has as much time to come up as its period and its failures allow.
"""

from typing import Final

from holdfast.wire.service import TCP, Probe

EAGER_FIRST_MS: Final = 50
EAGER_MOST_MS: Final = 1_000

PORT_PROBE: Final = Probe(kind=TCP)
"""How a replica is asked that has a port and says nothing about how it is ready."""


class Tally:
    """Answers to one probe, in a row. `is_eager`: tried early until it is content for the first
    time. `is_well` None: not decided yet."""

    def __init__(self, probe: Probe, now_ms: int, *, is_eager: bool) -> None:
        self.probe = probe
        self.is_well: bool | None = None
        self._pause_ms = EAGER_FIRST_MS if is_eager else probe.period_ms
        self._is_eager = is_eager
        self._asked_ms = now_ms
        self._counts_from = now_ms + probe.period_ms if is_eager else now_ms
        self._content = self._failed = 0

    def due_ms(self) -> int:
        """When it is asked next."""
        return self._asked_ms + min(self._pause_ms, self.probe.period_ms)

    def heard(self, *, is_content: bool, asked_ms: int, now_ms: int) -> None:
        """An answer, or that none came in time, to what was asked at `asked_ms`."""
        self._asked_ms = asked_ms
        if is_content:
            self._is_eager, self._pause_ms = False, self.probe.period_ms
            self._content, self._failed = self._content + 1, 0
            if self._content >= self.probe.successes:
                self.is_well = True
            return
        self._content = 0
        if self._is_eager:
            self._pause_ms = min(self._pause_ms * 2, EAGER_MOST_MS)
            if now_ms < self._counts_from:
                return
            self._counts_from += self.probe.period_ms
        self._failed += 1
        if self._failed >= self.probe.failures:
            self.is_well = False
