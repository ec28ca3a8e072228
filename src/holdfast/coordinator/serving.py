"""A coordinator for many programs and machines: folder in, something an event loop can ask."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.exchanges import Exchanges
from holdfast.coordinator.looped import LoopEngine
from holdfast.coordinator.ports import Faults, NoFaults
from holdfast.coordinator.settings import Settings
from holdfast.coordinator.snapshotting import Snapshotter
from holdfast.coordinator.taking import Taken
from holdfast.coordinator.ticker import Rounds, Ticker
from holdfast.core.errors import OperatingError
from holdfast.core.ids import Position
from holdfast.core.record import Record
from holdfast.wire.exchange import Exchange, Reply

T = TypeVar("T")

SNAPSHOT_PATIENCE_S = 10.0


class Served:
    """Made on the loop that serves. Workers are elsewhere, so their leases end by time."""

    def __init__(
        self, taken: Taken, settings: Settings, *, term_ms: int, faults: Faults | None = None
    ) -> None:
        self.log = taken.log
        self.coordinator = taken.coordinator
        self.term_ms = term_ms
        self.draining = False
        self.exchanges = Exchanges(taken.coordinator, taken.recent, term_ms=term_ms)
        self.engine = LoopEngine(taken.coordinator, taken.log, faults or NoFaults())
        self.snapshotter = Snapshotter(
            self.log.path,
            self.log,
            settings,
            taken.unsnapped,
            partial(taken.install, self.engine.post),
        )
        self.engine.hooks.extend(
            (
                Ticker(self.coordinator, keep_finished=settings.keep_finished),
                Rounds(self.coordinator, self.exchanges),
                self.snapshotter,
            )
        )
        self._taken = taken

    async def ask(self, question: Callable[[Coordinator], T]) -> T:
        """What the coordinator answers, once all it saw is durable."""
        return await self.engine.ask(question)

    async def read(self, position: Position) -> Record:
        """A durable record. Reading may wait for a disk, so the loop does not."""
        return await asyncio.to_thread(self._taken.read, position)

    async def exchange(self, message: Exchange, park_s: float) -> Reply:
        """The answer to a worker: at once where there is something to say, else parked until
        there is, or until `park_s` have passed."""
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

        def send(reply: Reply) -> None:
            if not answer.done():
                answer.set_result(reply)

        self.exchanges.take(message, send)
        self.engine.soon()
        try:
            return await asyncio.wait_for(asyncio.shield(answer), park_s)
        except TimeoutError:
            self.exchanges.unpark(message)
            self.engine.soon()
            return await answer
        except asyncio.CancelledError:
            # The connection is gone, which proves nothing about the worker: it asks again.
            self.exchanges.forsake(message)
            raise

    def drain(self) -> None:
        """Grant nothing more and let every parked worker go; what runs goes on elsewhere."""
        self.draining = True
        self.exchanges.granting = False
        self.exchanges.unpark_all()
        self.engine.soon()

    async def close(self) -> None:
        """Write what has gathered and let the folder go."""
        await asyncio.to_thread(self.snapshotter.finish, SNAPSHOT_PATIENCE_S)
        await self.engine.stop(OperatingError(f"{self.log.path} is no longer served"))
        self.log.close()
