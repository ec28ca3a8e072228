"""What the agent asks of whatever delivers effects: threads here, a process of their own there.

Parcels of different places are delivered side by side, those of one place in their order. The agent
calls every method from one thread and never waits in any but `close`.
"""

from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from msgspec import Struct

from holdfast.core.owed import EFFECT
from holdfast.wire.delivery import Bounced, DebtName, Delivery, Parcel
from holdfast.wire.sinks import AnySink, FunctionSink, decode_sink
from holdfast.worker.sinks.outlet import untried

Place = tuple[str, str]
"""A kind of entry, and the sink or file system it is for."""

PLACING_MS: Final = 120_000
SLACK_MS: Final = 5_000
GIVEN_BACK: Final = "it was not tried: whoever was to deliver it leaves"


class Settled(Struct, frozen=True):
    """What became of deliveries since the last harvest. Each appears once."""

    delivered: list[DebtName]
    bounced: list[Bounced]


class Deliverer(Protocol):
    def give(self, parcels: Iterable[Parcel]) -> None:
        """Deliver these, behind what was given before for the same place."""

    def harvest(self) -> Settled:
        """Take what is settled, without waiting. What takes longer than it may is given up here."""

    def carrying(self) -> tuple[DebtName, ...]:
        """Everything that was given and not harvested."""

    def take_back(self) -> None:
        """What has not begun comes back untried, with the next harvest."""

    def next_due(self) -> int:
        """When `harvest` may have something to give up; zero where nothing is carried."""

    def close(self, grace_ms: int) -> Settled:
        """Wait so long for what has begun, then give up what is left. The last harvest."""


class Load:
    """What was given for one place and is not settled, in its order. One at a time is under way,
    or the whole beginning of it; since when counts from the last sign of progress."""

    def __init__(self, now_ms: int) -> None:
        self.deliveries: dict[DebtName, Delivery] = {}
        self.since_ms = now_ms
        self.limit_ms = 0

    @property
    def due_ms(self) -> int:
        return self.since_ms + self.limit_ms


class InHand:
    """Everything that somebody carries, place by place."""

    def __init__(self) -> None:
        self._loads: dict[Place, Load] = {}

    def take(self, parcel: Parcel, now_ms: int) -> None:
        place = place_of(parcel)
        load = self._loads.get(place)
        if load is None:
            load = self._loads[place] = Load(now_ms)
        load.limit_ms = limit_ms(parcel)
        load.deliveries.update({delivery.name: delivery for delivery in parcel.deliveries})

    def settle(self, place: Place, name: DebtName, now_ms: int) -> bool:
        """Whether it was carried; it is not any more."""
        load = self._loads.get(place)
        if load is None or load.deliveries.pop(name, None) is None:
            return False
        load.since_ms = now_ms
        if not load.deliveries:
            del self._loads[place]
        return True

    def go_on(self, place: Place, now_ms: int) -> None:
        """There was a sign of progress."""
        load = self._loads.get(place)
        if load is not None:
            load.since_ms = now_ms

    def drop(self, place: Place) -> list[Delivery]:
        """Everything for a place: nobody carries it any more. The first was under way."""
        load = self._loads.pop(place, None)
        return [] if load is None else list(load.deliveries.values())

    def places(self) -> list[Place]:
        return list(self._loads)

    def overdue(self, now_ms: int) -> list[tuple[Place, int]]:
        """Places where nothing went on for too long, and for how long it may."""
        late = [(place, load) for place, load in self._loads.items() if now_ms >= load.due_ms]
        return [(place, load.limit_ms) for place, load in late]

    def next_due(self) -> int:
        return min((load.due_ms for load in self._loads.values()), default=0)

    def names(self) -> Iterator[DebtName]:
        for load in self._loads.values():
            yield from load.deliveries

    def __bool__(self) -> bool:
        return bool(self._loads)


def place_of(parcel: Parcel) -> Place:
    return parcel.kind, parcel.place


def limit_ms(parcel: Parcel) -> int:
    """How long there may be no sign of progress. A function has no clock but this one; the others
    mind their own, and this is for when they cannot."""
    if parcel.kind != EFFECT:
        return PLACING_MS
    sink = sink_in(parcel)
    if isinstance(sink, FunctionSink):
        return sink.timeout_ms
    return 2 * sink.timeout_ms + SLACK_MS


def sink_in(parcel: Parcel) -> AnySink:
    return decode_sink(parcel.sink)


def given_up(deliveries: list[Delivery], why: str, rest: str) -> list[Bounced]:
    """The first was under way and has failed; those behind it were not tried."""
    first = [Bounced(delivery.name, why) for delivery in deliveries[:1]]
    return first + [untried(delivery, rest) for delivery in deliveries[1:]]
