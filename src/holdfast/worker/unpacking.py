"""Unpacking a bundle that may have been made to do harm. See `wire.archives` for its form.

Nothing is written but new files and folders below a new folder. Every one is made relative to the
descriptor of the folder it is in and never through a link, so whatever happens to the paths around
it meanwhile, nothing can leave it. The target appears in one step, when everything in it is on the
disk; a crash before that leaves a folder with another name, which `sweep` removes.
"""

import os
import secrets
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from msgspec import Struct

from holdfast.wire.archives import (
    END,
    FILE,
    FOLDER,
    HEAD,
    LIMITS,
    MAGIC,
    PROGRAM,
    Limits,
    folded,
    order_of,
    path_problem,
    ratio_is_exceeded,
)

CHUNK: Final = 1 << 16
UNFINISHED: Final = ".unpacking-"

FILE_MODE: Final = 0o444
FOLDER_MODE: Final = 0o555
PROGRAM_MODE: Final = 0o555
"""What was unpacked is used by many tasks and changed by none."""

_OPEN_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

Reach = Callable[[str], None]
"""Told the name of each place where a test may end the world."""


class BadBundle(Exception):
    """This is no bundle, or not one that may be unpacked. It will not be a better one later."""


class Unpacked(Struct, frozen=True):
    """How much came out of an archive."""

    entries: int
    content_bytes: int


def unpack(
    archive: BinaryIO,
    target: Path,
    *,
    limits: Limits = LIMITS,
    reach: Reach = lambda point: None,
) -> Unpacked:
    """Make the folder `target` from an archive: whole and on the disk, or not at all.

    `BadBundle` says what is wrong with the archive; `OSError` is this machine's trouble.
    """
    with _folder(target.parent) as beside:
        if _exists(target.name, beside):
            raise FileExistsError(f"{target} is there already")
        unfinished = f"{_prefix(target.name)}{secrets.token_hex(8)}"
        os.mkdir(unfinished, 0o700, dir_fd=beside)
        try:
            reach("made")
            with _folder(unfinished, beside) as root:
                unpacked = _fill(root, archive, limits, reach)
                reach("filled")
                _settle(root, reach)
            reach("synced")
            os.rename(unfinished, target.name, src_dir_fd=beside, dst_dir_fd=beside)
        except BaseException:
            remove_tree(unfinished, beside)
            raise
        reach("renamed")
        os.fsync(beside)
        return unpacked


def sweep(target: Path) -> None:
    """Remove what crashes have left of `target`. Whoever calls it knows that nobody is unpacking
    there now."""
    with _folder(target.parent) as beside:
        for name in os.listdir(beside):
            if name.startswith(_prefix(target.name)):
                remove_tree(name, beside)


def discard(target: Path) -> None:
    """Remove a folder that was unpacked. From the first moment on nothing of it looks whole."""
    with _folder(target.parent) as beside:
        leaving = f"{_prefix(target.name)}{secrets.token_hex(8)}"
        os.rename(target.name, leaving, src_dir_fd=beside, dst_dir_fd=beside)
        remove_tree(leaving, beside)


def remove_tree(name: str, beside: int) -> None:
    """Remove a folder and all that is in it; a link is removed, never followed."""
    try:
        with _folder(name, beside) as inside:
            # Those we have unpacked may not be written to, and that includes removing from them.
            os.fchmod(inside, 0o700)
            for entry in os.listdir(inside):
                if _is_folder(entry, inside):
                    remove_tree(entry, inside)
                else:
                    os.unlink(entry, dir_fd=inside)
        os.rmdir(name, dir_fd=beside)
    except FileNotFoundError:
        return


def _prefix(name: str) -> str:
    return f".{name}{UNFINISHED}"


# Writing.


class _Level:
    """A folder that is being filled: its descriptor, its name, and the names in it so far."""

    def __init__(self, name: str, descriptor: int) -> None:
        self.name = name
        self.descriptor = descriptor
        self.taken: set[str] = set()

    def take(self, name: str, path: str) -> None:
        key = folded(name)
        if key in self.taken:
            raise BadBundle(f"{path!r} differs from another name only in capitals or accents")
        self.taken.add(key)


class _Tree:
    """The folders from the root to where entries are being written now."""

    def __init__(self, root: int) -> None:
        self._levels = [_Level("", root)]

    def home_of(self, path: str) -> tuple[_Level, str]:
        """The folder an entry goes to, which was told before it, and its name there."""
        *folders, name = path.split("/")
        standing = [level.name for level in self._levels[1:]]
        if folders != standing[: len(folders)]:
            raise BadBundle(f"{path!r} is in a folder that was not told before it")
        self.leave(down_to=len(folders) + 1)
        home = self._levels[-1]
        home.take(name, path)
        return home, name

    def enter(self, home: _Level, name: str) -> None:
        os.mkdir(name, 0o700, dir_fd=home.descriptor)
        self._levels.append(_Level(name, os.open(name, _OPEN_FOLDER, dir_fd=home.descriptor)))

    def leave(self, down_to: int = 1) -> None:
        while len(self._levels) > down_to:
            os.close(self._levels.pop().descriptor)


def _fill(root: int, archive: BinaryIO, limits: Limits, reach: Reach) -> Unpacked:
    source = _Source(archive, limits)
    count = content_bytes = 0
    last: tuple[bytes, ...] = ()
    tree = _Tree(root)
    try:
        while (entry := _next_entry(source, limits)) is not None:
            kind, path, size = entry
            count += 1
            content_bytes += size
            if count > limits.entries:
                raise BadBundle(f"it has more than {limits.entries} entries")
            if content_bytes > limits.content_bytes:
                raise BadBundle(f"it holds more than {limits.content_bytes} bytes")
            order = order_of(path)
            if order <= last:
                raise BadBundle(f"{path!r} is told twice, or not in its place")
            last = order
            home, name = tree.home_of(path)
            if kind == FOLDER:
                tree.enter(home, name)
            else:
                _write(home.descriptor, name, source, path, size, program=kind == PROGRAM)
            reach("entry")
        source.finish(count)
    finally:
        tree.leave()
    return Unpacked(count, content_bytes)


def _next_entry(source: "_Source", limits: Limits) -> tuple[bytes, str, int] | None:
    kind, length, size = HEAD.unpack(source.take(HEAD.size, "an entry"))
    if kind == END:
        if length:
            raise BadBundle("its end has a name")
        source.told = size
        return None
    if kind not in (FOLDER, FILE, PROGRAM):
        raise BadBundle(f"it has an entry of the unknown kind {kind!r}")
    if length > limits.path_bytes:
        raise BadBundle(f"it has a path of {length} bytes; {limits.path_bytes} are allowed")
    raw = source.take(length, "a path")
    try:
        path = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise BadBundle(f"the path {raw[:80]!r} is no text") from None
    problem = path_problem(path, limits)
    if problem:
        raise BadBundle(f"{path[:200]!r} is refused: {problem}")
    if kind == FOLDER and size:
        raise BadBundle(f"the folder {path!r} has content of its own")
    return kind, path, size


def _write(home: int, name: str, source: "_Source", path: str, size: int, *, program: bool) -> None:
    descriptor = os.open(name, _NEW_FILE, 0o600, dir_fd=home)
    try:
        for chunk in source.chunks(size, path):
            view = memoryview(chunk)
            while view:
                view = view[os.write(descriptor, view) :]
        os.fchmod(descriptor, PROGRAM_MODE if program else FILE_MODE)
    finally:
        os.close(descriptor)


def _settle(folder: int, reach: Reach) -> None:
    """Take away the right to write and have everything on the disk, from the inside out. All is
    written by now, so one sync does most of the work of the others."""
    for name in sorted(os.listdir(folder)):
        if _is_folder(name, folder):
            with _folder(name, folder) as inside:
                _settle(inside, reach)
        else:
            descriptor = os.open(name, _OPEN_FILE, dir_fd=folder)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        reach("settled")
    os.fchmod(folder, FOLDER_MODE)
    os.fsync(folder)


# Reading.


class _Source:
    """The content of an archive, inflated piece by piece and never beyond what is allowed."""

    def __init__(self, archive: BinaryIO, limits: Limits) -> None:
        self.told = 0
        self._archive = archive
        self._limits = limits
        self._inflater = zlib.decompressobj()
        self._ready = b""
        self._packed = 0
        self._inflated = 0
        if self._read(len(MAGIC)) != MAGIC:
            raise BadBundle("it does not begin as a bundle does")

    def take(self, size: int, what: str) -> bytes:
        """Exactly so many bytes; `size` is small."""
        parts: list[bytes] = []
        while size:
            part = self._some(size)
            if not part:
                raise BadBundle(f"it ends in the middle of {what}")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def chunks(self, size: int, path: str) -> Iterator[bytes]:
        while size:
            chunk = self._some(min(size, CHUNK))
            if not chunk:
                raise BadBundle(f"it ends in the middle of {path!r}")
            size -= len(chunk)
            yield chunk

    def finish(self, count: int) -> None:
        """Nothing may come behind the end, neither inside the stream nor after it."""
        if self.told != count:
            raise BadBundle(f"it tells of {self.told} entries and has {count}")
        if self._some(1):
            raise BadBundle("something stands behind its end")
        if not self._inflater.eof:
            raise BadBundle("its stream does not end")
        if self._inflater.unused_data or self._read(1):
            raise BadBundle("something stands behind its stream")

    def _some(self, most: int) -> bytes:
        """Up to `most` bytes; none where the stream has ended, or breaks off."""
        while not self._ready and not self._inflater.eof:
            packed = self._inflater.unconsumed_tail or self._read(CHUNK)
            try:
                self._ready = self._inflater.decompress(packed, CHUNK)
            except zlib.error as error:
                raise BadBundle(f"it cannot be inflated: {error}") from None
            if not packed and not self._ready:
                break
            self._count(len(self._ready))
        taken, self._ready = self._ready[:most], self._ready[most:]
        return taken

    def _count(self, inflated: int) -> None:
        self._inflated += inflated
        used = self._packed - len(self._inflater.unconsumed_tail)
        if ratio_is_exceeded(self._inflated, used, self._limits):
            raise BadBundle(f"it grows more than {self._limits.ratio} times when it is unpacked")

    def _read(self, most: int) -> bytes:
        content = self._archive.read(most)
        self._packed += len(content)
        if self._packed > self._limits.archive_bytes:
            raise BadBundle(f"it is larger than {self._limits.archive_bytes} bytes")
        return content


# Folders by descriptor.


@contextmanager
def _folder(name: Path | str, beside: int | None = None) -> Iterator[int]:
    descriptor = os.open(name, _OPEN_FOLDER, dir_fd=beside)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_folder(name: str, beside: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=beside, follow_symlinks=False).st_mode)


def _exists(name: str, beside: int) -> bool:
    with suppress(FileNotFoundError):
        os.stat(name, dir_fd=beside, follow_symlinks=False)
        return True
    return False
