"""The disk as the log sees it: a port, and its real implementation over `os`.

Everything the log does to files goes through `Disk`, so that a test or a simulator can tear,
fail or count every single operation.
"""

import errno
import fcntl
import os
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

NAME_DIGITS: Final = 20


class Disk(Protocol):
    """Files by descriptor, directories by path. Every method may raise `OSError`."""

    def open(self, path: Path, *, write: bool = False, create: bool = False) -> int:
        """A descriptor that no program started later inherits. `create` implies `write`."""

    def close(self, fd: int) -> None: ...

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""

    def pwrite(self, fd: int, content: bytes, offset: int) -> int:
        """How many bytes were taken: perhaps fewer than given."""

    def size(self, fd: int) -> int: ...

    def truncate(self, fd: int, size: int) -> None: ...

    def fdatasync(self, fd: int) -> None:
        """Return only when the bytes already in the file survive a power cut."""

    def fsync(self, fd: int) -> None:
        """As `fdatasync`, and the size of the file too."""

    def fsync_dir(self, path: Path) -> None:
        """Return only when the names in this directory survive a power cut."""

    def mkdir(self, path: Path) -> None:
        """Make one directory, readable by its owner alone. One that exists is left as it is."""

    def rename(self, source: Path, target: Path) -> None: ...

    def unlink(self, path: Path) -> None: ...

    def listdir(self, path: Path) -> list[str]: ...

    def exists(self, path: Path) -> bool: ...

    def is_at(self, fd: int, path: Path) -> bool:
        """Whether the file of this descriptor is still the one that bears this name."""

    def lock(self, path: Path) -> int | None:
        """Take the file as one's own, creating it; None while another holds it."""

    def unlock(self, fd: int) -> None:
        """Let go of a lock and close its descriptor."""


class _Hold:
    """A lock's descriptor, closed in every forked child.

    A fork shares the open file, and with it the lock: a child that outlives its parent would keep
    the folder locked for ever. The child closes its copy and must not unlock, because unlocking
    would also free the parent's.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        os.register_at_fork(after_in_child=_closer(weakref.ref(self)))


def _closer(hold: "weakref.ref[_Hold]") -> Callable[[], None]:
    def close_in_child() -> None:
        held = hold()
        if held is not None and held.fd >= 0:
            # A grandchild comes through here too, and by then the number may be another file's.
            fd, held.fd = held.fd, -1
            os.close(fd)

    return close_in_child


class RealDisk:
    """The disk under this machine's file system.

    `fsync` on macOS only reaches the drive's own cache; there `F_FULLFSYNC` is what a sync means.
    """

    def __init__(self) -> None:
        self._holds: dict[int, _Hold] = {}
        self._full_sync: int | None = getattr(fcntl, "F_FULLFSYNC", None)

    def open(self, path: Path, *, write: bool = False, create: bool = False) -> int:
        flags = os.O_RDWR if write or create else os.O_RDONLY
        if create:
            flags |= os.O_CREAT
        return os.open(path, flags | os.O_CLOEXEC, 0o600)

    def close(self, fd: int) -> None:
        os.close(fd)

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        chunk = os.pread(fd, size, offset)
        if len(chunk) == size or not chunk:
            return chunk
        parts = [chunk]
        got = len(chunk)
        while got < size and (chunk := os.pread(fd, size - got, offset + got)):
            parts.append(chunk)
            got += len(chunk)
        return b"".join(parts)

    def pwrite(self, fd: int, content: bytes, offset: int) -> int:
        return os.pwrite(fd, content, offset)

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def fdatasync(self, fd: int) -> None:
        if self._full_sync is None:
            os.fdatasync(fd)
        else:
            fcntl.fcntl(fd, self._full_sync)

    def fsync(self, fd: int) -> None:
        if self._full_sync is None:
            os.fsync(fd)
        else:
            fcntl.fcntl(fd, self._full_sync)

    def fsync_dir(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.fsync(fd)
        finally:
            os.close(fd)

    def mkdir(self, path: Path) -> None:
        path.mkdir(mode=0o700, exist_ok=True)

    def rename(self, source: Path, target: Path) -> None:
        source.rename(target)

    def unlink(self, path: Path) -> None:
        path.unlink()

    def listdir(self, path: Path) -> list[str]:
        return sorted(os.listdir(path))

    def exists(self, path: Path) -> bool:
        return path.exists()

    def is_at(self, fd: int, path: Path) -> bool:
        try:
            named = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return os.path.samestat(os.fstat(fd), named)

    def lock(self, path: Path) -> int | None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                return None
            raise
        self._holds[fd] = _Hold(fd)
        return fd

    def unlock(self, fd: int) -> None:
        # The hold goes first: a fork between the two must not close a number used anew.
        del self._holds[fd]
        fcntl.flock(fd, fcntl.LOCK_UN)
        os.close(fd)


def write_all(disk: Disk, fd: int, content: bytes, offset: int) -> None:
    """Write every byte, however small the pieces the disk takes."""
    taken = disk.pwrite(fd, content, offset)
    while taken < len(content):
        more = disk.pwrite(fd, content[taken:], offset + taken)
        if more <= 0:
            raise OSError(errno.EIO, "the disk takes no more bytes and gives no reason")
        taken += more


def write_whole(disk: Disk, path: Path, content: bytes) -> None:
    """A new file with this content, on the disk when this returns; its folder is not synced."""
    fd = disk.open(path, create=True)
    try:
        disk.truncate(fd, 0)
        write_all(disk, fd, content, 0)
        disk.fsync(fd)
    finally:
        disk.close(fd)


def read_all(disk: Disk, path: Path, most: int | None = None) -> bytes:
    """The bytes of a file, or the first `most` of them."""
    fd = disk.open(path)
    try:
        return disk.pread(fd, disk.size(fd) if most is None else most, 0)
    except OSError as error:
        # By descriptor the system does not say which file it could not read.
        raise type(error)(error.errno, error.strerror, str(path)) from error
    finally:
        disk.close(fd)


def size_of(disk: Disk, path: Path) -> int:
    fd = disk.open(path)
    try:
        return disk.size(fd)
    finally:
        disk.close(fd)


def is_numbered(name: str, suffix: str) -> bool:
    """Whether a file's name is a position and this suffix: only such files are ours."""
    stem = name.removesuffix(suffix)
    return stem != name and len(stem) == NAME_DIGITS and stem.isascii() and stem.isdigit()


def is_full(error: OSError) -> bool:
    """Whether this error means that space ran out, by whatever limit."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def make_folder(disk: Disk, path: Path) -> None:
    """The folder and its missing parents exist, also after a power cut.

    The deepest one that is already there is synced too: whoever made it may have died right after.
    """
    missing = []
    while not disk.exists(path):
        missing.append(path)
        path = path.parent
    # A parent that we may enter but not read belongs to someone else, who made it long ago.
    with suppress(PermissionError):
        disk.fsync_dir(path.parent)
    for folder in reversed(missing):
        disk.mkdir(folder)
        disk.fsync_dir(folder.parent)
