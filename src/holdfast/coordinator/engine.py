"""The coordinator on a thread of its own, with a second thread for the disk.

Everything that touches the state runs on the engine's thread, in the order it came. While one
frame is being synced the next one gathers; there is never more than one unsynced frame.
"""

import threading
from collections.abc import Callable
from logging import getLogger
from queue import Empty, SimpleQueue
from typing import Protocol

from holdfast.coordinator.coordinator import Batch, Coordinator
from holdfast.coordinator.ports import Faults
from holdfast.core.errors import LogFailed
from holdfast.core.ids import Instant, Position
from holdfast.wal import DiskFull, Log

log = getLogger("holdfast")

IDLE_NOTE_MS = 1_000
DISK_FULL_RETRY_S = 1.0


class Hook(Protocol):
    """Something that lives on the engine's thread: a local worker, the tick, the rounds."""

    def step(self, now: Instant) -> None: ...

    def next_due(self) -> Instant:
        """When it wants to be stepped again at the latest; zero for never."""


class Engine:
    def __init__(self, coordinator: Coordinator, log: Log, faults: Faults) -> None:
        self.coordinator = coordinator
        self.log = log
        self.hooks: list[Hook] = []
        self._faults = faults
        self._inbox: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._frames: SimpleQueue[Batch | None] = SimpleQueue()
        self._writing = False
        self._stopping = False
        self._leaving = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="holdfast-engine", daemon=True)
        self._writer = threading.Thread(target=self._write, name="holdfast-log", daemon=True)
        self._preparing: threading.Thread | None = None

    def start(self) -> None:
        self._writer.start()
        self._thread.start()

    def post(self, work: Callable[[], None]) -> None:
        """Have `work` run on the engine's thread. Never blocks; may be called from any thread.

        After the end it runs here instead, and meets a coordinator that refuses everything: nobody
        waits for an answer that cannot come.
        """
        self._inbox.put(work)
        if self._ended:
            self._refuse_rest()

    def leave(self) -> None:
        """Wait no longer for room on a full disk: whoever waits for it is told."""
        self._leaving.set()

    def stop(self, why: Exception) -> None:
        """Write what has gathered, then end both threads; who still waits is told `why`. Does not
        close the log."""
        self.leave()
        self._inbox.put(self._begin_stop)
        self._thread.join()
        self._frames.put(None)
        self._writer.join()
        if self._preparing is not None:
            self._preparing.join()
        self._fail(why)
        self._ended = True
        self._refuse_rest()

    def _refuse_rest(self) -> None:
        try:
            while True:
                self._inbox.get_nowait()()
        except Empty:
            return

    def _begin_stop(self) -> None:
        self._stopping = True

    def _run(self) -> None:
        coordinator = self.coordinator
        while True:
            try:
                self._drain()
                self._advance()
            except Exception as error:  # noqa: BLE001 - a bug here must not look like progress
                self._fail(error)
            if self._stopping and not self._writing and coordinator.has_nothing_pending():
                return

    def _drain(self) -> None:
        """Do what has come in, waiting for the first of it as long as nothing else is due. What
        comes in meanwhile waits for the next turn, or work that posts itself would never end."""
        inbox = self._inbox
        try:
            inbox.get(timeout=self._patience())()
            for _ in range(inbox.qsize()):
                inbox.get_nowait()()
        except Empty:
            return

    def _advance(self) -> None:
        coordinator = self.coordinator
        now = coordinator.now()
        if coordinator.failure is None:
            for hook in self.hooks:
                hook.step(now)
            coordinator.settle()
            if not self._writing:
                batch = coordinator.take_batch()
                if batch is not None:
                    self._writing = True
                    self._frames.put(batch)

    def _patience(self) -> float | None:
        """How long nothing needs doing, in seconds; None for as long as nobody calls."""
        if self._stopping:
            return 0.01
        if self.coordinator.failure is not None:
            return None
        dues = [due for due in (hook.next_due() for hook in self.hooks) if due]
        if not dues:
            return None
        return max(0.0, (min(dues) - self.coordinator.now()) / 1_000)

    def _write(self) -> None:
        """The writer's thread, until the end or the first trouble. Whatever that was, nothing more
        is written, and everyone is told."""
        try:
            self._write_frames()
        except Exception as error:  # noqa: BLE001 - a silent end would leave everyone waiting
            self._lost(error)

    def _write_frames(self) -> None:
        """One frame at a time, durable before it is told."""
        idle_noted = True
        while True:
            try:
                batch = self._frames.get(timeout=None if idle_noted else IDLE_NOTE_MS / 1_000)
            except Empty:
                self.log.note_idle()
                idle_noted = True
                continue
            if batch is None:
                return
            self._write_one(batch)
            idle_noted = False
            self.post(lambda last=batch.last: self._synced(last))  # type: ignore[misc]
            if self.log.wants_next and (self._preparing is None or not self._preparing.is_alive()):
                self._preparing = threading.Thread(
                    target=self._prepare, name="holdfast-segment", daemon=True
                )
                self._preparing.start()

    def _prepare(self) -> None:
        try:
            self.log.prepare_next()
        except Exception as error:  # noqa: BLE001 - as for the writer's thread
            self._lost(error)

    def _write_one(self, batch: Batch) -> None:
        told = False
        while True:
            try:
                self._faults.reach("log.before_append")
                self.log.append(batch.records, at=batch.at, wall=batch.wall)
                break
            except DiskFull as full:
                # Nothing was written: wait for room. Whoever asked goes on waiting too.
                if self._leaving.is_set():
                    raise
                if not told:
                    log.warning("the disk is full; everything waits until there is room: %s", full)
                    told = True
                self._leaving.wait(DISK_FULL_RETRY_S)
        self._faults.reach("log.before_sync")
        self.log.sync()
        self._faults.reach("log.after_sync")

    def _lost(self, error: Exception) -> None:
        """Called by the threads that write: the log takes nothing more."""
        failure = error if isinstance(error, LogFailed) else LogFailed(str(error))
        self.post(lambda: self._fail(failure))

    def _synced(self, last: Position) -> None:
        self._writing = False
        self.coordinator.became_durable(last)

    def _fail(self, failure: Exception) -> None:
        self._writing = False
        if self.coordinator.failure is None:
            self.coordinator.fail(failure)
