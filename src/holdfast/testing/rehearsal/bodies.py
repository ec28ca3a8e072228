"""Bodies of tasks, each in a thread of its own, of which exactly one runs at a time.

Whoever drives hands the turn to a body and gets it back when the body sleeps, waits or has ended.
So the order in which things happen is that of the rehearsal and never that of the machine. A body
that is killed never gets the turn again: not one of its lines runs, nor does what it has put under
`finally`, as with a process that was killed.
"""

import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from typing import Final

from holdfast.testing.rehearsal.errors import Curtain, StillRunning

PATIENCE_S: Final = 60.0
"""So long in real time may a body keep the turn."""

_HERE: Final = threading.local()


def current_body() -> "Body | None":
    """The body that this thread is; None outside of any."""
    found: Body | None = getattr(_HERE, "body", None)
    return found


class Body:
    """`until_ms` is when it wants to go on, by the virtual clock; zero: when `is_ready` says so, or
    at once where nobody is asked."""

    def __init__(self, name: str, work: Callable[[], None], patience_s: float = PATIENCE_S) -> None:
        self.name = name
        self.until_ms = 0
        self.is_over = False
        self.has_paused = False
        self._is_ready: Callable[[], bool] | None = None
        self._work = work
        self._patience_s = patience_s
        self._is_curtain = False
        self._mine = threading.Semaphore(0)
        self._yours = threading.Semaphore(0)
        self._thread: threading.Thread | None = None

    # Called by whoever drives.

    def may_go_on(self, now_ms: int) -> bool:
        """Whether what it waits for has come, or the time it gave itself is up."""
        if self.is_over:
            return False
        if self._is_ready is not None and self._is_ready():
            return True
        return now_ms >= self.until_ms if self.until_ms else self._is_ready is None

    def go_on(self) -> None:
        """Hand it the turn; it is back when this returns."""
        if self._thread is None:
            context = copy_context()
            self._thread = threading.Thread(
                target=context.run, args=(self._run,), name=f"body-{self.name}", daemon=True
            )
            self._thread.start()
        else:
            self._mine.release()
        if not self._yours.acquire(timeout=self._patience_s):
            raise StillRunning(
                f"the body of {self.name} has not come back after {self._patience_s:g} s; it waits "
                "for something that is not virtual"
            )

    def let_go(self) -> None:
        """The test is over: unwind it, and see its thread end."""
        if self._thread is None or self.is_over:
            return
        self._is_curtain = True
        self._mine.release()
        self._thread.join(self._patience_s)

    # Called by the body itself.

    def pause(self, until_ms: int = 0, is_ready: Callable[[], bool] | None = None) -> None:
        """Give the turn back, until that time or until it `is_ready`, whichever comes first."""
        self.until_ms, self._is_ready, self.has_paused = until_ms, is_ready, True
        self._hand_back()
        if self._is_curtain:
            raise Curtain
        self.until_ms, self._is_ready = 0, None

    def _hand_back(self) -> None:
        self._yours.release()
        self._mine.acquire()

    def _run(self) -> None:
        _HERE.body = self
        try:
            self._work()
        except Curtain:
            pass
        finally:
            self.is_over = True
            self._yours.release()


class VirtualSleep:
    """`time.sleep` while a rehearsal is on: virtual inside the bodies of its tasks, else real."""

    def __init__(self, sleep_here: Callable[[Body, float], None]) -> None:
        self._sleep_here = sleep_here
        self._real = time.sleep

    def __enter__(self) -> None:
        vars(time)["sleep"] = self._sleep

    def __exit__(self, *raised: object) -> None:
        vars(time)["sleep"] = self._real

    def _sleep(self, seconds: float, /) -> None:
        body = current_body()
        if body is None:
            self._real(seconds)
            return
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        self._sleep_here(body, seconds)
