"""What a worker makes of signals."""

import asyncio
import signal
from collections.abc import Callable

from holdfast.worker.remote import Remote


class Told:
    """Signals of this process: the first asks the worker to leave, the second hurries it."""

    def __init__(self, remote: Remote, tell: Callable[[str], None]) -> None:
        self.exit_code = 0
        self._count = 0
        self._remote = remote
        self._tell = tell
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._hear, number)

    def _hear(self, number: int) -> None:
        self._count += 1
        if self._count == 1:
            self._tell("leaving when what runs has ended; again to leave now")
        elif self._count == 2:
            self.exit_code = 128 + number
        self._remote.leave()
