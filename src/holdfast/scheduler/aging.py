"""What waiting adds to a priority, so that nothing starves: a step for every so long a row got
nothing. A row that is served begins again, so that a long job does not overtake short ones that
are more urgent."""

from holdfast.core.ids import NEVER, Instant
from holdfast.core.ready import Row
from holdfast.core.shape import Shape

AGING_MS = 600_000
"""How long a row waits for one step, unless the operator says so. Zero: waiting adds nothing."""

SLACK = 256


class Aging:
    """Remembers when each row last got something. Safe to lose: a row then counts from when its
    oldest job last changed."""

    def __init__(self, step_ms: int = AGING_MS) -> None:
        self.step_ms = step_ms
        self._served: dict[tuple[int, Shape], Instant] = {}

    def rank_of(self, row: Row, now: Instant) -> int:
        return row.priority + self.steps(row, now)

    def steps(self, row: Row, now: Instant) -> int:
        """What waiting has added so far."""
        head = row.head
        if not self.step_ms or head is None:
            return 0
        served = self._served.get((row.priority, row.shape), NEVER)
        since = max(head.updated_at, head.not_before, served)
        return max(0, now - since) // self.step_ms

    def note(self, served: list[Row], now: Instant) -> None:
        """These rows got something."""
        for row in served:
            self._served[(row.priority, row.shape)] = now

    def forget(self, rows: list[Row]) -> None:
        """Let go of rows that are no more."""
        if len(self._served) > 2 * len(rows) + SLACK:
            known = {(row.priority, row.shape) for row in rows}
            kept = self._served.items()
            self._served = {key: at for key, at in kept if key in known}
