"""Ballast: space that is held so that it can be let go of when there is no other.

On a full disk the last records matter most: those that end what runs. A file of zeros keeps room
for them, which nobody else can take. It is let go of once, and made again when there is plenty.
"""

from pathlib import Path
from typing import Final

from holdfast.wal.disk import Disk, is_full, size_of, write_all

BALLAST_NAME: Final = "ballast"
BALLAST_BYTES: Final = 8 * 1024 * 1024
FILL_BYTES: Final = 1024 * 1024


class Ballast:
    """The file in a data folder. Safe to lose, and to delete by hand."""

    def __init__(self, disk: Disk, folder: Path, size: int = BALLAST_BYTES) -> None:
        self.path = folder / BALLAST_NAME
        self.size = size
        self._disk = disk

    def is_held(self) -> bool:
        return self._disk.exists(self.path) and size_of(self._disk, self.path) >= self.size

    def hold(self) -> bool:
        """Take the space, really written; whether there was so much. Takes a while."""
        if self.is_held():
            return True
        fd = self._disk.open(self.path, create=True)
        try:
            for offset in range(0, self.size, FILL_BYTES):
                write_all(self._disk, fd, bytes(min(FILL_BYTES, self.size - offset)), offset)
            self._disk.fsync(fd)
        except OSError as error:
            if not is_full(error):
                raise
            self._disk.unlink(self.path)
            return False
        finally:
            self._disk.close(fd)
        return True

    def let_go(self) -> bool:
        """Give the space back; whether there was any."""
        if not self._disk.exists(self.path):
            return False
        self._disk.unlink(self.path)
        return True
