"""A worker's name on its machine: held by one process at a time, and by nobody who is dead.

The lock ends with the last process that holds it, so whoever has it proves that the former holder
and everything that was given the lock with it are gone. Its identity says which lock it is: the
same words from two processes mean the same lock of the same machine.
"""

import fcntl
import os
import time
from pathlib import Path
from typing import Final

from holdfast.core.errors import OperatingError

PATIENCE_S: Final = 5.0
PAUSE_S: Final = 0.02
BOOT_FILE: Final = Path("/proc/sys/kernel/random/boot_id")


class NameTaken(OperatingError):
    """Another process of this machine works under that name."""


class NameLock:
    """Take the lock at `path`, which is never removed. A worker that was killed may have left
    processes that are just being ended, so there is a little patience in it."""

    def __init__(self, path: Path, *, patience_s: float = PATIENCE_S) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._take(path, time.monotonic() + patience_s)
        except BaseException:
            os.close(self.descriptor)
            raise
        os.truncate(self.descriptor, 0)
        os.pwrite(self.descriptor, f"{os.getpid()}\n".encode(), 0)
        status = os.fstat(self.descriptor)
        self.identity = f"{_boot()}:{status.st_dev:x}:{status.st_ino:x}"

    def close(self) -> None:
        os.close(self.descriptor)

    def _take(self, path: Path, give_up_at: float) -> None:
        while True:
            try:
                fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= give_up_at:
                    holder = os.pread(self.descriptor, 32, 0).decode("ascii", "replace").strip()
                    raise NameTaken(f"{path} is held by process {holder or '?'}") from None
                time.sleep(PAUSE_S)
            else:
                return


def _boot() -> str:
    """Which life of which machine this is; a lock does not outlive it."""
    try:
        return BOOT_FILE.read_text(encoding="ascii").strip()
    except OSError:
        return f"{os.uname().nodename}"
