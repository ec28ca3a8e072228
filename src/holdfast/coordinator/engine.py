"""The coordinator on a thread of its own, for programs that embed it.

Everything that touches the state runs on the engine's thread, in the order it came. While one
frame is being synced the next one gathers.
"""

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.ports import Faults
from holdfast.coordinator.turns import Hook, Turns
from holdfast.coordinator.writing import Writer
from holdfast.core.ids import Position
from holdfast.wal import Log

STOPPING_PATIENCE_S = 0.01


class Engine:
    def __init__(self, coordinator: Coordinator, log: Log, faults: Faults) -> None:
        self.coordinator = coordinator
        self._writer = Writer(log, faults, self._tell_synced, self._tell_failed)
        self._turns = Turns(coordinator, self._writer.write)
        self._inbox: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._stopping = False
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="holdfast-engine", daemon=True)

    @property
    def hooks(self) -> list[Hook]:
        return self._turns.hooks

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
        self._writer.leave()

    def stop(self, why: Exception) -> None:
        """Write what has gathered, then end both threads; who still waits is told `why`. Does not
        close the log."""
        self.leave()
        self._inbox.put(self._begin_stop)
        self._thread.join()
        self._writer.stop()
        self._turns.fail(why)
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
        turns = self._turns
        while True:
            try:
                self._drain()
                turns.take()
            except Exception as error:  # noqa: BLE001 - a bug here must not look like progress
                turns.fail(error)
            if self._stopping and turns.has_written_all():
                return

    def _drain(self) -> None:
        """Do what has come in, waiting for the first of it as long as nothing else is due. What
        comes in meanwhile waits for the next turn, or work that posts itself would never end."""
        inbox = self._inbox
        patience = STOPPING_PATIENCE_S if self._stopping else self._turns.patience_s()
        try:
            inbox.get(timeout=patience)()
            for _ in range(inbox.qsize()):
                inbox.get_nowait()()
        except Empty:
            return

    def _tell_synced(self, last: Position) -> None:
        self.post(lambda: self._turns.synced(last))

    def _tell_failed(self, failure: Exception) -> None:
        self.post(lambda: self._turns.fail(failure))
