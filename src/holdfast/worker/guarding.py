"""Who sees to it that a process group ends when nobody here can: a process apart from this one."""

from typing import Protocol


class Guardian(Protocol):
    """Told of the groups that warm children lead. May be called from any thread."""

    def guard(self, pid: int, *, must_end: bool) -> None:
        """End this group when this process is gone, and where it `must_end` also when the time
        told by `hold_until` has come."""

    def forget(self, pid: int) -> None:
        """The group has ended."""


class NoGuardian:
    """Where this process is the program itself, children end with it as well as the kernel can
    see to that."""

    def guard(self, pid: int, *, must_end: bool) -> None:
        """Nobody is told."""

    def forget(self, pid: int) -> None:
        """Nobody was told."""
