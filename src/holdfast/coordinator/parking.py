"""How long parked exchanges wait: one look at the one that has waited longest, in every turn.

A timer for each would be set and cancelled far more often than one ever rings.
"""

from collections import OrderedDict

from holdfast.coordinator.exchanges import Exchanges
from holdfast.core.ids import NEVER, Instant, WorkerId
from holdfast.wire.exchange import Exchange


class Parking:
    """A hook of the engine that answers with nothing whoever has waited long enough. The last
    exchange of each worker is in it, answered or not, in the order in which they came: all wait
    equally long, until `clear` says that those that come next wait otherwise."""

    def __init__(self, exchanges: Exchanges) -> None:
        self._exchanges = exchanges
        self._waiting: OrderedDict[WorkerId, tuple[Instant, Exchange]] = OrderedDict()

    def add(self, exchange: Exchange, now: Instant, park_s: float) -> None:
        due = Instant(now + int(park_s * 1_000))
        self._waiting[exchange.worker] = (due, exchange)
        self._waiting.move_to_end(exchange.worker)

    def clear(self) -> None:
        self._waiting.clear()

    def step(self, now: Instant) -> None:
        waiting = self._waiting
        while waiting:
            worker = next(iter(waiting))
            due, exchange = waiting[worker]
            if now < due:
                return
            del waiting[worker]
            self._exchanges.unpark(exchange)

    def next_due(self) -> Instant:
        return next(iter(self._waiting.values()))[0] if self._waiting else NEVER
