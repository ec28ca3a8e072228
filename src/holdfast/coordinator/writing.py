"""The thread that makes frames durable, one after another. It knows bytes and the disk only."""

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from holdfast.coordinator.coordinator import Batch
from holdfast.coordinator.lines import say
from holdfast.coordinator.ports import Faults
from holdfast.core.errors import LogFailed
from holdfast.core.ids import Position
from holdfast.wal import DiskFull, Log

IDLE_NOTE_S = 1.0
DISK_FULL_RETRY_S = 1.0


class Writer:
    """`synced` and `failed` are called from its thread; they must only pass the word on."""

    def __init__(
        self,
        target: Log,
        faults: Faults,
        synced: Callable[[Position], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._log = target
        self._faults = faults
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
                self._log.note_idle()
                idle_noted = True
                continue
            if batch is None:
                return
            self._write_one(batch)
            idle_noted = False
            self._synced(batch.last)
            if self._log.wants_next and (self._preparing is None or not self._preparing.is_alive()):
                self._preparing = threading.Thread(
                    target=self._prepare, name="holdfast-segment", daemon=True
                )
                self._preparing.start()

    def _prepare(self) -> None:
        try:
            self._log.prepare_next()
        except Exception as error:  # noqa: BLE001 - as for the writer's thread
            self._lost(error)

    def _lost(self, error: Exception) -> None:
        """Called by the threads that write: the log takes nothing more."""
        self._failed(error if isinstance(error, LogFailed) else LogFailed(str(error)))

    def _write_one(self, batch: Batch) -> None:
        told = False
        while True:
            try:
                self._faults.reach("log.before_append")
                self._log.append(batch.records, at=batch.at, wall=batch.wall)
                break
            except DiskFull as full:
                # Nothing was written: wait for room. Whoever asked goes on waiting too.
                if self._leaving.is_set():
                    raise
                if not told:
                    say("disk_full", why=str(full))
                    told = True
                self._leaving.wait(DISK_FULL_RETRY_S)
        self._faults.reach("log.before_sync")
        self._log.sync()
        self._faults.reach("log.after_sync")
