"""Files named by the digest of what is in them: how one comes to its place, and is read again.

A file is written under another name while its digest is computed, and gets its own when every byte
is on the disk. So whatever has its name is whole, unless the disk has changed it since: whoever
reads compares. The same content comes to the same place however often it is brought.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import BinaryIO, Final

from holdfast.core.owed import Stored
from holdfast.wire.errors import ResultLost

DIGEST_BYTES: Final = 32
ARRIVING: Final = ".arriving-"
LEAVING: Final = ".leaving-"
CHUNK: Final = 1 << 20
INLINE_BYTES: Final = 64 * 1024
"""A result of at most so many bytes is part of its commit; a larger one goes to the store."""
RESULT_BYTES_MAX: Final = 1024 * 1024 * 1024
SPREAD: Final = 2
"""So many digits of a digest name the folder a file is in, where files are spread over folders."""


def new_digest() -> blake2b:
    """What names a file, fed with its bytes."""
    return blake2b(digest_size=DIGEST_BYTES)


def is_digest(text: str) -> bool:
    """Whether this is a digest as it is written: in small hexadecimal digits."""
    return len(text) == 2 * DIGEST_BYTES and all(sign in "0123456789abcdef" for sign in text)


class Unwelcome(Exception):
    """A file that is not taken in. `is_too_large`: for the file itself, or for the store."""

    def __init__(self, told: str, *, is_too_large: bool = False) -> None:
        super().__init__(told)
        self.is_too_large = is_too_large


class Arrival:
    """A file on its way in. `write` and `seal` may be called from any thread, one at a time."""

    def __init__(self, digest: str, path: Path) -> None:
        self.digest = digest
        self.path = path
        self.size = 0
        self._hash = new_digest()
        self._file = open(path, "xb", buffering=0)  # noqa: SIM115 - closed by whoever ends it

    def write(self, content: bytes) -> None:
        self._hash.update(content)
        view = memoryview(content)
        while view:
            view = view[self._file.write(view) :]

    def seal(self) -> None:
        """All of it is on the disk, and is what its name says; else `Unwelcome`."""
        found = self._hash.hexdigest()
        if found != self.digest:
            raise Unwelcome(f"the digest of what came is {found}, not {self.digest}")
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


class Contents:
    """A folder of such files. Several processes may bring some at once; one alone removes any.
    `is_spread`: there may be very many, and they lie in folders named by their first digits."""

    def __init__(self, folder: Path, *, is_spread: bool = False) -> None:
        self.folder = folder
        self._is_spread = is_spread
        self._numbers = count()
        self._settled: set[Path] = set()

    def path_of(self, digest: str) -> Path:
        if self._is_spread:
            return self.folder / digest[:SPREAD] / digest[SPREAD:]
        return self.folder / digest

    # Coming.

    @contextmanager
    def arriving(self, digest: str) -> Iterator[Arrival]:
        """A file on its way in; whatever comes of it, nothing half-way is left."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        arrival = Arrival(digest, self._aside(ARRIVING, digest))
        try:
            yield arrival
        finally:
            arrival.close()
            with suppress(FileNotFoundError):
                arrival.path.unlink()

    def place(self, arrival: Arrival) -> None:
        """A sealed file gets its name. `settle` must follow before anybody is told."""
        path = self.path_of(arrival.digest)
        if self._is_spread:
            path.parent.mkdir(mode=0o700, exist_ok=True)
        os.rename(arrival.path, path)

    def settle(self, digest: str) -> None:
        """The name of the file is on the disk, and so are those of the folders above it."""
        folder = self.path_of(digest).parent
        _sync(folder)
        if folder not in self._settled:
            # Whoever made them may have died before they were on the disk.
            for above in {self.folder, self.folder.parent}:
                _sync(above)
            self._settled.add(folder)

    def keep(self, content: bytes) -> Stored:
        """Have these bytes here, on the disk. What is here already is compared, and mended."""
        found = new_digest()
        found.update(content)
        digest = found.hexdigest()
        if not self._holds(digest, content):
            with self.arriving(digest) as arrival:
                arrival.write(content)
                arrival.seal()
                self.place(arrival)
        self.settle(digest)
        return Stored(found.digest(), len(content))

    def _holds(self, digest: str, content: bytes) -> bool:
        """Whether exactly this is here, and will not be removed for being old."""
        view = memoryview(content)
        try:
            os.utime(self.path_of(digest))
            with open(self.path_of(digest), "rb", buffering=0) as file:
                if os.fstat(file.fileno()).st_size != len(content):
                    return False
                while chunk := file.read(CHUNK):
                    if chunk != view[: len(chunk)]:
                        return False
                    view = view[len(chunk) :]
        except FileNotFoundError:
            return False
        return not view

    # Reading.

    def read(self, stored: Stored) -> bytes:
        """The bytes that were stored, all of them and no others; else `ResultLost` says why."""
        with self.opened(stored) as file:
            content = file.read(stored.size + 1)
        _check(self.path_of(stored.digest.hex()), content, stored)
        return content

    def check(self, stored: Stored) -> None:
        """`ResultLost` where not every byte is as it was stored. Takes little memory."""
        path = self.path_of(stored.digest.hex())
        found, size = new_digest(), 0
        with self.opened(stored) as file:
            while chunk := file.read(CHUNK):
                found.update(chunk)
                size += len(chunk)
        if size != stored.size or found.digest() != stored.digest:
            raise _changed(path, size, stored)

    @contextmanager
    def opened(self, stored: Stored) -> Iterator[BinaryIO]:
        """The file of something stored, of the right size at least."""
        path = self.path_of(stored.digest.hex())
        try:
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size != stored.size:
                    raise _changed(path, size, stored)
                yield file
        except FileNotFoundError:
            raise ResultLost(f"{path} is not there; it has {stored.size:,} bytes") from None
        except OSError as error:
            raise ResultLost(f"{path} cannot be read: {error.strerror or error}") from error

    # Going.

    def set_aside(self, digest: str) -> Path | None:
        """Take a file out of its place; what is left of it, for somebody to remove. At once,
        because the same may come again before the old file is gone. None where it was not here."""
        aside = self._aside(LEAVING, digest)
        try:
            os.rename(self.path_of(digest), aside)
        except FileNotFoundError:
            return None
        return aside

    def sweep(self) -> None:
        """Remove what a crash has left half-way. Nobody may be bringing anything."""
        if self.folder.is_dir():
            for entry in list(os.scandir(self.folder)):
                if entry.name.startswith((ARRIVING, LEAVING)):
                    os.unlink(entry.path)

    def _aside(self, why: str, digest: str) -> Path:
        return self.folder / f"{why}{digest}-{os.getpid()}-{next(self._numbers)}"


def _check(path: Path, content: bytes, stored: Stored) -> None:
    found = new_digest()
    found.update(content)
    if len(content) != stored.size or found.digest() != stored.digest:
        raise _changed(path, len(content), stored)


def _changed(path: Path, size: int, stored: Stored) -> ResultLost:
    if size != stored.size:
        return ResultLost(f"{path} has {size:,} bytes, and had {stored.size:,} when it was stored")
    return ResultLost(f"{path} is damaged: its bytes are not those that were stored")


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
