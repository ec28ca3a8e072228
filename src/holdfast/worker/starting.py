"""Starts that must be durable before they happen: told first, and begun when that was answered."""

from collections.abc import Iterator

from msgspec import structs

from holdfast.core.ids import Index, LeaseId
from holdfast.wire.exchange import Released, Run, Started


class Starting:
    """Runs that wait until their start is durable, by lease, and the exchange that told it; zero
    before any did."""

    def __init__(self) -> None:
        self._waiting: dict[LeaseId, tuple[Run, int]] = {}

    def add(self, run: Run) -> None:
        for item in run.items:
            self._waiting[item.lease_id] = (run, 0)

    def tell(self, number: int) -> list[Started]:
        """Those that were not told yet, to be told in this exchange."""
        started: list[Started] = []
        for lease_id, (run, told) in self._waiting.items():
            if not told:
                self._waiting[lease_id] = (run, number)
                started.append(Started(run.job_id, _index(run, lease_id), lease_id, 0))
        return started

    def durable(self, answered: int) -> Iterator[Run]:
        """A start that was told in an answered exchange is durable: now it may run."""
        for lease_id, (run, told) in list(self._waiting.items()):
            if told and told <= answered:
                del self._waiting[lease_id]
                mine = tuple(item for item in run.items if item.lease_id == lease_id)
                yield structs.replace(run, items=mine)

    def give_back(self) -> list[Released]:
        """Whether told or not, they have not begun."""
        waiting, self._waiting = self._waiting, {}
        return [
            Released(run.job_id, _index(run, lease_id), lease_id, False)
            for lease_id, (run, _) in waiting.items()
        ]

    def drop(self, lease_id: LeaseId) -> bool:
        """It has lost its right to begin. False where it does not wait here."""
        return self._waiting.pop(lease_id, None) is not None

    def leases(self) -> frozenset[LeaseId]:
        return frozenset(self._waiting)


def _index(run: Run, lease_id: LeaseId) -> Index:
    return next(item.index for item in run.items if item.lease_id == lease_id)
