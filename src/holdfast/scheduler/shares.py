"""How much of the whole each namespace holds: the largest of its parts in anything that is counted,
slots included, divided by its weight. Whoever holds least goes first among equals."""

from collections.abc import Iterable, Mapping

from holdfast.core.shape import Shape
from holdfast.scheduler.seats import Amounts, Seat

ONE = 1


class Shares:
    """`held` says how many slots are held for each shape, on every worker, parked or not."""

    def __init__(
        self,
        seats: Iterable[Seat],
        held: Mapping[Shape, int],
        weights: Mapping[str, int],
    ) -> None:
        self._total = Amounts()
        self._slots = 0
        for seat in seats:
            total = seat.total
            self._slots += len(seat.slots)
            self._total.cpus_milli += total.cpus_milli
            self._total.memory_bytes += total.memory_bytes
            self._total.gpus += total.gpus
            for name, amount in total.named.items():
                self._total.named[name] = self._total.named.get(name, 0) + amount
        self._weights = weights
        self._held: dict[str, Amounts] = {}
        self._held_slots: dict[str, int] = {}
        for shape, count in held.items():
            self.note(shape, count)

    def note(self, shape: Shape, count: int) -> None:
        """So many more slots are held for this shape."""
        held = self._held.get(shape.namespace)
        if held is None:
            held = self._held[shape.namespace] = Amounts()
        held.add(shape, count)
        self._held_slots[shape.namespace] = self._held_slots.get(shape.namespace, 0) + count

    def of(self, namespace: str) -> float:
        held = self._held.get(namespace)
        if held is None:
            return 0.0
        return self._dominant(held, self._held_slots[namespace]) / self._weight(namespace)

    def of_one(self, shape: Shape) -> float:
        """What one more task adds."""
        one = Amounts()
        one.add(shape)
        return self._dominant(one, 1) / self._weight(shape.namespace)

    def _weight(self, namespace: str) -> int:
        return max(self._weights.get(namespace, ONE), ONE)

    def _dominant(self, held: Amounts, slots: int) -> float:
        total = self._total
        largest = max(
            _part(slots, self._slots),
            _part(held.cpus_milli, total.cpus_milli),
            _part(held.memory_bytes, total.memory_bytes),
            _part(held.gpus, total.gpus),
        )
        for name, amount in held.named.items():
            largest = max(largest, _part(amount, total.named.get(name, 0)))
        return largest


def _part(amount: int, total: int) -> float:
    return amount / total if total else 0.0
