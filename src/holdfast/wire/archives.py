"""The form of a bundle: code on its way to workers, as one file that is named by its digest.

    MAGIC, then one zlib stream that holds the entries, one after another, and nothing behind it
    entry   kind, length of the path, length of the content; the path; the content
    kinds   folder, file, program (a file that may be executed), and the end, which counts entries

Paths are UTF-8, relative, with `/` between names. They ascend, compared name by name, so every
folder is told before what is in it and nothing is told twice. There is no kind for a link, a
device, an owner, a mode or a time: what cannot be said need not be refused.
"""

import struct
import unicodedata
from typing import Final

from msgspec import Struct

MAGIC: Final = b"holdfast bundle 1\n"
HEAD: Final = struct.Struct(">cHQ")

FOLDER: Final = b"d"
FILE: Final = b"f"
PROGRAM: Final = b"x"
END: Final = b"e"

JOINERS: Final = frozenset("\u200c\u200d")
"""Invisible characters that some languages cannot be written without."""

INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


class Limits(Struct, frozen=True, kw_only=True):
    """How much a bundle may hold, the same for whoever makes one and whoever unpacks it.

    Beyond `free_bytes`, content may be at most `ratio` times as large as the archive it came out
    of: code never shrinks further, a trap does.
    """

    archive_bytes: int = 64 * 1024 * 1024
    content_bytes: int = 512 * 1024 * 1024
    entries: int = 20_000
    depth: int = 32
    name_bytes: int = 255
    path_bytes: int = 1_024
    ratio: int = 100
    free_bytes: int = 16 * 1024 * 1024


LIMITS: Final = Limits()


def path_problem(path: str, limits: Limits = LIMITS) -> str:
    """What is wrong with a path inside a bundle, in words; empty when nothing is."""
    if not path:
        return "it has no name"
    if path.startswith("/"):
        return "its name is absolute"
    if len(path.encode("utf-8", "surrogateescape")) > limits.path_bytes:
        return f"its path is longer than {limits.path_bytes} bytes"
    names = path.split("/")
    if len(names) > limits.depth:
        return f"it is more than {limits.depth} folders deep"
    return next(filter(None, (_name_problem(name, limits) for name in names)), "")


def _name_problem(name: str, limits: Limits) -> str:
    if name in ("", ".", ".."):
        return f"{name!r} is no name for a file or folder"
    if len(name.encode("utf-8", "surrogateescape")) > limits.name_bytes:
        return f"a name in it is longer than {limits.name_bytes} bytes"
    if "\\" in name:
        return "a backslash would make it another path elsewhere"
    for sign in name:
        if unicodedata.category(sign) in INVISIBLE and sign not in JOINERS:
            return f"its name has the character {sign!a} in it, which cannot be seen"
    return ""


def folded(name: str) -> str:
    """The name as a file system sees it that neither tells capitals apart nor one way to write
    an accent from another. Two names that fold alike are one file there."""
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", name).casefold())


def order_of(path: str) -> tuple[bytes, ...]:
    """By what paths ascend: name by name, so that a folder comes right before what is in it."""
    return tuple(name.encode() for name in path.split("/"))


def ratio_is_exceeded(content_bytes: int, archive_bytes: int, limits: Limits = LIMITS) -> bool:
    return content_bytes > limits.free_bytes + limits.ratio * archive_bytes
