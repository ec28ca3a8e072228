"""Programs that die at a system call: before the Nth write, sync, rename or opening of a file.

`strace` watches a program that has stopped, and kills it where it is told to. The calls of each
kind are counted apart, from the moment on when it is let go.
"""

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Final

from holdfast.testing.log_stories import Lost
from holdfast.testing.patience import until
from holdfast.testing.scribe import Order
from holdfast.testing.scribes import Scribes, judge, promises_in

CALLS: Final = (
    "pwrite64",
    "fdatasync",
    "fsync",
    "rename",
    "openat",
    "ftruncate",
    "unlink",
    "mkdir",
    "flock",
)
"""Whatever a log does to a disk."""
PATIENCE_S: Final = 60.0


def die_at(scribes: Scribes, order: Order, call: str, number: int) -> bool:
    """Let one scribe live until its Nth call of this kind; whether it came there."""
    pid = scribes.begin(order)
    with subprocess.Popen(
        [
            *("strace", "-qq", "-p", str(pid), "-o", "/dev/null", "-e", f"trace={call}"),
            *("-e", f"inject={call}:signal=KILL:when={number}"),
        ]
    ) as watcher:
        until(lambda: _tracer_of(pid) == watcher.pid)
        os.kill(pid, signal.SIGCONT)
        code = scribes.end()
        watcher.wait(PATIENCE_S)
    return code != 0


def _tracer_of(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.partition("TracerPid:")[2].split(None, 1)[0])


class Deaths:
    """Lives that all begin as `start` left its folder, or in none, and end at one call or other."""

    def __init__(
        self, scribes: Scribes, folder: Path, seed: str, *, frames: int, start: Order | None = None
    ) -> None:
        self._scribes = scribes
        self._folder = folder
        self._seed = seed
        self._frames = frames
        self._start = start

    def at(self, call: str, number: int) -> bool:
        """One death, and the judgement of what it leaves; False where the life came to its end."""
        data, notes = self._folder / "data", self._folder / "notes"
        shutil.rmtree(data, ignore_errors=True)
        notes.unlink(missing_ok=True)
        if self._start is not None:
            shutil.copytree(self._start.folder, data)
            shutil.copy(self._start.notes, notes)
        order = Order(str(data), str(notes), self._seed, self._frames)
        was_killed = die_at(self._scribes, order, call, number)
        try:
            judge(data, promises_in(notes))
        except Exception as error:
            raise Lost(f"killed at {call} {number} with seed {self._seed}: {error!r}") from error
        return was_killed

    def at_every(self, call: str, *, first: int = 1, step: int = 1) -> int:
        """Until a life meets no such call any more; how many were killed."""
        number = first
        while self.at(call, number):
            number += step
        return (number - first) // step
