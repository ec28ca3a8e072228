"""A deliverer that delivers when a test says so."""

from collections.abc import Iterable

from holdfast.wire.delivery import Bounced, DebtName, Parcel
from holdfast.worker.delivering import GIVEN_BACK, InHand, Settled, place_of
from holdfast.worker.sinks.outlet import untried


class Carrier:
    """See `holdfast.worker.delivering.Deliverer`. `parcels` are all that were given; nothing has
    begun before it is `settle`d."""

    def __init__(self) -> None:
        self.parcels: list[Parcel] = []
        self._in_hand = InHand()
        self._settled = Settled([], [])

    def settle(self, number: int, error: str = "", *, is_final: bool = False) -> None:
        """The delivery of task `number` went well, or failed with this."""
        (name,) = [name for name in self._in_hand.names() if name.index == number]
        place = next(
            place_of(parcel)
            for parcel in self.parcels
            if any(delivery.name == name for delivery in parcel.deliveries)
        )
        self._in_hand.settle(place, name, 0)
        if error:
            self._settled.bounced.append(Bounced(name, error, is_final=is_final))
        else:
            self._settled.delivered.append(name)

    def give(self, parcels: Iterable[Parcel]) -> None:
        for parcel in parcels:
            self.parcels.append(parcel)
            self._in_hand.take(parcel, 0)

    def harvest(self) -> Settled:
        settled, self._settled = self._settled, Settled([], [])
        return settled

    def carrying(self) -> tuple[DebtName, ...]:
        return tuple(self._in_hand.names())

    def take_back(self) -> None:
        for place in self._in_hand.places():
            left = self._in_hand.drop(place)
            self._settled.bounced.extend(untried(delivery, GIVEN_BACK) for delivery in left)

    def next_due(self) -> int:
        return self._in_hand.next_due()

    def close(self, grace_ms: int) -> Settled:
        self.take_back()
        return self.harvest()
