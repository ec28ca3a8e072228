"""Whether everything that must hold does, and whether the disk has room: for programs that look
after their own log, or after a server."""

from msgspec import Struct


class LastCheck(Struct, frozen=True):
    """The last check of everything up to `position`. No violations: all that must hold does."""

    position: int
    at: str
    seconds: float
    violations: list[str]


class DiskRoom(Struct, frozen=True):
    """Bytes of the disk under the log. Below `low` no more work is taken, below `stop` only what
    runs may end; `short` is `disk_low`, `disk_full`, `disk_slow` or empty."""

    free: int
    total: int
    low: int
    stop: int
    short: str


class Health(Struct, frozen=True):
    """`check` is None as long as none was made."""

    check: LastCheck | None
    disk: DiskRoom

    @property
    def is_good(self) -> bool:
        """Whether nothing is known to be wrong."""
        return (self.check is None or not self.check.violations) and not self.disk.short
