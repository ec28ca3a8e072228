"""The warden as the executor of commands sees it: a process, a socket, a thread that listens."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast.worker.errands import Begun, Ended, Errand, Letters, decode_news, framed
from holdfast.worker.warden import BOOT

FAREWELL_S: Final = 15.0
LIVED_S: Final = 1.0

_CHUNK: Final = 1 << 16


class Gone(Struct, frozen=True):
    """The warden has ended, and every command with it."""

    link: "WardenLink"


class WardenLink:
    """The warden as this process sees it. One thread listens to it."""

    def __init__(
        self, hear: Callable[["Begun | Ended | Gone"], None], lock: int | None, cgroup: Path | None
    ) -> None:
        ours, theirs = socket.socketpair()
        self._began = time.monotonic()
        self._socket = ours
        self._hear = hear
        entries: list[object] = [*sys.path]
        path = "\n".join(entry or os.getcwd() for entry in entries if isinstance(entry, str))
        with theirs:
            # While it holds the lock of the worker's name, nobody can believe its commands ended.
            passed = [theirs.fileno()] if lock is None else [theirs.fileno(), lock]
            self._process = subprocess.Popen(
                [sys.executable, "-c", BOOT, str(theirs.fileno()), str(cgroup or ""), path],
                stdin=subprocess.DEVNULL,
                pass_fds=passed,
                start_new_session=True,
            )
        self._sending = threading.Lock()
        self._thread = threading.Thread(target=self._listen, name="holdfast-warden", daemon=True)
        self._thread.start()

    @property
    def has_lived(self) -> bool:
        """Whether it ran for long enough that another one may, too."""
        return time.monotonic() - self._began > LIVED_S

    def send(self, errand: Errand) -> None:
        # One that is dying says so by the end of its socket.
        with self._sending, suppress(OSError):
            self._socket.sendall(framed(errand))

    def close(self) -> None:
        """Let it go, and wait until it has ended everything."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        try:
            self._process.wait(FAREWELL_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join()
        self._socket.close()

    def _listen(self) -> None:
        letters = Letters()
        while True:
            try:
                chunk = self._socket.recv(_CHUNK)
            except OSError:
                chunk = b""
            if not chunk:
                self._hear(Gone(self))
                return
            letters.add(chunk)
            for body in letters.bodies():
                self._hear(decode_news(body))
