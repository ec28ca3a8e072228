"""What a task says of how far it has come, made few: one word a second is enough for anybody."""

import threading
import time
from collections.abc import Callable
from typing import Final

from holdfast.wire.exchange import Progress

EVERY_S: Final = 1.0
WORDS_A_STALL: Final = 4
"""How often within the time after which silence means a stall."""


class Teller:
    """Passes on the latest word, the first at once and then at most one an interval. Any thread
    may speak; what was said last is always passed on, unless the task ends before."""

    def __init__(self, tell: Callable[[Progress], None], stall_ms: int) -> None:
        self._tell = tell
        self._every_s = EVERY_S
        if stall_ms:
            self._every_s = min(EVERY_S, stall_ms / 1_000 / WORDS_A_STALL)
        self._lock = threading.Lock()
        self._latest: Progress | None = None
        self._next_at = 0.0
        self._alarm: threading.Timer | None = None
        self._is_over = False

    def say(self, progress: Progress) -> None:
        with self._lock:
            self._latest = progress
            wait_s = self._next_at - time.monotonic()
            if wait_s <= 0:
                self._pass_on()
            elif self._alarm is None:
                self._alarm = threading.Timer(wait_s, self._later)
                self._alarm.daemon = True
                self._alarm.start()

    def close(self) -> None:
        """Nobody wants to hear more of it."""
        with self._lock:
            self._is_over = True
            if self._alarm is not None:
                self._alarm.cancel()

    def _later(self) -> None:
        with self._lock:
            self._alarm = None
            self._pass_on()

    def _pass_on(self) -> None:
        """Under the lock, so that words keep their order."""
        progress, self._latest = self._latest, None
        if progress is not None and not self._is_over:
            self._next_at = time.monotonic() + self._every_s
            self._tell(progress)
