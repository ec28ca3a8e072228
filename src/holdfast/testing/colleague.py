"""A real worker before a real coordinator; a test carries what they say to each other, or does not.
"""

from typing import Final

from msgspec import structs

from holdfast.core.ids import WorkerId
from holdfast.testing.service import Service
from holdfast.testing.stepped import SteppedExecutor
from holdfast.wire.delivery import WORKERS
from holdfast.wire.exchange import Capacity, Exchange, Hello, Reply
from holdfast.worker.agent import Agent
from holdfast.worker.parcels import Parcels

TURNS_MAX: Final = 50


class Colleague:
    """Its clock is that of the coordinator. `sent` is what it said last."""

    def __init__(
        self,
        service: Service,
        name: str,
        executor: SteppedExecutor,
        *,
        parcels: Parcels | None = None,
        places: tuple[str, ...] = (),
    ) -> None:
        slots = executor.slots
        hello = Hello(name, 1, "test", delivers=(WORKERS,), places=places)
        capacity = Capacity(slots, slots * 1_000, 1 << 30, 0)
        self.executor = executor
        self.agent = Agent(
            WorkerId(name), 1, executor, capacity, hello=hello, parcels=parcels
        )
        self.sent: Exchange | None = None
        self._service = service
        self._replies: list[Reply] = []

    def step(self) -> bool:
        """Let it do what is due; whether it has something to say, which waits in `sent`."""
        self.executor.advance(self._service.clock.now())
        exchange = self.agent.step(self._service.clock.now())
        if exchange is not None:
            self.sent = exchange
        return exchange is not None

    def send(self, *, is_introduced: bool = True) -> None:
        """What it said arrives, and what follows from it becomes durable."""
        if self.sent is None:
            raise AssertionError("it has said nothing yet")
        said = self.sent
        if not is_introduced:
            said = structs.replace(said, hello=self.agent.hello)
        self._service.exchanges.take(said, self._replies.append)
        self._service.settle()

    def lose_answers(self) -> int:
        """Whatever was answered never arrives. How many answers that were."""
        count = len(self._replies)
        self._replies.clear()
        return count

    def hear(self) -> None:
        for reply in self._replies:
            self.agent.receive(reply, self._service.clock.now())
        self._replies.clear()

    def converse(self) -> None:
        """Say and hear, until there is nothing more to say at this moment."""
        for _ in range(TURNS_MAX):
            self.hear()
            if not self.step():
                return
            self.send()
        raise AssertionError("they talk and talk")
