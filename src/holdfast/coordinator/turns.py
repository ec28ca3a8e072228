"""One turn of the coordinator: let time and workers act, hand out what is durable, write the rest.

Whoever owns the thread (an engine of its own, an event loop) calls `take` after whatever happened
and comes back when `patience` is over. There is never more than one unsynced frame.
"""

from typing import Protocol

from holdfast.coordinator.coordinator import Batch, Coordinator
from holdfast.core.ids import Instant, Position


class Hook(Protocol):
    """Something that acts in every turn: a local worker, the tick, the rounds."""

    def step(self, now: Instant) -> None: ...

    def next_due(self) -> Instant:
        """When it wants to be stepped again at the latest; zero for never."""


class WriteFrame(Protocol):
    def __call__(self, batch: Batch) -> None: ...


class Turns:
    def __init__(self, coordinator: Coordinator, write: WriteFrame) -> None:
        self.coordinator = coordinator
        self.hooks: list[Hook] = []
        self._write = write
        self._writing = False

    def take(self) -> None:
        coordinator = self.coordinator
        if coordinator.failure is not None:
            return
        coordinator.excuse_absence()
        now = coordinator.now()
        for hook in self.hooks:
            hook.step(now)
        coordinator.settle()
        if not self._writing:
            batch = coordinator.take_batch()
            if batch is not None:
                self._writing = True
                self._write(batch)

    def synced(self, last: Position) -> None:
        self._writing = False
        self.coordinator.became_durable(last)

    def fail(self, failure: Exception) -> None:
        self._writing = False
        if self.coordinator.failure is None:
            self.coordinator.fail(failure)

    def patience_s(self) -> float | None:
        """How long nothing needs doing; None for as long as nobody calls."""
        if self.coordinator.failure is not None:
            return None
        dues = [due for due in (hook.next_due() for hook in self.hooks) if due]
        if not dues:
            return None
        return max(0.0, (min(dues) - self.coordinator.now()) / 1_000)

    def has_written_all(self) -> bool:
        return not self._writing and self.coordinator.has_nothing_pending()
