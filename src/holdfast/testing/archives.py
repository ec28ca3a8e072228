"""Archives as nobody should make them, and a place to see what harm they do.

Every field of a bundle can be set to anything.
"""

import os
import stat
import zlib
from pathlib import Path

from msgspec import Struct

from holdfast.wire.archives import END, FILE, FOLDER, HEAD, MAGIC, PROGRAM


class Entry(Struct, frozen=True):
    """One entry. `size` and `length` None: what is true."""

    path: bytes
    content: bytes = b""
    kind: bytes = FILE
    size: int | None = None
    length: int | None = None

    def encoded(self) -> bytes:
        size = len(self.content) if self.size is None else self.size
        length = len(self.path) if self.length is None else self.length
        return HEAD.pack(self.kind, length, size) + self.path + self.content


def file(path: str, content: bytes = b"x") -> Entry:
    return Entry(path.encode("utf-8", "surrogatepass"), content)


def program(path: str, content: bytes = b"x") -> Entry:
    return Entry(path.encode(), content, PROGRAM)


def folder(path: str) -> Entry:
    return Entry(path.encode("utf-8", "surrogatepass"), b"", FOLDER)


def ending(count: int, length: int = 0) -> bytes:
    return HEAD.pack(END, length, count)


def stream(*entries: Entry) -> bytes:
    """What stands inside: the entries and a true end."""
    return b"".join(entry.encoded() for entry in entries) + ending(len(entries))


def sealed(inside: bytes, *, level: int = 6) -> bytes:
    """An archive with exactly this inside."""
    return MAGIC + zlib.compress(inside, level)


def archive(*entries: Entry) -> bytes:
    return sealed(stream(*entries))


class Surroundings:
    """A folder to unpack into, and everything around it that must stay as it is."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.place = top / "a" / "b" / "cache"
        self.place.mkdir(parents=True)
        self.target = self.place / "target"
        (top / "a" / "victim").write_text("precious")
        (top / "a" / "b" / "victim").write_text("precious")
        (self.place / "victim").write_text("precious")
        (self.place / "neighbour").mkdir()
        (self.place / "neighbour" / "victim").write_text("precious")
        os.symlink("..", self.place / "up")
        self._before = self.seen()

    def seen(self) -> dict[str, tuple[int, str]]:
        found: dict[str, tuple[int, str]] = {}
        for root, folders, files in os.walk(self.top):
            for name in (*folders, *files):
                path = Path(root, name)
                mode = path.lstat().st_mode
                if stat.S_ISLNK(mode):
                    what = os.readlink(path)
                else:
                    what = path.read_bytes().decode("latin-1") if stat.S_ISREG(mode) else ""
                found[str(path.relative_to(self.top))] = (mode, what)
        return found

    def changed(self) -> set[str]:
        now = self.seen()
        return {name for name in now | self._before if now.get(name) != self._before.get(name)}
