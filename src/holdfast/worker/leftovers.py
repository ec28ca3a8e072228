"""What attempts wrote beside their targets and could not clean up, because they were killed.

A process that stages notes each file in a journal of its own, which it keeps locked as long as it
lives. A journal that can be locked has no owner any more: whatever it names is kept while the
coordinator says it may be owed, and removed after that.
"""

import fcntl
import os
from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.core.ids import LeaseId
from holdfast.wire.delivery import Origin

SUFFIX: Final = ".staged"
RECEIPT: Final = ".placed"
"""Added to the name of a staged file before it is given its own: it has been, or soon will be."""
LINES_MAX: Final = 1_000
ASKED_MAX: Final = 200


class Line(Struct, frozen=True, array_like=True):
    """One line of a journal."""

    origin: Origin
    temporary: str


_ENCODE: Final = msgspec.json.Encoder().encode
_DECODE: Final = msgspec.json.Decoder(Line).decode


class Journal:
    """The files this process has staged. Made with the first; any thread may note one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor = -1
        self._owner = 0
        self._lines = 0

    def note(self, origin: Origin, temporary: str) -> None:
        """Before the file is made, so that none is without a line."""
        if self._descriptor < 0 or self._owner != os.getpid():
            self._begin()
        if self._lines >= LINES_MAX:
            self._shorten()
        os.write(self._descriptor, _ENCODE(Line(origin, temporary)) + b"\n")
        self._lines += 1

    def _begin(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._folder / f"{os.getpid()}-{os.urandom(4).hex()}{SUFFIX}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._descriptor, self._owner, self._lines = os.open(path, flags, 0o600), os.getpid(), 0
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def _shorten(self) -> None:
        """Files that have their names, or were removed, need no line any more."""
        lines = [line for line in _read(self._descriptor) if _is_there(line)]
        os.ftruncate(self._descriptor, 0)
        for line in lines:
            os.write(self._descriptor, _ENCODE(line) + b"\n")
        # Where nearly all are still there it is not tried again with every file.
        self._lines = min(len(lines), LINES_MAX // 2)

    def close(self) -> None:
        if self._descriptor >= 0 and self._owner == os.getpid():
            os.close(self._descriptor)
        self._descriptor = -1


class Leftovers:
    """Collects what dead processes have left. Other workers of the machine may do the same, also
    for other coordinators: each answers for its own log alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._found: dict[Origin, list[str]] = {}
        # Those that were asked about and have to stay: others get their turn first.
        self._asked: set[Origin] = set()

    def find(self) -> tuple[Origin, ...]:
        """Whose files lie about: at most so many attempts at a time."""
        self._found.clear()
        for path in self._journals():
            for line in self._abandoned(path):
                self._found.setdefault(line.origin, []).append(line.temporary)
        fresh = [origin for origin in self._found if origin not in self._asked]
        if not fresh:
            self._asked.clear()
        chosen = (fresh or list(self._found))[:ASKED_MAX]
        self._asked.update(chosen)
        return tuple(chosen)

    def remove(self, asked: Iterable[Origin], leases: Container[LeaseId]) -> int:
        """Of those asked about, nobody is owed what these attempts have staged. How many went."""
        removed = 0
        for origin in asked:
            for temporary in self._found.pop(origin, ()) if origin.lease_id in leases else ():
                for path in (temporary, temporary + RECEIPT):
                    with suppress(OSError):
                        os.unlink(path)
                        removed += 1
        return removed

    def _journals(self) -> Iterator[Path]:
        with suppress(OSError):
            yield from sorted(p for p in self._folder.iterdir() if p.name.endswith(SUFFIX))

    def _abandoned(self, path: Path) -> list[Line]:
        """What a journal names that is still there; nothing while its owner lives. One that names
        nothing any more is removed."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return []
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            lines = [line for line in _read(descriptor) if _is_there(line)]
            if not lines:
                path.unlink(missing_ok=True)
            return lines
        except OSError:
            return []
        finally:
            os.close(descriptor)


def _read(descriptor: int) -> Iterator[Line]:
    size = os.fstat(descriptor).st_size
    for text in os.pread(descriptor, size, 0).split(b"\n"):
        # The last line may have been cut short by the death of its writer: it made no file.
        with suppress(msgspec.DecodeError):
            yield _DECODE(text)


def _is_there(line: Line) -> bool:
    return any(os.path.lexists(path) for path in (line.temporary, line.temporary + RECEIPT))
