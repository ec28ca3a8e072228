"""Sinks of a rehearsal, and whoever delivers to them."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from holdfast.core.ids import JobId
from holdfast.core.owed import FILE
from holdfast.wire.delivery import Bounced, DebtName, Delivery, Parcel
from holdfast.wire.sinks import FunctionSink
from holdfast.worker.delivering import GIVEN_BACK, InHand, Place, Settled, place_of, sink_in
from holdfast.worker.placing import place_files
from holdfast.worker.sinks.function import FunctionOutlet, Functions
from holdfast.worker.sinks.outlet import Effect, untried

Outcome = tuple[Delivery, Bounced | None]


class RecordingSink:
    """A sink that remembers everything it was called with, in order, repeats among it.

    `function` is called with each effect, as a sink of `open` is; where it raises, the effect is
    tried again.
    """

    def __init__(self, name: str, function: Callable[[Effect], Any] | None) -> None:
        self.name = name
        self.calls: list[Effect] = []
        self.effects: dict[str, Effect] = {}
        # How often it was told again what had happened already.
        self.repeats = 0
        self._function = function

    def __call__(self, effect: Effect) -> Any:
        self.calls.append(effect)
        self.repeats += effect.id in self.effects
        result = None if self._function is None else self._function(effect)
        self.effects.setdefault(effect.id, effect)
        return result

    @property
    def bodies(self) -> list[Any]:
        """What has happened, each effect once: a real sink knows repeats by their ids."""
        return [effect.body for effect in self.effects.values()]

    def __repr__(self) -> str:
        return f"<sink {self.name}: {len(self.effects)} effects, {len(self.calls)} calls>"


class RehearsedDeliverer:
    """See `holdfast.worker.delivering.Deliverer`. It delivers when it is driven, one at a time;
    `reach` is told when a sink has something that nobody else knows of."""

    def __init__(
        self,
        clock_ms: Callable[[], int],
        functions: Functions,
        own_place: str,
        reach: Callable[[JobId], None],
    ) -> None:
        self._clock_ms = clock_ms
        self._functions = functions
        self._own_place = own_place
        self._reach = reach
        self._in_hand = InHand()
        self._parcels: deque[Parcel] = deque()
        self._under_way: tuple[Place, Iterator[Outcome]] | None = None
        self._unsaid: tuple[Place, Outcome] | None = None
        self._settled = Settled([], [])

    def advance(self) -> None:
        while (told := self._unsaid or self._find()) is not None:
            self._unsaid = None
            place, (delivery, bounced) = told
            if not self._in_hand.settle(place, delivery.name, self._clock_ms()):
                continue
            if bounced is None:
                self._settled.delivered.append(delivery.name)
            else:
                self._settled.bounced.append(bounced)

    def _find(self) -> tuple[Place, Outcome] | None:
        """Deliver the next one; what came of it is unsaid until somebody hears it."""
        while self._under_way is not None or self._parcels:
            if self._under_way is None:
                parcel = self._parcels.popleft()
                self._under_way = (place_of(parcel), self._outcomes(parcel))
            place, outcomes = self._under_way
            outcome = next(outcomes, None)
            if outcome is None:
                self._under_way = None
                continue
            self._unsaid = (place, outcome)
            if outcome[1] is None:
                self._reach(outcome[0].name.job_id)
            return self._unsaid
        return None

    def _outcomes(self, parcel: Parcel) -> Iterator[Outcome]:
        if parcel.kind == FILE:
            return iter(place_files(parcel, is_own=parcel.place == self._own_place))
        sink = sink_in(parcel)
        if not isinstance(sink, FunctionSink):
            raise TypeError(f"a rehearsal has no sink of the kind {type(sink).__name__}")
        return FunctionOutlet(sink, self._functions).deliver(parcel)

    # What the agent asks.

    def give(self, parcels: Iterable[Parcel]) -> None:
        for parcel in parcels:
            self._in_hand.take(parcel, self._clock_ms())
            self._parcels.append(parcel)

    def harvest(self) -> Settled:
        settled, self._settled = self._settled, Settled([], [])
        return settled

    def carrying(self) -> tuple[DebtName, ...]:
        return tuple(self._in_hand.names())

    def take_back(self) -> None:
        """Whatever was given is delivered in the same instant, unless its worker is struck."""

    def next_due(self) -> int:
        return self._in_hand.next_due()

    def close(self, grace_ms: int) -> Settled:
        for place in self._in_hand.places():
            left = self._in_hand.drop(place)
            self._settled.bounced.extend(untried(delivery, GIVEN_BACK) for delivery in left)
        return self.harvest()
