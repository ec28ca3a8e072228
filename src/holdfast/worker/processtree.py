"""Who is whose child, and for which attempt: what the system knows of processes that were started
for a command and have left it."""

import ctypes
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from holdfast.core.ids import LeaseId

LEASE_VARIABLE: Final = "HOLDFAST_LEASE_ID"

_PR_SET_CHILD_SUBREAPER: Final = 36


def adopt_orphans() -> None:
    """From now on a descendant whose parent has died becomes a child of this process, where the
    system knows how."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def children_of(pid: int) -> list[int]:
    """Its children, dead ones that nobody has reaped included."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        # A system without that file: everybody is looked at.
        with suppress(psutil.Error):
            return [child.pid for child in psutil.Process(pid).children()]
        return []


def began_at(pid: int) -> float | None:
    """When this process began; None where there is none of that number."""
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return None


def lease_of(pid: int) -> LeaseId | None:
    """The lease a process was started under, by its environment; None where it does not say."""
    with suppress(OSError, ValueError):
        for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            name, _, value = entry.partition(b"=")
            if name == LEASE_VARIABLE.encode():
                return LeaseId(int(value))
    return None
