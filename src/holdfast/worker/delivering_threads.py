"""Deliveries in threads of this program. Fast; what hangs is given up, and cannot be ended."""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from holdfast.wire.delivery import Bounced, DebtName, Parcel
from holdfast.worker.courier import Courier, Word
from holdfast.worker.delivering import GIVEN_BACK, InHand, Place, Settled, given_up, place_of
from holdfast.worker.sinks.function import Functions
from holdfast.worker.sinks.outlet import untried

HUNG_MAX: Final = 4
"""So many threads of one place may hang before nothing more is begun there."""


class ThreadDeliverer:
    """See `holdfast.worker.delivering.Deliverer` for what each method owes. `functions` are those
    of this program that sinks call, by their targets."""

    def __init__(
        self,
        wake: Callable[[], None],
        clock_ms: Callable[[], int],
        *,
        functions: Functions | None = None,
        own_places: tuple[str, ...] = (),
    ) -> None:
        self._wake = wake
        self._clock_ms = clock_ms
        self._functions = functions or {}
        self._own_places = own_places
        self._in_hand = InHand()
        self._couriers: dict[Place, Courier] = {}
        self._hung: dict[Place, list[Courier]] = {}
        self._news = threading.Event()
        # What couriers said, each with who said it: one that was given up is not listened to.
        self._said: deque[tuple[Courier, Place, DebtName, Bounced | None]] = deque()
        self._given_up: list[Bounced] = []
        self._is_rung = False

    def give(self, parcels: Iterable[Parcel]) -> None:
        for parcel in parcels:
            place = place_of(parcel)
            if self._hangs(place) >= HUNG_MAX:
                why = f"{HUNG_MAX} deliveries hang there; they end with this program"
                self._given_up += given_up(list(parcel.deliveries), why, why)
                self._ring()
                continue
            self._in_hand.take(parcel, self._clock_ms())
            if place not in self._couriers:
                self._couriers[place] = self._courier(place)
            self._couriers[place].give(parcel)

    def harvest(self) -> Settled:
        self._is_rung = False
        self._news.clear()
        settled = Settled([], self._given_up)
        self._given_up = []
        now_ms = self._clock_ms()
        for _ in range(len(self._said)):
            courier, place, name, bounced = self._said.popleft()
            if self._couriers.get(place) is not courier:
                continue
            if not self._in_hand.settle(place, name, now_ms):
                continue
            if bounced is None:
                settled.delivered.append(name)
            else:
                settled.bounced.append(bounced)
        for place, limit_ms in self._in_hand.overdue(now_ms):
            settled.bounced.extend(self._give_up(place, limit_ms))
        return settled

    def carrying(self) -> tuple[DebtName, ...]:
        return tuple(self._in_hand.names())

    def take_back(self) -> None:
        for courier in self._couriers.values():
            courier.stop()

    def next_due(self) -> int:
        return self._in_hand.next_due()

    def close(self, grace_ms: int) -> Settled:
        for courier in self._couriers.values():
            courier.leave()
        give_up_at = self._clock_ms() + grace_ms
        last = self.harvest()
        while self._in_hand and (left_ms := give_up_at - self._clock_ms()) > 0:
            self._news.wait(left_ms / 1_000)
            more = self.harvest()
            last = Settled(last.delivered + more.delivered, last.bounced + more.bounced)
        for place in self._in_hand.places():
            left = self._in_hand.drop(place)
            last.bounced.extend(untried(delivery, GIVEN_BACK) for delivery in left)
        return last

    def _courier(self, place: Place) -> Courier:
        def tell(where: Place, words: list[Word]) -> None:
            self._said.extend((courier, where, *word) for word in words)
            self._ring()

        courier = Courier(place, tell, self._go_on, self._functions, self._own_places)
        return courier

    def _go_on(self, place: Place) -> None:
        self._in_hand.go_on(place, self._clock_ms())

    def _give_up(self, place: Place, limit_ms: int) -> list[Bounced]:
        courier = self._couriers.pop(place)
        courier.leave()
        self._hung.setdefault(place, []).append(courier)
        why = f"it took longer than {limit_ms / 1_000:g} s, and may still be under way"
        rest = "it was not tried: an earlier one took too long"
        return given_up(self._in_hand.drop(place), why, rest)

    def _hangs(self, place: Place) -> int:
        """How many threads of a place were given up and have not come back."""
        hung = [courier for courier in self._hung.pop(place, ()) if courier.is_alive()]
        if hung:
            self._hung[place] = hung
        return len(hung)

    def _ring(self) -> None:
        self._news.set()
        if not self._is_rung:
            self._is_rung = True
            self._wake()
