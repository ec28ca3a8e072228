"""A coordinator inside a program: folder in, engine out."""

from collections.abc import Callable
from pathlib import Path
from threading import Event

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.engine import Engine
from holdfast.coordinator.exchanges import Exchanges
from holdfast.coordinator.ports import Ids, NoFaults, RandomIds, SystemClock, SystemDice
from holdfast.coordinator.recovery import opening, recover
from holdfast.coordinator.ticker import Rounds, Ticker
from holdfast.core.decision import Refused
from holdfast.core.errors import BrokenInvariant, LogFailed
from holdfast.core.ids import Position
from holdfast.core.record import Record, decode_record
from holdfast.wal import FileLog

KEEP_FINISHED = 10_000


class Embedded:
    """`term_ms` is zero: the workers live and die with this process."""

    def __init__(self, log: FileLog, coordinator: Coordinator) -> None:
        self.log = log
        self.epoch = log.epoch
        self.ids: Ids = RandomIds()
        self.coordinator = coordinator
        self.exchanges = Exchanges(coordinator, self._recent, term_ms=0)
        self.engine = Engine(coordinator, log, NoFaults())
        self.engine.hooks.append(Ticker(coordinator, keep_finished=KEEP_FINISHED))
        self.engine.hooks.append(Rounds(coordinator, self.exchanges))

    def read(self, position: Position) -> Record:
        return decode_record(self.log.record(position)[1])

    def _recent(self, position: Position) -> Record:
        """A record that may not be written yet: a repeat can come that soon."""
        pending = self.coordinator.pending_record(position)
        return decode_record(pending) if pending is not None else self.read(position)

    def close(self, is_idle: Callable[[], bool]) -> None:
        """Let the last reports become durable, then stop and let the folder go."""
        settled = Event()

        def look() -> None:
            if is_idle() or self.coordinator.failure is not None:
                self.coordinator.answer(settled.set, lambda error: settled.set())
            else:
                self.engine.post(look)

        self.engine.post(look)
        settled.wait()
        self.engine.stop()
        self.log.close()


def open_embedded(path: Path) -> Embedded:
    """Take the folder, replay it, and record that it was taken. Nothing is answered before that
    record is durable."""
    log = FileLog.open(path)
    try:
        state = recover(log, path)
        coordinator = Coordinator(state, SystemClock(state.time), SystemDice())
        torn = log.torn.size if log.torn is not None else 0
        decision = coordinator.execute(
            opening(log.log_id, log.epoch, torn, term_ms=0), actor="coordinator"
        )
        if isinstance(decision, Refused):
            raise BrokenInvariant(decision.message)
        batch = coordinator.take_batch()
        if batch is None:
            raise LogFailed(f"{path} could not be taken over")
        log.append(batch.records, at=batch.at, wall=batch.wall)
        log.sync()
        coordinator.became_durable(batch.last)
        return Embedded(log, coordinator)
    except BaseException:
        log.close()
        raise
