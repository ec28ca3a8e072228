"""A coordinator for many programs and machines: folder in, something an event loop can ask."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from holdfast.coordinator.asking_away import Asker
from holdfast.coordinator.bundles import FOLDER, Bundles
from holdfast.coordinator.checker import Checker
from holdfast.coordinator.clockwork import Clockwork
from holdfast.coordinator.collecting import Collector
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.desk import Desk
from holdfast.coordinator.exchanges import Exchanges
from holdfast.coordinator.feeders import Feeders
from holdfast.coordinator.fleetnotes import FleetNotes
from holdfast.coordinator.inspect import Told, told_by, told_in
from holdfast.coordinator.looped import LoopEngine
from holdfast.coordinator.pacenotes import PaceNotes
from holdfast.coordinator.parking import Parking
from holdfast.coordinator.ports import Faults, NoFaults
from holdfast.coordinator.presence import Presence
from holdfast.coordinator.promise import Listener
from holdfast.coordinator.reception import Reception
from holdfast.coordinator.reconciling.hook import Reconciling
from holdfast.coordinator.results import Results
from holdfast.coordinator.room import Room, space_of
from holdfast.coordinator.runtime_history import Remembered
from holdfast.coordinator.settings import Settings
from holdfast.coordinator.stalls import Stalls
from holdfast.coordinator.taking import Taken
from holdfast.coordinator.ticker import Rounds, Ticker
from holdfast.coordinator.turns import Hook
from holdfast.coordinator.unplaced import Unplaced
from holdfast.core import commands as c
from holdfast.core.errors import OperatingError
from holdfast.core.ids import NEVER, Instant, Position, WorkerId
from holdfast.core.record import Record
from holdfast.core.task import TaskState
from holdfast.wal import Ballast, RealDisk
from holdfast.wire.exchange import Exchange, Reply

T = TypeVar("T")

SNAPSHOT_PATIENCE_S = 10.0
SETTLE_MS = 2_000
"""How long after an opening the first check is asked for: those who come back come first."""

QUESTIONS = 2
"""So many questions in SQL are answered at once, each by a process of its own; they have a desk of
their own, so that a snapshot never waits for one."""


class Growth:
    """Tells those who follow the log that more of it is durable. Looked at in every turn."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._seen = coordinator.durable
        self._grown = asyncio.Event()

    def step(self, now: Instant) -> None:
        if self._coordinator.durable != self._seen:
            self._seen = self._coordinator.durable
            self._grown.set()
            self._grown = asyncio.Event()

    def next_due(self) -> Instant:
        return NEVER

    async def after(self, position: Position) -> None:
        """Until more than `position` is durable."""
        while self._coordinator.durable <= position:
            await self._grown.wait()


class Served:
    """Made on the loop that serves. Workers are elsewhere, so their leases end by time."""

    def __init__(
        self, taken: Taken, settings: Settings, *, term_ms: int, faults: Faults | None = None
    ) -> None:
        self.log = taken.log
        self.coordinator = taken.coordinator
        self.coordinator.observe(strict=settings.strict)
        self.term_ms, self.draining = term_ms, False
        self.growth = Growth(taken.coordinator)
        self.feeders = Feeders(taken.coordinator)
        self.bundles = Bundles(
            self.log.path / FOLDER,
            taken.coordinator.clock.wall,
            largest_bytes=settings.bundle_bytes,
            quota_bytes=settings.bundles_bytes,
        )
        self.results = Results(
            self.log.path, taken.coordinator.clock.wall, largest_bytes=settings.result_bytes
        )
        self.exchanges = Exchanges(
            taken.coordinator, taken.recent, term_ms=term_ms, results=self.results
        )
        self.exchanges.adjust(settings)
        self._parking = Parking(self.exchanges)
        faults = faults or NoFaults()
        self.engine = LoopEngine(taken.coordinator, taken.log, faults)
        self._reception = Reception(
            taken.coordinator, self.exchanges, self._parking, self.engine.soon, faults
        )
        self.desk, self.questions = Desk(), Desk(QUESTIONS)
        self.snapshotter = taken.snapshotter(settings, self.engine.post, self.desk)
        self.room = Room(
            self.coordinator,
            settings,
            partial(space_of, self.log.path),
            self.exchanges.withhold,
            Ballast(RealDisk(), self.log.path),
        )
        self.checker = Checker(
            self.log.path, self.coordinator, settings, self.engine.post, settle_ms=SETTLE_MS,
            present=Presence(self.coordinator.state, self.exchanges, term_ms).look,
        )  # fmt: skip
        self.ticker = Ticker(
            self.coordinator,
            keep_finished=settings.keep_finished,
            feeders=self.feeders,
            unplaced=Unplaced(self.coordinator, self.exchanges),
        )
        self.stalls = Stalls(self.coordinator, self.exchanges, settings)
        ask = Asker(self.engine.post).ask
        self.reconciling = Reconciling(self.coordinator, self.exchanges, taken.recent, ask=ask)
        self.remembered = Remembered(self.coordinator, self.reconciling.happenings, self.log)
        self._taken = taken
        self.engine.hooks.extend(self._hooks())

    def _hooks(self) -> Iterator[Hook]:
        """Whatever acts in every turn, in this order."""
        yield self.room
        yield self.ticker
        yield self.stalls
        yield Clockwork(self.coordinator)
        yield FleetNotes(self.log.path, self.coordinator, self.exchanges)
        yield self._parking
        yield self.reconciling
        yield Rounds(self.coordinator, self.exchanges)
        yield PaceNotes(self.log.path, self.coordinator, self.exchanges.placement)
        yield self.snapshotter
        yield self.checker
        yield self.growth
        yield Collector(self.bundles, self.coordinator.state)
        yield Collector(self.results, self.coordinator.state)

    @property
    def replay_s(self) -> float:
        """How long the log took to be told when the folder was taken."""
        return self._taken.replay_s

    def adjust(self, settings: Settings) -> None:
        """Have other settings hold from now on. What is here already is measured by them when
        something comes next."""
        self.bundles.largest_bytes = settings.bundle_bytes
        self.bundles.quota_bytes = settings.bundles_bytes
        self.results.largest_bytes = settings.result_bytes
        self.snapshotter.settings = settings
        self.coordinator.refusing.strict = settings.strict
        self.checker.adjust(settings)
        self.room.adjust(settings)
        self.ticker.keep_finished = settings.keep_finished
        self.stalls.adjust(settings)
        self.exchanges.adjust(settings)

    async def ask(self, question: Callable[[Coordinator], T]) -> T:
        """What the coordinator answers, once all it saw is durable."""
        return await self.engine.ask(question)

    async def read(self, position: Position) -> Record:
        """A durable record. Reading may wait for a disk, so the loop does not."""
        return await asyncio.to_thread(self._taken.read, position)

    def told(self, position: int) -> Told:
        """A durable record with its place in time. May be called from any thread, and waits for
        the disk."""
        return told_by(*self.log.record(position), position)

    def history(self, first: int, last: int) -> Iterator[Told]:
        """The durable records from `first` to `last`. May be called from any thread."""
        return told_in(self.log.read(first), first, last) if first <= last else iter(())

    def exchange(self, message: Exchange, park_s: float, tell: Listener[Reply]) -> None:
        """Have a worker told the answer: at once where there is something to say, else parked
        until there is, or until `park_s` have passed. It is told `Superseded` where the worker has
        sent the same again, and `Left` where nobody waits for it any more. `Superseded` is raised
        where it has sent more already."""
        self._reception.take(message, park_s, tell)

    def forsake(self, message: Exchange) -> None:
        """The connection of a parked exchange is gone, which proves nothing about the worker: it
        asks again, and is given nothing before it does."""
        self._reception.forsake(message)

    def drain_worker(self, name: WorkerId) -> int:
        """Tell a cordoned worker to take nothing more, and ask back everything it has not started;
        how much that is. It comes back when the worker says that it could still be taken out."""
        worker = self.exchanges.workers.get(name)
        if worker is None:
            return 0
        self.exchanges.drain(worker, is_drained=True)
        leases = self.coordinator.state.holder(name, worker.incarnation).leases
        wanted = [task.lease_id for task in leases.values() if task.state is TaskState.LEASED]
        worker.recalls += tuple(lease for lease in wanted if lease not in worker.recalls)
        worker.asked = worker.asked.union(wanted) & leases.keys()
        if wanted:
            self.exchanges.tell(worker)
        self.engine.soon()
        return len(wanted)

    def undrain_worker(self, name: WorkerId) -> None:
        """Whoever was drained may take work again."""
        worker = self.exchanges.workers.get(name)
        if worker is not None:
            self.exchanges.drain(worker, is_drained=False)
            self.engine.soon()

    def lose(self, name: WorkerId, error: str) -> None:
        """A worker is proven dead: whatever it holds ends now."""
        worker = self.exchanges.registry.forget(name)
        state = self.coordinator.state
        known = [key for key, holder in state.holders.items() if holder.leases]
        known += state.debts.blocks
        incarnations = {incarnation for holder, incarnation in known if holder == name}
        if worker is not None:
            incarnations.add(worker.incarnation)
        for incarnation in sorted(incarnations):
            self.coordinator.execute(
                c.LoseWorker(worker=name, incarnation=incarnation, error=error), actor="parent"
            )
        self.engine.soon()

    def drain(self) -> None:
        """Grant nothing more and let every parked worker go; what runs goes on elsewhere."""
        self.draining = True
        self.exchanges.granting = False
        self.exchanges.unpark_all()
        self._parking.clear()
        self.engine.soon()

    async def close(self) -> None:
        """Write what has gathered and let the folder go."""
        self.questions.leave()
        await asyncio.to_thread(self.checker.finish)
        await asyncio.to_thread(self.room.finish)
        await asyncio.to_thread(self.snapshotter.finish, SNAPSHOT_PATIENCE_S)
        await self.engine.stop(OperatingError(f"{self.log.path} is no longer served"))
        self.coordinator.refusing.close()
        self.log.close()
