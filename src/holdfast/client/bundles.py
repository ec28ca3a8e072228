"""A folder of code, made into a bundle and brought to a server. See `wire.archives` for its form.

The same folder gives the same archive: names are sorted, and neither times nor owners nor the
rest of the modes go into it. Links are not followed: a folder that has one is refused, because
what it points to may be anything, and leaving it out unasked would break the code later, far away.
"""

import os
import stat
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from msgspec import Struct

from holdfast.client.errors import Refused
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
    path_problem,
    ratio_is_exceeded,
)
from holdfast.wire.contents import new_digest
from holdfast.worker.functions import SCRIPT_PREFIX

__all__ = ["IGNORE_FILE", "Bundle", "Packed", "pack", "packed", "target_inside", "upload"]

IGNORE_FILE: Final = ".holdfastignore"
ALWAYS_IGNORED: Final = (".git", "__pycache__", ".venv", "*.pyc", IGNORE_FILE)

BUNDLES: Final = "/api/v1/bundles"
CHUNK: Final = 1 << 16
LEVEL: Final = 6

_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class Bundle(Struct, frozen=True):
    """A folder of code that a server has. It stays what it was when it was brought there."""

    digest: str
    folder: Path


class Packed(Struct, frozen=True):
    """An archive that was made: its name, its size, and how much is in it."""

    digest: str
    archive_bytes: int
    content_bytes: int
    entries: int


@contextmanager
def packed(
    folder: str | os.PathLike[str], limits: Limits = LIMITS
) -> Iterator[tuple[Packed, BinaryIO]]:
    """The archive of a folder in a file that is gone afterwards, read from its beginning."""
    with tempfile.TemporaryFile(prefix="holdfast-bundle-") as archive:
        told = pack(folder, archive, limits)
        archive.seek(0)
        yield told, archive


def pack(folder: str | os.PathLike[str], archive: BinaryIO, limits: Limits = LIMITS) -> Packed:
    """Write the archive of a folder; `Refused` names the file that cannot be in one."""
    root = Path(folder)
    if not root.is_dir():
        raise Refused("invalid", f"the bundle {str(folder)!r} is no folder")
    rules = Rules.read(root)
    writer = _Writer(archive, limits)
    try:
        _add(writer, os.fspath(root), "", rules)
        return writer.finish()
    except OSError as error:
        raise Refused("invalid", f"{root} cannot be read: {error}") from error


class Carrier(Protocol):
    """What `wire.http` does for us. Loading it takes longer than most programs need it for."""

    def head(self, path: str) -> None: ...

    def upload(self, path: str, content: BinaryIO, size: int) -> None: ...


def upload(http: Carrier, folder: str | os.PathLike[str], limits: Limits = LIMITS) -> Bundle:
    """Have the server know the bundle of this folder; its digest names it in a job."""
    from holdfast.wire.http import Rejected

    with packed(folder, limits) as (told, archive):
        path = f"{BUNDLES}/{told.digest}"
        try:
            http.head(path)
        except Rejected:
            # It is not there, or may not be looked for; whatever else is wrong, this will tell.
            http.upload(path, archive, told.archive_bytes)
        return Bundle(told.digest, Path(folder).resolve())


def target_inside(target: str, bundle: Bundle) -> str:
    """The name of a function for those who have the bundle. A function of the script that was
    started is found in the module that the script is there."""
    if not target.startswith(SCRIPT_PREFIX):
        return target
    script, _, qualname = target.removeprefix(SCRIPT_PREFIX).rpartition(":")
    path = Path(script).resolve()
    if not path.is_relative_to(bundle.folder):
        raise Refused(
            "invalid",
            f"the function is in {script}, which is not in the bundle {bundle.folder}; "
            "give the folder that the script is in",
        )
    names = path.relative_to(bundle.folder).with_suffix("").parts
    if path.suffix != ".py" or not all(name.isidentifier() for name in names):
        raise Refused("invalid", f"{script} cannot be imported by its name; rename it")
    return f"{'.'.join(names)}:{qualname}"


# What goes in.


class Rules:
    """What is left out of a bundle: plain globs, one a line of `.holdfastignore`.

    One without a slash is about a name anywhere; one with a slash is about a path from the top,
    name by name. A slash at the end means folders alone. There is no way to take a name back.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._rules = [_rule(pattern) for pattern in patterns]

    @classmethod
    def read(cls, root: Path) -> "Rules":
        file = root / IGNORE_FILE
        lines: list[str] = []
        if file.is_file():
            try:
                lines = file.read_text(encoding="utf-8").splitlines()
            except (OSError, UnicodeDecodeError) as error:
                raise Refused("invalid", f"{file} cannot be read: {error}") from None
        told = [line.strip() for line in lines]
        return cls([*ALWAYS_IGNORED, *(line for line in told if line and line[0] != "#")])

    def leave_out(self, path: str, *, is_folder: bool) -> bool:
        names = path.split("/")
        return any(_matches(rule, names, is_folder) for rule in self._rules)


class _Rule(Struct, frozen=True):
    globs: tuple[str, ...]
    anywhere: bool
    folders_only: bool


def _rule(pattern: str) -> _Rule:
    if pattern.startswith("!") or "**" in pattern:
        raise Refused(
            "invalid",
            f"{IGNORE_FILE} has the line {pattern!r}; it knows plain globs, neither ! nor **",
        )
    inner = pattern.rstrip("/")
    globs = tuple(inner.removeprefix("/").split("/"))
    return _Rule(globs, "/" not in inner, pattern.endswith("/"))


def _matches(rule: _Rule, names: list[str], is_folder: bool) -> bool:
    if rule.folders_only and not is_folder:
        return False
    if rule.anywhere:
        return fnmatchcase(names[-1], rule.globs[0])
    return len(names) == len(rule.globs) and all(map(fnmatchcase, names, rule.globs))


# Writing it.


def _add(writer: "_Writer", folder: str, above: str, rules: Rules) -> None:
    """Everything in a folder, in order, each folder right before what is in it."""
    taken: dict[str, str] = {}
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: os.fsencode(entry.name))
    for entry in entries:
        path = f"{above}{entry.name}"
        is_folder = entry.is_dir(follow_symlinks=False)
        if rules.leave_out(path, is_folder=is_folder):
            continue
        _check(path, writer.limits)
        same = taken.setdefault(folded(entry.name), path)
        if same != path:
            raise Refused(
                "invalid",
                f"{same!r} and {path!r} are one file where capitals or accents do not count; "
                "rename one of them",
            )
        if is_folder:
            writer.folder(path)
            _add(writer, entry.path, f"{path}/", rules)
        elif entry.is_file(follow_symlinks=False):
            writer.file(path, entry.path)
        else:
            what = "a link" if entry.is_symlink() else "neither a file nor a folder"
            raise Refused(
                "invalid",
                f"{path!r} is {what}; a bundle holds files and folders. Put a copy there, "
                f"or name it in {IGNORE_FILE} to leave it out",
            )


def _check(path: str, limits: Limits) -> None:
    problem = path_problem(path, limits)
    if problem:
        raise Refused("invalid", f"{path!r} cannot be in a bundle: {problem}")


class _Writer:
    """An archive while it grows. Every bound is told with what to do about it."""

    def __init__(self, archive: BinaryIO, limits: Limits) -> None:
        self.limits = limits
        self._archive = archive
        self._deflater = zlib.compressobj(LEVEL)
        self._digest = new_digest()
        self._entries = self._content_bytes = self._archive_bytes = 0
        self._put(MAGIC)

    def folder(self, path: str) -> None:
        self._head(FOLDER, path, 0)

    def file(self, path: str, where: str) -> None:
        descriptor = os.open(where, _OPEN)
        with open(descriptor, "rb") as content:
            now = os.fstat(descriptor)
            if not stat.S_ISREG(now.st_mode):
                raise self._changed(path)
            self._head(PROGRAM if now.st_mode & stat.S_IXUSR else FILE, path, now.st_size)
            left = now.st_size
            while left:
                chunk = content.read(min(left, CHUNK))
                if not chunk:
                    raise self._changed(path)
                self._put(self._deflater.compress(chunk))
                left -= len(chunk)
            if content.read(1):
                raise self._changed(path)

    def finish(self) -> Packed:
        if not self._entries:
            raise Refused("invalid", "there is nothing in the folder that could be in a bundle")
        self._put(self._deflater.compress(HEAD.pack(END, 0, self._entries)))
        self._put(self._deflater.flush())
        if ratio_is_exceeded(self._content_bytes, self._archive_bytes, self.limits):
            raise Refused(
                "invalid",
                f"the bundle's {self._content_bytes:,} bytes shrink to {self._archive_bytes:,}, "
                "and workers take that for a trap; leave out files that are nearly empty space",
            )
        digest = self._digest.hexdigest()
        return Packed(digest, self._archive_bytes, self._content_bytes, self._entries)

    def _head(self, kind: bytes, path: str, size: int) -> None:
        limits = self.limits
        self._entries += 1
        self._content_bytes += size
        if self._entries > limits.entries:
            raise self._too_much(f"more than {limits.entries:,} files and folders")
        if self._content_bytes > limits.content_bytes:
            raise self._too_much(f"more than {limits.content_bytes:,} bytes, with {path!r}")
        name = path.encode()
        self._put(self._deflater.compress(HEAD.pack(kind, len(name), size) + name))

    def _put(self, content: bytes) -> None:
        self._archive_bytes += len(content)
        if self._archive_bytes > self.limits.archive_bytes:
            raise self._too_much(f"more than {self.limits.archive_bytes:,} bytes when packed")
        self._digest.update(content)
        self._archive.write(content)

    def _too_much(self, what: str) -> Refused:
        return Refused(
            "too_large",
            f"the bundle has {what}; leave out what is not code with {IGNORE_FILE}, "
            "and have tasks fetch their own inputs",
        )

    def _changed(self, path: str) -> Refused:
        return Refused("conflict", f"{path!r} changed while it was read; try again")
