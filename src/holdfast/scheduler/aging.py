"""What waiting adds to a priority, so that nothing starves: a step for every so long a row got
nothing. A row that is served begins again, so that a long job does not overtake short ones that
are more urgent."""

from holdfast.core.ids import Instant
from holdfast.core.ready import Row
from holdfast.core.shape import Shape


class Aging:
    """Remembers since when each row got nothing. Safe to lose: a row then counts from when its
    oldest job last changed. `step_ms` zero: waiting adds nothing."""

    def __init__(self, step_ms: int) -> None:
        self.step_ms = step_ms
        self._since: dict[tuple[int, Shape], Instant] = {}

    def rank_of(self, row: Row, now: Instant) -> int:
        return row.priority + self.steps(row, now)

    def steps(self, row: Row, now: Instant) -> int:
        """What waiting has added so far. A job that is fed all the time changes all the time: what
        counts is when its row was first seen to wait."""
        head = row.head
        if not self.step_ms or head is None:
            return 0
        key = (row.priority, row.shape)
        since = self._since.get(key)
        if since is None:
            since = self._since[key] = max(head.updated_at, head.not_before)
        return max(0, now - since) // self.step_ms

    def note(self, served: list[Row], now: Instant) -> None:
        """These rows got something."""
        for row in served:
            self._since[(row.priority, row.shape)] = now

    def forget(self, rows: list[Row]) -> None:
        """Let go of rows that are no more: who comes anew begins to wait."""
        known = {(row.priority, row.shape) for row in rows}
        if len(known) < len(self._since) or not known.issuperset(self._since):
            self._since = {key: at for key, at in self._since.items() if key in known}
