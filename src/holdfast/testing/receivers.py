"""The outside world, and a deliverer that takes the time the dice give it to reach that world."""

from collections.abc import Iterable
from random import Random

from msgspec import Struct

from holdfast.core.owed import FILE
from holdfast.wire.delivery import Bounced, DebtName, Delivery, Parcel
from holdfast.worker.delivering import GIVEN_BACK, Settled
from holdfast.worker.sinks.outlet import untried

WAITS = "it waits for an earlier one with the same key"


class World:
    """What has arrived anywhere, in the order it did: for each place and key the idempotency keys,
    each as often as it came."""

    def __init__(self) -> None:
        self.arrived: dict[tuple[str, str], list[str]] = {}

    def receive(self, place: str, delivery: Delivery) -> None:
        self.arrived.setdefault((place, delivery.key), []).append(delivery.idempotency)

    def times(self) -> dict[str, int]:
        """How often each has come."""
        times: dict[str, int] = {}
        for keys in self.arrived.values():
            for key in keys:
                times[key] = times.get(key, 0) + 1
        return times


class UnderWay(Struct):
    parcel: Parcel
    delivery: Delivery
    until: int = 0


class SteppedDeliverer:
    """One place after another, each in its order. `failing` is the share of tries that fail before
    anything has arrived. `home` is the file system that is its own."""

    def __init__(
        self, world: World, dice: Random, *, home: str = "", failing: float = 0.0, longest_ms: int
    ) -> None:
        self._world = world
        self._dice = dice
        self._home = home
        self._failing = failing
        self._longest_ms = longest_ms
        self._waiting: dict[str, list[UnderWay]] = {}
        self._settled = Settled([], [])

    def be_calm(self) -> None:
        """From now on every try goes well."""
        self._failing = 0.0

    def give(self, parcels: Iterable[Parcel]) -> None:
        for parcel in parcels:
            line = self._waiting.setdefault(parcel.place, [])
            line.extend(UnderWay(parcel, delivery) for delivery in parcel.deliveries)

    def advance(self, now_ms: int) -> None:
        """Let time pass: what is over has arrived, or failed."""
        for line in self._waiting.values():
            while line:
                first = line[0]
                if not first.until:
                    first.until = now_ms + self._dice.randrange(1, self._longest_ms)
                if first.until > now_ms:
                    break
                line.pop(0)
                self._end(first, line)

    def _end(self, ended: UnderWay, line: list[UnderWay]) -> None:
        delivery, parcel = ended.delivery, ended.parcel
        if parcel.kind == FILE and parcel.place != self._home:
            told = Bounced(delivery.name, "no such folder", is_elsewhere=True)
            self._settled.bounced.append(told)
        elif self._dice.random() < self._failing:
            self._settled.bounced.append(Bounced(delivery.name, "no answer"))
        else:
            self._world.receive(parcel.place, delivery)
            self._settled.delivered.append(delivery.name)
            return
        if delivery.key:
            behind = [other for other in line if other.delivery.key == delivery.key]
            self._settled.bounced.extend(untried(other.delivery, WAITS) for other in behind)
            line[:] = [other for other in line if other.delivery.key != delivery.key]

    def harvest(self) -> Settled:
        settled, self._settled = self._settled, Settled([], [])
        return settled

    def carrying(self) -> tuple[DebtName, ...]:
        waiting = [each.delivery.name for line in self._waiting.values() for each in line]
        settled = [*self._settled.delivered, *(bounced.name for bounced in self._settled.bounced)]
        return (*waiting, *settled)

    def take_back(self) -> None:
        for line in self._waiting.values():
            self._settled.bounced.extend(
                untried(each.delivery, GIVEN_BACK) for each in line if not each.until
            )
            line[:] = [each for each in line if each.until]

    def next_due(self) -> int:
        lines = [line for line in self._waiting.values() if line]
        return min((max(line[0].until, 1) for line in lines), default=0)

    def close(self, grace_ms: int) -> Settled:
        for line in self._waiting.values():
            self._settled.bounced.extend(untried(each.delivery, GIVEN_BACK) for each in line)
            line.clear()
        return self.harvest()
