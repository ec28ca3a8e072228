"""A disk in memory that crashes, tears, fills up and fails when told to.

What is written stays in a cache, by sectors of 512 bytes, until it is synced. A power cut keeps,
drops or tears each unsynced sector by itself, and keeps or drops each unsynced change of a
directory by itself. The dice are the caller's, so the same seed gives the same wreck.
"""

import errno
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

SECTOR_BYTES: Final = 512
TORN_BYTES: Final = 40


class CrashNow(BaseException):
    """The machine is off. Not an `Exception`: no code under test may catch and survive it."""


class _File:
    """One file: what is on the platter, what the cache shows, and which sectors differ."""

    def __init__(self, content: bytes = b"") -> None:
        self.durable = bytearray(content)
        self.cached = bytearray(content)
        self.dirty: set[int] = set()

    def write(self, content: bytes, offset: int) -> None:
        end = offset + len(content)
        if end > len(self.cached):
            self.cached.extend(bytes(end - len(self.cached)))
        self.cached[offset:end] = content
        self.dirty.update(range(offset // SECTOR_BYTES, -(-end // SECTOR_BYTES)))

    def copy(self) -> "_File":
        twin = _File()
        twin.durable, twin.cached = bytearray(self.durable), bytearray(self.cached)
        twin.dirty = set(self.dirty)
        return twin

    def resize(self, size: int) -> None:
        if size < len(self.cached):
            del self.cached[size:]
        else:
            self.cached.extend(bytes(size - len(self.cached)))
        self.dirty = {sector for sector in self.dirty if sector * SECTOR_BYTES < size}

    def sync(self) -> None:
        self.durable = self._settled(len(self.cached), self.dirty)
        self.dirty.clear()

    def forget_dirt(self, *, tearing: bool) -> None:
        """A failed sync: the pages count as clean, read well, and never reach the platter whole."""
        if tearing:
            for sector in self.dirty:
                start = sector * SECTOR_BYTES
                end = min(start + TORN_BYTES, len(self.durable), len(self.cached))
                self.durable[start:end] = self.cached[start:end]
        self.dirty.clear()

    def after_power_cut(self, dice: Random) -> bytes:
        size = dice.choice((len(self.durable), len(self.cached)))
        kept = {sector for sector in sorted(self.dirty) if dice.random() < 0.6}
        content = self._settled(size, kept)
        for sector in sorted(kept):
            start = sector * SECTOR_BYTES
            if dice.random() < 0.25 and start < size:
                # The head wrote the front of this sector and lost power before its end. Small
                # fronts are likelier: that is where headers are.
                cut = start + dice.randrange(dice.choice((SECTOR_BYTES, 80)))
                end = min(start + SECTOR_BYTES, size)
                content[cut:end] = self.durable[cut:end].ljust(max(0, end - cut), b"\0")
        return bytes(content)

    def _settled(self, size: int, sectors: set[int]) -> bytearray:
        content = self.durable[:size]
        content.extend(bytes(size - len(content)))
        for sector in sectors:
            start = sector * SECTOR_BYTES
            end = min(start + SECTOR_BYTES, size, len(self.cached))
            if end > start:
                content[start:end] = self.cached[start:end]
        return content


class _Change(NamedTuple):
    """One change of directories: names that go, a name that comes, or a directory that comes."""

    gone: Path | None
    name: Path | None
    file: _File | None
    folder: Path | None = None


class _Open(NamedTuple):
    path: Path
    file: _File
    is_writable: bool


class FaultyDisk:
    """Implements the log's disk port. All faults are off until asked for.

    `operations` counts what was done, by name. `crash_at` switches the machine off right before
    that operation. `on_operation` is called before each one and may take an `image`.
    """

    def __init__(self) -> None:
        self.operations: Counter[str] = Counter()
        self.capacity: int | None = None
        self.write_budget: int | None = None
        self.largest_write: int | None = None
        self.fail_sync_at: int | None = None
        self.tear_failed_sync = False
        self.crash_at: int | None = None
        self.crash_is_power = True
        self.on_operation: Callable[[str, Path], None] | None = None
        self.is_off = False
        self._names: dict[Path, _File] = {}
        self._folders: set[Path] = {Path("/")}
        self._durable_names: dict[Path, _File] = {}
        self._durable_folders: set[Path] = {Path("/")}
        self._pending: list[_Change] = []
        self._opened: dict[int, _Open] = {}
        self._locks: dict[Path, int] = {}
        self._next_fd = 1000

    # What a test does to the disk.

    def image(self, dice: Random) -> "FaultyDisk":
        """What a power cut at this moment could leave behind. This disk goes on unharmed."""
        names, folders = dict(self._durable_names), set(self._durable_folders)
        for change in self._pending:
            if dice.random() < 0.5:
                _apply(change, names, folders)
        after = FaultyDisk()
        after.capacity = self.capacity
        after._folders = {folder for folder in folders if set(folder.parents) <= folders}
        after._durable_folders = set(after._folders)
        wrecks: dict[int, _File] = {}
        for path in sorted(names):
            if path.parent in after._folders:
                file = names[path]
                if id(file) not in wrecks:
                    wrecks[id(file)] = _File(file.after_power_cut(dice))
                after._names[path] = wrecks[id(file)]
        after._durable_names = dict(after._names)
        return after

    def copy(self) -> "FaultyDisk":
        """What the next program finds when this one is killed: the machine, its cache included."""
        files: dict[int, _File] = {}

        def twin(file: _File) -> _File:
            return files.setdefault(id(file), file.copy())

        after = FaultyDisk()
        after.capacity = self.capacity
        after._names = {path: twin(file) for path, file in self._names.items()}
        after._durable_names = {path: twin(file) for path, file in self._durable_names.items()}
        after._folders = set(self._folders)
        after._durable_folders = set(self._durable_folders)
        after._pending = [
            change._replace(file=None if change.file is None else twin(change.file))
            for change in self._pending
        ]
        return after

    def crash(self, dice: Random) -> None:
        """Cut the power and switch on again: every descriptor and lock is gone, every fault off."""
        hook, counted = self.on_operation, self.operations
        self.__dict__.update(self.image(dice).__dict__)
        self.on_operation, self.operations = hook, counted

    def restart(self) -> None:
        """The program died, not the machine: the cache stays, descriptors and locks are gone."""
        self._opened.clear()
        self._locks.clear()
        self.is_off = False
        self.crash_at = None

    def plant(self, path: Path, content: bytes) -> None:
        """Make this the durable content of a file, as bit rot or an operator would."""
        self._names[path] = self._durable_names[path] = _File(content)
        self._folders.update(path.parents)
        self._durable_folders.update(path.parents)

    def content(self, path: Path) -> bytes:
        return bytes(self._names[path].cached)

    def files(self) -> list[Path]:
        return sorted(self._names)

    @property
    def used(self) -> int:
        """Bytes taken by files that have a name."""
        return sum(len(file.cached) for file in {id(f): f for f in self._names.values()}.values())

    @property
    def total_operations(self) -> int:
        return sum(self.operations.values())

    # The port.

    def open(self, path: Path, *, write: bool = False, create: bool = False) -> int:
        self._check_on()
        if path not in self._names:
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            self._check_folder(path.parent)
            self._count("create", path)
            self._change(_Change(None, path, _File()))
        self._next_fd += 1
        self._opened[self._next_fd] = _Open(path, self._names[path], write or create)
        return self._next_fd

    def close(self, fd: int) -> None:
        self._check_on()
        self._of(fd)
        del self._opened[fd]

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        self._check_on()
        return bytes(self._of(fd).file.cached[offset : offset + size])

    def pwrite(self, fd: int, content: bytes, offset: int) -> int:
        opened = self._of(fd)
        if not opened.is_writable:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        self._count("pwrite", opened.path)
        taken = min(len(content), self._room(opened.file, len(content), offset))
        if taken <= 0 < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(opened.path))
        if self.largest_write is not None:
            taken = min(taken, self.largest_write)
        if self.write_budget is not None:
            self.write_budget -= taken
        opened.file.write(content[:taken], offset)
        return taken

    def size(self, fd: int) -> int:
        self._check_on()
        return len(self._of(fd).file.cached)

    def truncate(self, fd: int, size: int) -> None:
        opened = self._of(fd)
        self._count("truncate", opened.path)
        opened.file.resize(size)

    def fdatasync(self, fd: int) -> None:
        self._sync(fd, "fdatasync")

    def fsync(self, fd: int) -> None:
        self._sync(fd, "fsync")

    def fsync_dir(self, path: Path) -> None:
        self._check_folder(path)
        self._count("fsync_dir", path)
        self._fail_sync_if_due()
        for change in [change for change in self._pending if _touches(change, path)]:
            _apply(change, self._durable_names, self._durable_folders)
            self._pending.remove(change)

    def mkdir(self, path: Path) -> None:
        self._check_folder(path.parent)
        if path not in self._folders:
            self._count("mkdir", path)
            self._change(_Change(None, None, None, path))

    def rename(self, source: Path, target: Path) -> None:
        self._check_on()
        if source not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(source))
        self._check_folder(target.parent)
        self._count("rename", target)
        self._change(_Change(source, target, self._names[source]))

    def unlink(self, path: Path) -> None:
        self._check_on()
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        self._count("unlink", path)
        self._change(_Change(path, None, None))

    def listdir(self, path: Path) -> list[str]:
        self._check_on()
        self._check_folder(path)
        # Compared as text: a simulation lists folders all the time, and paths are slow to compare.
        here = f"{path}/".replace("//", "/")
        inside = (str(entry) for entry in (*self._names, *self._folders))
        return sorted(
            name[len(here) :]
            for name in inside
            if name.startswith(here) and len(name) > len(here) and "/" not in name[len(here) :]
        )

    def exists(self, path: Path) -> bool:
        self._check_on()
        return path in self._names or path in self._folders

    def is_at(self, fd: int, path: Path) -> bool:
        self._check_on()
        return self._names.get(path) is self._of(fd).file

    def lock(self, path: Path) -> int | None:
        fd = self.open(path, create=True)
        if path in self._locks:
            self.close(fd)
            return None
        self._locks[path] = fd
        return fd

    def unlock(self, fd: int) -> None:
        self._check_on()
        del self._locks[self._of(fd).path]
        self.close(fd)

    def _sync(self, fd: int, name: str) -> None:
        opened = self._of(fd)
        self._count(name, opened.path)
        try:
            self._fail_sync_if_due()
        except OSError:
            opened.file.forget_dirt(tearing=self.tear_failed_sync)
            raise
        opened.file.sync()

    def _fail_sync_if_due(self) -> None:
        done = self.operations
        if done["fsync"] + done["fdatasync"] + done["fsync_dir"] == self.fail_sync_at:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def _room(self, file: _File, wanted: int, offset: int) -> int:
        """How many bytes a write may take: writing over what exists needs no space, growing does.

        A budget, unlike a capacity, is used up by every write, as on a disk that copies on write.
        """
        room = wanted
        if self.capacity is not None:
            room = min(room, max(0, len(file.cached) - offset) + max(0, self.capacity - self.used))
        if self.write_budget is not None:
            room = min(room, self.write_budget)
        return room

    def _change(self, change: _Change) -> None:
        _apply(change, self._names, self._folders)
        self._pending.append(change)

    def _of(self, fd: int) -> _Open:
        opened = self._opened.get(fd)
        if opened is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return opened

    def _count(self, name: str, path: Path) -> None:
        self._check_on()
        if self.on_operation is not None:
            self.on_operation(name, path)
        if self.crash_at is not None and self.total_operations >= self.crash_at:
            self.is_off = True
            raise CrashNow(f"power was cut before operation {self.total_operations}: {name} {path}")
        self.operations[name] += 1

    def _check_on(self) -> None:
        if self.is_off:
            raise CrashNow("the machine is off")

    def _check_folder(self, path: Path) -> None:
        self._check_on()
        if path not in self._folders:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


def _apply(change: _Change, names: dict[Path, _File], folders: set[Path]) -> None:
    if change.folder is not None:
        folders.add(change.folder)
    if change.gone is not None:
        names.pop(change.gone, None)
    if change.name is not None and change.file is not None:
        names[change.name] = change.file


def _touches(change: _Change, folder: Path) -> bool:
    touched = (change.gone, change.name, change.folder)
    return any(path is not None and path.parent == folder for path in touched)
