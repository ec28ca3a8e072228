"""One child process seen from its parent: started, spoken to without ever waiting, buried.

A task may block its interpreter for an hour, and the socket to it fills up. Nothing here waits
for a living child.
"""

import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Final

from holdfast.worker import frames
from holdfast.worker.child import BOOT
from holdfast.worker.frames import Inbox, Setup, encode, frame
from holdfast.worker.results import Place
from holdfast.worker.slate import Slate
from holdfast.worker.staging import Bench

_CHUNK: Final = 1 << 18
_CHUNKS_MAX: Final = 64


class WarmChild:
    """A living child. It leads a session of its own: Ctrl-C at the terminal never reaches it,
    and one signal to its group reaches everything its tasks have started."""

    def __init__(
        self,
        slate: Slate,
        crash: int,
        folder: str,
        *,
        dooms: bool = True,
        bundle: str = "",
        outputs: tuple[int, int] | None = None,
        worker: str = "",
        results: Place | None = None,
        bench: Bench | None = None,
    ) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            descriptors = (theirs.fileno(), slate.descriptor, crash)
            numbers = [str(number) for number in (os.getpid(), *descriptors)]
            entries: list[object] = [*sys.path]
            # Python passes over entries that are no text, such as a Path; so do we.
            path = "\n".join(entry or folder for entry in entries if isinstance(entry, str))
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", BOOT, *numbers, path],
                    stdin=subprocess.DEVNULL,
                    stdout=outputs[0] if outputs else None,
                    stderr=outputs[1] if outputs else None,
                    pass_fds=descriptors,
                    cwd=folder,
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                raise
        ours.setblocking(False)
        self.link = ours
        self.pid = self._process.pid
        # Tells of the death even when a grandchild keeps the socket open.
        self.pidfd = os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else None
        self._inbox = Inbox()
        self.is_garbled = False
        self._unsent = bytearray()
        words = [os.fsencode(str(word)) for word in sys.argv]
        is_captured = outputs is not None
        setup = Setup(
            words, dooms=dooms, captured=is_captured, bundle=bundle, worker=worker,
            results=results, bench=bench,
        )
        self.send(frames.SETUP, encode(setup))

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    @property
    def wanted_events(self) -> int:
        """What to wait for at its socket."""
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)

    def send(self, kind: int, body: bytes = b"") -> None:
        self._unsent += frame(kind, body)
        self.push()

    def push(self) -> None:
        """Send as much as the socket takes now."""
        while self._unsent:
            try:
                sent = self.link.send(memoryview(self._unsent)[:_CHUNK])
            except BlockingIOError:
                return
            except OSError:
                # It is dying; the end of the socket will say so.
                self._unsent.clear()
                return
            del self._unsent[:sent]

    def receive(self) -> bool:
        """Take in what has arrived, up to a bound so that one child cannot hold up the others.

        False when the child has closed its end.
        """
        for _ in range(_CHUNKS_MAX):
            try:
                chunk = self.link.recv(_CHUNK)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not chunk:
                return False
            self._inbox.add(chunk)
        return True

    def notices(self) -> Iterator[tuple[int, bytes]]:
        return self._inbox.frames()

    def signal(self, number: signal.Signals) -> None:
        """To the whole group. The child is not buried yet, so its number is nobody else's."""
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            # No group before the child has made it its own, or none left in it.
            self._process.send_signal(number)

    def bury(self) -> int:
        """Kill what is left of the group and take the exit status: negative for a signal."""
        self.signal(signal.SIGKILL)
        code = self._process.wait()
        if self.pidfd is not None:
            os.close(self.pidfd)
        self.link.close()
        return code


Outputs = tuple[int, int] | None
"""Where a child prints, if not where this program does: descriptors for stdout and stderr."""

Start = Callable[[Slate, int, str, Outputs], WarmChild]
"""Start a child for the bundle with this digest, or for none."""


def starter(
    folder: str, *, dooms: bool, bundles: str, worker: str, results: Place | None,
    bench: Bench | None,
) -> Start:
    """Children of one executor have the same beginning, but for their bundles."""

    def start(slate: Slate, crash: int, bundle: str, outputs: Outputs) -> WarmChild:
        place = os.path.join(bundles, bundle) if bundle else ""
        return WarmChild(
            slate, crash, folder, dooms=dooms, bundle=place, outputs=outputs, worker=worker,
            results=results, bench=bench,
        )  # fmt: skip

    return start
