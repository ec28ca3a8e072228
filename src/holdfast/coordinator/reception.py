"""Where exchanges of workers come in and their answers go out, each to whoever asked last."""

from collections.abc import Callable

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.exchanges import Exchanges
from holdfast.coordinator.parking import Parking
from holdfast.coordinator.ports import Faults
from holdfast.coordinator.promise import Listener
from holdfast.core.ids import WorkerId
from holdfast.wire.exchange import Exchange, Reply, is_empty


class Left(Exception):
    """Whoever asked has gone away."""

    def __init__(self, message: Exchange) -> None:
        super().__init__(f"who brought exchange {message.number} of {message.worker} has left")


class Superseded(Exception):
    """A later exchange of the same worker, or the same again, was taken meanwhile."""

    def __init__(self, message: Exchange) -> None:
        super().__init__(f"exchange {message.number} of {message.worker} was sent again, or more")


class Reception:
    """`soon` has the coordinator take a turn."""

    def __init__(
        self,
        coordinator: Coordinator,
        exchanges: Exchanges,
        parking: Parking,
        soon: Callable[[], None],
        faults: Faults,
    ) -> None:
        self._coordinator = coordinator
        self._exchanges = exchanges
        self._parking = parking
        self._soon = soon
        self._faults = faults
        self._asking: dict[WorkerId, tuple[int, int, Listener[Reply]]] = {}

    def take(self, message: Exchange, park_s: float, tell: Listener[Reply]) -> None:
        """Have a worker told the answer: at once where there is something to say, else parked
        until there is, or until `park_s` have passed. It is told `Superseded` where the worker has
        sent the same again, and `Left` where nobody waits for it any more. `Superseded` is raised
        where it has sent more already."""
        worker = message.worker
        here = (message.incarnation, message.number)
        known = self._exchanges.workers.get(worker)
        if known is not None and known.incarnation == here[0] and here[1] < known.number:
            raise Superseded(message)
        former = self._asking.get(worker)
        if former is not None and former[:2] == here:
            # A repeat takes the answer from whoever asked the same before.
            former[2](Superseded(message))
        asking = (*here, tell)

        def send(reply: Reply) -> None:
            if self._asking.get(worker) is asking:
                del self._asking[worker]
            self._faults.reach("exchange.before_reply")
            tell(reply)

        self._exchanges.take(message, send)
        self._faults.reach("exchange.after_taking")
        self._asking[worker] = asking
        if is_empty(message):
            self._parking.add(message, self._coordinator.now(), park_s)
        if self._exchanges.is_at_rest():
            # What a thousand idle workers say changes nothing, and must cost next to nothing.
            self._coordinator.settle()
        else:
            self._soon()

    def forsake(self, message: Exchange) -> None:
        """The connection of a parked exchange is gone, which proves nothing about the worker: it
        asks again, and is given nothing before it does."""
        self._exchanges.forsake(message)
        asking = self._asking.get(message.worker)
        if asking is not None and asking[:2] == (message.incarnation, message.number):
            del self._asking[message.worker]
            asking[2](Left(message))
