"""A coordinator inside a program: folder in, engine out."""

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from holdfast.coordinator.checker import Checker
from holdfast.coordinator.clockwork import Clockwork
from holdfast.coordinator.collecting import Collector
from holdfast.coordinator.desk import Desk
from holdfast.coordinator.engine import Engine
from holdfast.coordinator.exchanges import Exchanges
from holdfast.coordinator.fleetnotes import FleetNotes
from holdfast.coordinator.inspect import told_by, told_in
from holdfast.coordinator.library import Library
from holdfast.coordinator.pacenotes import PaceNotes
from holdfast.coordinator.ports import NoFaults
from holdfast.coordinator.presence import Presence
from holdfast.coordinator.results import Results
from holdfast.coordinator.room import Room, space_of
from holdfast.coordinator.settings import Settings
from holdfast.coordinator.stalls import Stalls
from holdfast.coordinator.taking import Taken, take_folder
from holdfast.coordinator.ticker import Rounds, Ticker
from holdfast.coordinator.unplaced import Unplaced
from holdfast.core.errors import OperatingError
from holdfast.core.ids import Position
from holdfast.core.record import Record

SNAPSHOT_PATIENCE_S = 10.0
SETTLE_MS = 30_000
"""How long after an opening the first check is asked for: most programs are over by then."""


class Embedded:
    """Workers live and die with this process, so no lease ends by time."""

    def __init__(self, taken: Taken, settings: Settings) -> None:
        self.log = taken.log
        self.epoch = taken.epoch
        self.coordinator = taken.coordinator
        self.coordinator.refusing.strict = settings.strict
        self.results = Results(
            self.log.path, taken.coordinator.clock.wall, largest_bytes=settings.result_bytes
        )
        self.exchanges = Exchanges(
            taken.coordinator, taken.recent, term_ms=0, results=self.results
        )
        self.exchanges.adjust(settings)
        self.engine = Engine(taken.coordinator, taken.log, NoFaults())
        self.desk, self.questions = Desk(), Desk()
        self.snapshotter = taken.snapshotter(settings, self.engine.post, self.desk)
        self.room = Room(
            self.coordinator,
            settings,
            partial(space_of, self.log.path),
            self.exchanges.withhold,
        )
        self.checker = Checker(
            self.log.path, self.coordinator, settings, self.engine.post, settle_ms=SETTLE_MS,
            present=Presence(self.coordinator.state, self.exchanges, 0).look,
        )  # fmt: skip
        self._fleet = FleetNotes(self.log.path, self.coordinator, self.exchanges)
        unplaced = Unplaced(self.coordinator, self.exchanges)
        self.stalls = Stalls(self.coordinator, self.exchanges, settings)
        keep = settings.keep_finished
        self.engine.hooks.extend(
            (
                self.room,
                Ticker(self.coordinator, keep_finished=keep, unplaced=unplaced),
                self.stalls,
                Clockwork(self.coordinator),
                self._fleet,
                Rounds(self.coordinator, self.exchanges),
                PaceNotes(self.log.path, self.coordinator, self.exchanges.placement),
                self.snapshotter,
                self.checker,
                Collector(self.results, self.coordinator.state),
            )
        )
        self._taken = taken

    def library(self) -> Library:
        """Durable records with their place in time. May be read from any thread."""
        return Library(
            lambda position: told_by(*self.log.record(position), position),
            lambda first, last: (
                told_in(self.log.read(first), first, last) if first <= last else iter(())
            ),
        )

    def read(self, position: Position) -> Record:
        return self._taken.read(position)

    def close(
        self,
        is_idle: Callable[[], bool],
        why: Exception | None = None,
        patience_s: float = SNAPSHOT_PATIENCE_S,
    ) -> None:
        """Let the last reports become durable, then stop and let the folder go. A snapshot under
        way gets `patience_s`; whoever still waits for something is told `why`. A disk that is full
        holds nobody here: what it had no room for was never acknowledged."""
        self.engine.leave()
        self.questions.leave()
        self.checker.finish()
        self.snapshotter.finish(patience_s)
        settled = threading.Event()

        def look() -> None:
            if is_idle() or self.coordinator.failure is not None:
                self.coordinator.answer(settled.set, lambda error: settled.set())
            else:
                self.engine.post(look)

        self.engine.post(look)
        settled.wait()
        self.engine.stop(why or OperatingError(f"{self.log.path} was closed"))
        self._fleet.leave()
        self.coordinator.refusing.close()
        self.log.close()


def open_embedded(path: Path, settings: Settings) -> Embedded:
    return Embedded(take_folder(path, term_ms=0), settings)
