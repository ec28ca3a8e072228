"""Who owns a folder and how its clocks stand, learnt without a lock: nobody is disturbed."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil
from msgspec import Struct

from holdfast.coordinator.inspect import LOCK, look_into, undisturbed

PROCESSES: Final = Path("/proc")


class Drift(Struct, frozen=True):
    """`drift_ms`: how much the wall clock moved against the clock of the log since this opening
    of the log. `ahead_ms`: how much later than now the last record was written, by the wall
    clock; zero where it was earlier."""

    drift_ms: int
    ahead_ms: int


def owner_of(path: Path) -> str:
    """The process that has the folder open, in words; empty where none has."""
    lock = path / LOCK
    try:
        note = json.loads(lock.read_bytes() or b"{}")
    except FileNotFoundError:
        return ""
    except ValueError:
        note = {}
    pid = note.get("pid")
    if not isinstance(pid, int) or not _has_open(pid, lock):
        return ""
    return f"process {pid} on {note.get('host', '?')}: {note.get('command', '?')}"


def _has_open(pid: int, file: Path) -> bool:
    """Whether that process lives and has this file open, as far as we may see."""
    if not psutil.pid_exists(pid):
        return False
    place = file.stat()
    opened = PROCESSES / str(pid) / "fd"
    try:
        names = os.listdir(opened)
    except OSError:
        # Somebody else's process: that it lives is all that can be known.
        return True
    for name in names:
        with suppress(OSError):
            if os.path.samestat(os.stat(opened / name), place):
                return True
    return False


def drift_of(path: Path, now_wall: int) -> Drift:
    """How far the clocks have parted, as the frames of the last epoch remember it."""
    return undisturbed(lambda: _drift(path, now_wall))


def _drift(path: Path, now_wall: int) -> Drift:
    folder = look_into(path)
    if folder.last < folder.oldest:
        return Drift(0, 0)
    last, _ = folder.reader.record(folder.last)
    first = next(frame for frame in folder.reader.read(folder.oldest) if frame.epoch == last.epoch)
    parted = (last.wall - last.at) - (first.wall - first.at)
    return Drift(parted, max(0, last.wall - now_wall))
