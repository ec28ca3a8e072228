"""Archives as nobody should make them: every field of a bundle can be set to anything."""

import zlib

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
