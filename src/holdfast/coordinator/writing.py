"""The thread that makes frames durable, one after another. It knows bytes and the disk only."""

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Protocol

from holdfast.coordinator.coordinator import Batch
from holdfast.coordinator.lines import say
from holdfast.coordinator.ports import Faults
from holdfast.core.errors import LogFailed
from holdfast.core.ids import Position
from holdfast.wal import DiskFull, Log

IDLE_NOTE_S = 1.0
DISK_FULL_RETRY_S = 1.0


class Pen:
    """What is done to the log, one step at a time, by whoever has the thread for it."""

    def __init__(self, target: Log, faults: Faults) -> None:
        self._log = target
        self._faults = faults

    def write(self, batch: Batch) -> DiskFull | None:
        """Make a frame durable; where the disk is full nothing was written, and it is said."""
        try:
            self._faults.reach("log.before_append")
            self._log.append(batch.records, at=batch.at, wall=batch.wall)
        except DiskFull as full:
            return full
        self._faults.reach("log.before_sync")
        self._log.sync()
        self._faults.reach("log.after_sync")
        return None

    def rest(self) -> None:
        """Nothing came for a while: note how far the log was acknowledged."""
        self._log.note_idle()

    @property
    def wants_next(self) -> bool:
        return self._log.wants_next

    def prepare(self) -> None:
        self._faults.reach("segment.before_prepare")
        self._log.prepare_next()


def lost_by(error: Exception) -> LogFailed:
    """What is told to everybody when the log takes nothing more."""
    return error if isinstance(error, LogFailed) else LogFailed(str(error))


class Writes(Protocol):
    """Whoever makes frames durable for an engine, and tells it when one is."""

    def start(self) -> None: ...

    def write(self, batch: Batch) -> None: ...

    def leave(self) -> None: ...

    def stop(self) -> None: ...


MakeWriter = Callable[
    [Log, Faults, Callable[[Position], None], Callable[[Exception], None]], Writes
]
"""A log, its faults, and whom to tell that a frame is synced, or that the log is lost."""


class Writer:
    """`synced` and `failed` are called from its thread; they must only pass the word on."""

    def __init__(
        self,
        target: Log,
        faults: Faults,
        synced: Callable[[Position], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._pen = Pen(target, faults)
        self._synced = synced
        self._failed = failed
        self._frames: SimpleQueue[Batch | None] = SimpleQueue()
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, name="holdfast-log", daemon=True)
        self._preparing: threading.Thread | None = None

    def start(self) -> None:
        self._thread.start()

    def write(self, batch: Batch) -> None:
        """Have one frame written. The next may come when this one was told to be synced."""
        self._frames.put(batch)

    def leave(self) -> None:
        """Wait no longer for room on a full disk: whoever waits for it is told."""
        self._leaving.set()

    def stop(self) -> None:
        """End the thread, after whatever was given to it."""
        self._frames.put(None)
        self._thread.join()
        if self._preparing is not None:
            self._preparing.join()

    def _run(self) -> None:
        """Until the end or the first trouble. Whatever that was, nothing more is written, and
        everyone is told."""
        try:
            self._write_frames()
        except Exception as error:  # noqa: BLE001 - a silent end would leave everyone waiting
            self._lost(error)

    def _write_frames(self) -> None:
        """One frame at a time, durable before it is told."""
        idle_noted = True
        while True:
            try:
                batch = self._frames.get(timeout=None if idle_noted else IDLE_NOTE_S)
            except Empty:
                self._pen.rest()
                idle_noted = True
                continue
            if batch is None:
                return
            self._write_one(batch)
            idle_noted = False
            self._synced(batch.last)
            if self._pen.wants_next and (self._preparing is None or not self._preparing.is_alive()):
                self._preparing = threading.Thread(
                    target=self._prepare, name="holdfast-segment", daemon=True
                )
                self._preparing.start()

    def _prepare(self) -> None:
        try:
            self._pen.prepare()
        except Exception as error:  # noqa: BLE001 - as for the writer's thread
            self._lost(error)

    def _lost(self, error: Exception) -> None:
        """Called by the threads that write: the log takes nothing more."""
        self._failed(lost_by(error))

    def _write_one(self, batch: Batch) -> None:
        told = False
        while (full := self._pen.write(batch)) is not None:
            # Wait for room. Whoever asked goes on waiting too.
            if self._leaving.is_set():
                raise full
            if not told:
                say("log_waits", why=str(full))
                told = True
            self._leaving.wait(DISK_FULL_RETRY_S)
