"""What every request may need: the coordinator, and what the server keeps in memory beside it."""

import asyncio
from collections import Counter
from typing import Final

from holdfast.api.limits import Limits
from holdfast.api.lines import EffectLine, JobLine
from holdfast.api.streams import Streams
from holdfast.api.underway import Underway
from holdfast.coordinator.output import FOLDER, OutputStore, Quota
from holdfast.coordinator.outputdesk import OutputDesk
from holdfast.coordinator.quarantine import CaseBook
from holdfast.coordinator.serving import Served
from holdfast.coordinator.tenants import Tenants

JITTER_MS: Final = 100


class Service:
    """A served coordinator while it takes requests. `leaving` is set when it stops doing so;
    `followers` counts those who are told the log as it grows."""

    def __init__(
        self, served: Served, quota: Quota | None = None, limits: Limits | None = None
    ) -> None:
        self.served = served
        self.limits = limits or Limits()
        self.leaving = asyncio.Event()
        self.answered: Counter[int] = Counter()
        self.followers = 0
        self._offset_ms = 0
        self.line = JobLine()
        # Now, while nobody waits: a million jobs are a walk.
        self.line.follow(served.coordinator.state)
        self.owed = EffectLine()
        self.owed.follow(served.coordinator.state.debts)
        self.streams = Streams(served)
        self.output = OutputDesk(OutputStore(served.log.path / FOLDER, quota))
        self.tenants = Tenants(served)
        self.operations = Underway(served)
        self.cases = CaseBook()

    def wall(self, instant: int) -> int:
        """What the wall clock showed, or will show, at an instant of log time."""
        clock = self.served.coordinator.clock
        offset_ms = clock.wall() - clock.now()
        # The clocks are read one after the other: only a real jump may move what was shown before.
        if abs(offset_ms - self._offset_ms) > JITTER_MS:
            self._offset_ms = offset_ms
        return instant + self._offset_ms

    def trouble(self) -> str:
        """Why no request should come here now; empty where it may."""
        if self.served.coordinator.failure is not None:
            return "the log has failed"
        if self.leaving.is_set() or self.served.draining:
            return "the server is leaving"
        return ""

    def leave(self) -> None:
        """Take no more work and let everybody go who only waits."""
        self.leaving.set()
        self.operations.stop()
        self.streams.close()
        self.served.drain()
