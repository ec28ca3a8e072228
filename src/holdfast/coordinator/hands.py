"""What each worker has in hand of what commits owe. Safe to lose: whoever carries something says
so in its next exchange, and what nobody carries is dealt out again."""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from msgspec import Struct

from holdfast.coordinator.seats import Worker
from holdfast.core.ids import WorkerId
from holdfast.core.owed import DebtName

ENTRIES_MOST: Final = 1_000
BYTES_MOST: Final = 4 * 1024 * 1024
"""No worker has more than this in hand."""

Key = tuple[WorkerId, int]
"""One incarnation of a worker."""


class Carried(Struct, gc=False):
    """An entry in somebody's hands. `number` is the reply it went with: one that has seen a later
    reply and does not name it has dropped it."""

    number: int
    size: int


class Hands:
    """The hands of every worker that carries anything."""

    def __init__(self) -> None:
        self._carried: dict[Key, dict[DebtName, Carried]] = {}
        self._bytes: dict[Key, int] = {}

    def __iter__(self) -> Iterator[Key]:
        return iter(list(self._carried))

    def __contains__(self, key: Key) -> bool:
        return key in self._carried

    def is_full(self, key: Key, size: int = 0) -> bool:
        """Whether there is no room, for one more of this size. One alone may be of any size."""
        carried = self._carried.get(key)
        if not carried:
            return False
        return len(carried) >= ENTRIES_MOST or self._bytes[key] + size > BYTES_MOST

    def give(self, worker: Worker, name: DebtName, size: int, number: int) -> None:
        key = key_of(worker)
        self._carried.setdefault(key, {})[name] = Carried(number, size)
        self._bytes[key] = self._bytes.get(key, 0) + size

    def settle(self, key: Key, names: Iterable[DebtName]) -> list[DebtName]:
        """These are out of its hands; those of them that were in them."""
        carried = self._carried.get(key)
        if carried is None:
            return []
        settled: list[DebtName] = []
        for name in names:
            gone = carried.pop(name, None)
            if gone is not None:
                self._bytes[key] -= gone.size
                settled.append(name)
        if not carried:
            self.empty(key)
        return settled

    def dropped(self, key: Key, seen: int, carrying: Collection[DebtName]) -> list[DebtName]:
        """What this worker was given, by a reply that it has seen, and does not carry."""
        carried = self._carried.get(key, {})
        return [
            name for name, it in carried.items() if it.number <= seen and name not in carrying
        ]

    def empty(self, key: Key) -> list[DebtName]:
        """Everything it had in hand: it has nothing any more."""
        self._bytes.pop(key, None)
        return list(self._carried.pop(key, ()))

    def names(self) -> Iterator[DebtName]:
        """Everything that is in anybody's hands."""
        for carried in self._carried.values():
            yield from carried

    def holder_of(self, name: DebtName) -> WorkerId | None:
        """Who has it in hand."""
        return next((key[0] for key, carried in self._carried.items() if name in carried), None)


def key_of(worker: Worker) -> Key:
    return worker.worker, worker.incarnation
