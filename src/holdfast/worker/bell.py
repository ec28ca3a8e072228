"""The bell that tells the agent something has ended.

Ringing for every task would cost more than most tasks. So outcomes share a ring: one when a lane
runs dry, and one a few milliseconds after the first outcome that nobody has collected, because
the task behind it may run for an hour.
"""

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

RING_AFTER_S: Final = 0.005


class Bell:
    """Calls `wake` at least once after every outcome, and far less often than once for each.

    A ring that nobody has answered yet stands for everything that came after it: the agent
    hushes the bell before it collects. `is_quiet`: no ring is due and none is unanswered; a plain
    field, because it is looked at after every task.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self.is_quiet = True
        self._is_due = False
        self._requests: SimpleQueue[bool] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def ring(self) -> None:
        self.is_quiet = False
        self._is_due = False
        self._wake()

    def ring_soon(self) -> None:
        if not self.is_quiet:
            return
        self.is_quiet = False
        self._is_due = True
        if self._thread is None:
            self._start()
        self._requests.put(True)

    def ring_if_due(self) -> None:
        if self._is_due:
            self.ring()

    def hush(self) -> None:
        """The agent is about to collect. Said before it looks, so that nothing slips between."""
        # In this order: whoever finds it quiet makes a ring due, which must not be taken back.
        self._is_due = False
        self.is_quiet = True

    def end(self) -> None:
        self._requests.put(False)

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._ring_later, name="holdfast-bell", daemon=True
                )
                self._thread.start()

    def _ring_later(self) -> None:
        while self._requests.get():
            time.sleep(RING_AFTER_S)
            # One ring answers all that was asked for meanwhile.
            while not self._requests.empty():
                if not self._requests.get():
                    return
            self.ring_if_due()
