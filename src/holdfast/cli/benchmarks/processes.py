"""Processes that a row starts and always ends: they are heard, and killed where they will not go.

What a process says is read all the time, so that it never waits for us to listen, and
the last of it is told when something goes wrong.
"""

import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from holdfast.cli.benchmarks.row import RowFailed

PATIENCE_S: Final = 60.0
GRACE_S: Final = 15.0
LINES_KEPT: Final = 200


class Started:
    """A process in a session of its own, so that all it has started can be ended with it."""

    def __init__(
        self,
        words: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        user: str | None = None,
    ) -> None:
        self.grace_s = GRACE_S
        self._name = " ".join(words[:4])
        self._lines: deque[str] = deque(maxlen=LINES_KEPT)
        self._changed = threading.Condition()
        self._is_silent = False
        self._process = subprocess.Popen(
            words,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
        )
        self.pid = self._process.pid
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def wait_to_hear(self, text: str, patience_s: float = PATIENCE_S) -> None:
        """Until it has said so; `RowFailed` with its last words where it ends or stays silent."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_silent or self._has_said(text), patience_s)
            if not self._has_said(text):
                raise RowFailed(f"{self._name} did not say {text!r}: {self.last_words()}")

    def wait_for_end(self, patience_s: float) -> None:
        """Until it has ended well; `RowFailed` with its last words where it has not."""
        try:
            code = self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            raise RowFailed(f"{self._name} took too long: {self.last_words()}") from None
        if code != 0:
            # It is heard to its end: why it failed is the last thing it says.
            self._listener.join(GRACE_S)
            raise RowFailed(f"{self._name} ended with {code}: {self.last_words()}")

    def last_words(self) -> str:
        return " / ".join(list(self._lines)[-3:]) or "it said nothing"

    def check(self) -> None:
        """`RowFailed` where it has ended though nobody asked it to."""
        code = self._process.poll()
        if code is not None:
            raise RowFailed(f"{self._name} ended with {code}: {self.last_words()}")

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ask it to go, and kill it and all it has started where it does not."""
        with suppress(ProcessLookupError):
            self._process.send_signal(number)
        try:
            self._process.wait(self.grace_s)
        except subprocess.TimeoutExpired:
            pass
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()
            self._listener.join(GRACE_S)

    def _has_said(self, text: str) -> bool:
        return any(text in line for line in self._lines)

    def _listen(self) -> None:
        stream = self._process.stdout
        if stream is None:
            return
        with stream:
            for line in stream:
                with self._changed:
                    self._lines.append(line.strip())
                    self._changed.notify_all()
        with self._changed:
            self._is_silent = True
            self._changed.notify_all()


@contextmanager
def started(
    words: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    *,
    ready: Callable[[Started], None],
    user: str | None = None,
    end_by: signal.Signals = signal.SIGTERM,
) -> Iterator[Started]:
    """A process that is ready inside, and gone afterwards whatever happened."""
    process = Started(words, folder, environment, user)
    try:
        ready(process)
        yield process
    finally:
        process.end(end_by)
