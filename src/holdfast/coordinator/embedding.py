"""A coordinator inside a program: folder in, engine out."""

import threading
from collections.abc import Callable
from logging import getLogger
from pathlib import Path

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.engine import Engine
from holdfast.coordinator.exchanges import Exchanges
from holdfast.coordinator.ports import NoFaults, SystemClock, SystemDice
from holdfast.coordinator.recovery import opening, recover
from holdfast.coordinator.settings import Settings
from holdfast.coordinator.snapshotting import Snapshotter
from holdfast.coordinator.ticker import Rounds, Ticker
from holdfast.core import commands as c
from holdfast.core.decision import Refused
from holdfast.core.errors import BrokenInvariant, LogFailed, OperatingError
from holdfast.core.ids import Position
from holdfast.core.record import Record, decode_record
from holdfast.core.state import State
from holdfast.wal import FileLog

log = getLogger("holdfast")

SNAPSHOT_PATIENCE_S = 10.0


class Embedded:
    """Workers live and die with this process, so no lease ends by time."""

    def __init__(self, source: FileLog, coordinator: Coordinator, settings: Settings) -> None:
        self.log = source
        self.epoch = source.epoch
        self.coordinator = coordinator
        self.exchanges = Exchanges(coordinator, self._recent, term_ms=0)
        self.engine = Engine(coordinator, source, NoFaults())
        # What earlier openings wrote and no snapshot stands for counts too: a program that is
        # never long at work would never have one made.
        behind = source.bytes_after(coordinator.state.snapshot_position)
        self.snapshotter = Snapshotter(
            source.path, source, settings, lambda: behind + coordinator.written, self._install
        )
        self.engine.hooks += [
            Ticker(coordinator, keep_finished=settings.keep_finished),
            Rounds(coordinator, self.exchanges),
            self.snapshotter,
        ]

    def read(self, position: Position) -> Record:
        return decode_record(self.log.record(position)[1])

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
        self.log.close()

    def _recent(self, position: Position) -> Record:
        """A record that may not be written yet: a repeat can come that soon."""
        pending = self.coordinator.pending_record(position)
        return decode_record(pending) if pending is not None else self.read(position)

    def _install(self, command: c.InstallSnapshot) -> None:
        """Called by the snapshot's thread: returns when the record is durable."""
        recorded = threading.Event()

        def work() -> None:
            try:
                if self.coordinator.failure is None:
                    self.coordinator.execute(command, actor="snapshotter")
            finally:
                self.coordinator.answer(recorded.set, lambda error: recorded.set())

        self.engine.post(work)
        recorded.wait()
        if self.coordinator.failure is not None:
            raise LogFailed("the log failed before the snapshot was recorded")


def _replayed(source: FileLog) -> State:
    try:
        return recover(source, source.path)
    except OSError as error:
        raise LogFailed(
            f"{source.path} cannot be read: {error}. Run `holdfast log verify {source.path}`."
        ) from error


def open_embedded(path: Path, settings: Settings) -> Embedded:
    """Take the folder, replay it, and record that it was taken. Nothing is answered before that
    record is durable."""
    source = FileLog.open(path)
    try:
        state = _replayed(source)
        coordinator = Coordinator(state, SystemClock(state.time), SystemDice())
        torn = source.torn
        if torn is not None:
            log.warning(
                "the end of the log was torn by a crash; it was never acknowledged and is cut",
                extra={"position": torn.position, "bytes": torn.size, "kept": str(torn.kept)},
            )
        decision = coordinator.execute(
            opening(source.log_id, source.epoch, 0 if torn is None else torn.size, term_ms=0),
            actor="coordinator",
        )
        if isinstance(decision, Refused):
            raise BrokenInvariant(decision.message)
        batch = coordinator.take_batch()
        if batch is None:
            raise LogFailed(f"{path} could not be taken over")
        source.append(batch.records, at=batch.at, wall=batch.wall)
        source.sync()
        coordinator.became_durable(batch.last)
        return Embedded(source, coordinator, settings)
    except BaseException:
        source.close()
        raise
