"""File systems in files, mounted for real, that lose their power when told to."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from holdfast.testing.tools import LOOP, ROOT, program

EXT4, XFS = "ext4", "xfs"
KINDS: Final = (EXT4, XFS)
NEEDS: Final = (ROOT, LOOP, "mkfs.ext4", "mkfs.xfs", "xfs_io")
_SIZES: Final = {EXT4: 64 * 2**20, XFS: 320 * 2**20}
_MAKE: Final = {
    EXT4: ("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"),
    XFS: ("mkfs.xfs", "-q", "-f"),
}
PATIENCE_S: Final = 60.0


def run(name: str, *arguments: object) -> None:
    """Run a program of an administrator; `RuntimeError` with what it said where it fails."""
    command = [program(name) or name, *map(str, arguments)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE_S, check=False
    )
    if done.returncode:
        said = done.stdout.decode(errors="replace")
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {said}")


class Mounted:
    """A file system of its own in a file, here for as long as this is entered.

    The file is in memory: what a cut takes away is what the file system had not handed down yet,
    wherever down is, and memory takes a thousand cuts in the time a disk takes a hundred.
    """

    def __init__(self, folder: Path, kind: str) -> None:
        self.place = folder / f"{kind}-here"
        self._memory = folder / f"{kind}-image"
        self._image = self._memory / "image"
        self._kind = kind
        self._leaving = ExitStack()

    def __enter__(self) -> "Mounted":
        with ExitStack() as leaving:
            leaving.enter_context(in_memory(self._memory, 2 * _SIZES[self._kind]))
            self.place.mkdir()
            with self._image.open("wb") as image:
                image.truncate(_SIZES[self._kind])
            name, *options = _MAKE[self._kind]
            run(name, *options, self._image)
            self.mount()
            self._leaving = leaving.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._leaving:
            leave(self.place)

    def mount(self) -> None:
        """Also after a power cut: then the file system mends itself from its journal."""
        run("mount", "-o", "loop", self._image, self.place)

    def unmount(self) -> None:
        run("umount", self.place)

    def cut_the_power(self) -> None:
        """Nothing more reaches the disk, not even what was written and not synced. Whoever writes
        must have been stopped: a sync that is under way would say that all is well."""
        run("xfs_io", "-x", "-c", "shutdown", self.place)


def leave(place: Path) -> None:
    """Unmount it whatever is still open there: a test that failed leaves nothing behind."""
    with suppress(RuntimeError):
        run("umount", "-l", place)


@contextmanager
def in_memory(place: Path, size: int) -> Iterator[Path]:
    """A file system in memory with so many bytes and not one more."""
    place.mkdir()
    run("mount", "-t", "tmpfs", "-o", f"size={size}", "none", place)
    try:
        yield place
    finally:
        leave(place)
