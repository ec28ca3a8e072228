"""Memory caps by the kernel's own account: control groups, version 2, where the system lets us.

A cap on addresses (RLIMIT_AS) strikes programs that reserve much and use little, and misses those
that start others. A control group counts what all processes of an attempt really use, kills them
when it is too much, and says afterwards that it was the cap that struck.
"""

import os
import resource
from contextlib import suppress
from pathlib import Path
from typing import Final

CGROUP: Final = "cgroup"
ADDRESSES: Final = "rlimit"
NONE: Final = "none"

_SUPERVISOR: Final = "holdfast-worker"
_OWN: Final = Path("/proc/self/cgroup")
_MOUNTS: Final = Path("/proc/self/mountinfo")


class MemoryGroup:
    """The group of one attempt. Whoever enters it stays in it, with all it starts."""

    def __init__(self, folder: Path, memory_bytes: int) -> None:
        folder.mkdir()
        self._folder = folder
        try:
            (folder / "memory.max").write_text(str(memory_bytes))
            for name, value in (("memory.swap.max", "0"), ("memory.oom.group", "1")):
                # Not every kernel has them; the cap holds without.
                with suppress(OSError):
                    (folder / name).write_text(value)
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
            self._door = os.open(folder / "cgroup.procs", flags, 0o600)
        except BaseException:
            with suppress(OSError):
                folder.rmdir()
            raise

    def enter(self) -> None:
        """Called between fork and exec: nothing is opened here."""
        os.write(self._door, b"0")

    def was_struck(self) -> bool:
        """Whether something in it was killed because all of it took too much."""
        with suppress(OSError, ValueError):
            for line in (self._folder / "memory.events").read_text().splitlines():
                name, _, count = line.partition(" ")
                if name == "oom_kill":
                    return int(count) > 0
        return False

    def close(self) -> None:
        """End what is left in it; nobody enters any more."""
        os.close(self._door)
        with suppress(OSError):
            (self._folder / "cgroup.kill").write_text("1")

    def remove(self) -> bool:
        """Whether it is gone. It cannot go before the last process in it has."""
        try:
            self._folder.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True


class MemoryGroups:
    """A group that is ours to divide."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._over: list[MemoryGroup] = []

    def open(self, name: str, memory_bytes: int) -> MemoryGroup:
        """A group of its own for an attempt, or `OSError`."""
        self.sweep()
        return MemoryGroup(self._folder / name, memory_bytes)

    def close(self, group: MemoryGroup) -> None:
        """The attempt is over, and so is everything in its group."""
        group.close()
        self._over.append(group)
        self.sweep()

    def sweep(self) -> None:
        """Let go of groups whose last process has ended."""
        self._over = [group for group in self._over if not group.remove()]


def how_memory_is_capped(folder: Path | None) -> str:
    """What this system lets us do, in a word."""
    if folder is not None:
        return CGROUP
    return ADDRESSES if hasattr(resource, "RLIMIT_AS") else NONE


def delegated(own: Path = _OWN, mounts: Path = _MOUNTS) -> Path | None:
    """The group this process is in, made ready to be divided; None where that is not ours to do.

    A group with processes in it cannot be divided, so this process moves into one below it. It does
    that only where it is alone: others are not ours to move.
    """
    try:
        folder = _own_group(own.read_text(), mounts.read_text())
        if folder is None or "memory" not in _words(folder / "cgroup.controllers"):
            return None
        if "memory" not in _words(folder / "cgroup.subtree_control"):
            if _words(folder / "cgroup.procs") != [str(os.getpid())]:
                return None
            below = folder / _SUPERVISOR
            below.mkdir(exist_ok=True)
            (below / "cgroup.procs").write_text(str(os.getpid()))
            (folder / "cgroup.subtree_control").write_text("+memory")
        trial = folder / f"holdfast-trial-{os.getpid()}"
        trial.mkdir()
        trial.rmdir()
    except OSError:
        return None
    return folder


def _own_group(own: str, mounts: str) -> Path | None:
    inside = next((line[3:] for line in own.splitlines() if line.startswith("0::")), None)
    for line in mounts.splitlines():
        fields, _, rest = line.partition(" - ")
        if inside is not None and rest.startswith("cgroup2 "):
            root, place = fields.split()[3:5]
            return Path(place) / Path(inside).relative_to(root) if inside.startswith(root) else None
    return None


def _words(path: Path) -> list[str]:
    return path.read_text().split()
