"""Files that appear when their task has committed, and not before.

A task writes beside the target, under another name. What it wrote is on the disk before its commit
is sent; the commit owes the new name, and whoever pays gives it (see `placing`). An attempt that
does not commit leaves nothing but such a file, which is removed.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import gettempdir
from typing import IO, Any, Final

from msgspec import Struct
from msgspec.msgpack import Decoder, Encoder

from holdfast.core.owed import FILE, Entry
from holdfast.wire.delivery import Origin, Staged
from holdfast.worker.leftovers import Journal
from holdfast.worker.places import place_of

MARK: Final = ".holdfast-"
NAME_BYTES: Final = 255
SPARE_BYTES: Final = 10
"""What a name beside it may be longer by."""
MODES: Final = frozenset({"w", "x"})
_HELPERS: Final = frozenset({"b", "t", "+"})

_ENCODE: Final = Encoder().encode


class CannotStage(ValueError):
    """A file that cannot be staged, and why."""


class OutsideOutputs(CannotStage):
    """A path outside the folders that this worker may write to."""


decode_staged: Final = Decoder(Staged).decode


class Outputs:
    """The folders that tasks may stage into; none for any."""

    def __init__(self, folders: tuple[str, ...] = ()) -> None:
        self._folders = tuple(os.path.realpath(folder) for folder in folders)

    def check(self, target: str) -> None:
        """`target` has no links in it any more."""
        if self._folders and not any(_is_under(target, folder) for folder in self._folders):
            listed = ", ".join(self._folders)
            raise OutsideOutputs(
                f"{target} is outside the folders this worker may write to: {listed}"
            )


class Bench(Struct, frozen=True, array_like=True):
    """How a worker stages: `journals` is the folder where what is staged is noted, `outputs` are
    the folders it may be for; none for any."""

    journals: str
    outputs: tuple[str, ...] = ()


class Workbench:
    """What all attempts of one process stage with. Without a bench their notes lie in the folder
    for temporary files."""

    def __init__(self, bench: Bench | None) -> None:
        if bench is None:
            bench = Bench(f"{gettempdir()}/holdfast-staged-{os.getuid()}")
        self._outputs = Outputs(bench.outputs)
        self._journal = Journal(Path(bench.journals))

    def staging(self, origin: Origin) -> "Staging":
        """For an attempt. Relative paths start from where the process is."""
        return Staging(origin, self._outputs, self._journal, os.getcwd())


class Staging:
    """The files of one attempt. `folder` is what relative paths start from."""

    def __init__(self, origin: Origin, outputs: Outputs, journal: Journal, folder: str) -> None:
        self._origin = origin
        self._outputs = outputs
        self._journal = journal
        self._folder = folder
        self._open: dict[str, str] = {}
        self._staged: dict[str, Staged] = {}

    @contextmanager
    def file(self, path: str | os.PathLike[str], mode: str = "w", **how: Any) -> Iterator[IO[Any]]:
        """A file to write. Left in good order it is part of the commit; left by an exception it
        never was."""
        exclusive, flags = _read_mode(mode), {"buffering", "encoding", "errors", "newline"}
        if unknown := how.keys() - flags:
            raise TypeError(f"stage() has no argument {min(unknown)!r}")
        target = os.path.realpath(os.path.join(self._folder, os.fspath(path)))
        if not _is_text(target):
            raise CannotStage(f"{target!r} is no text, and a record holds nothing else")
        self._outputs.check(target)
        if target in self._open or target in self._staged:
            raise CannotStage(f"{target} was staged already by this task")
        kept_mode = _look_at(target, exclusive=exclusive)
        try:
            os.makedirs(os.path.dirname(target), exist_ok=True)
        except OSError as error:
            raise CannotStage(f"the folder of {target} cannot be made: {error}") from error
        temporary = _name_beside(target, self._origin)
        self._journal.note(self._origin, temporary)
        try:
            file = open(temporary, mode.replace("w", "x"), opener=_opener, **how)  # noqa: SIM115
        except OSError as error:
            raise CannotStage(f"{target} cannot be staged: {error}") from error
        self._open[target] = temporary
        try:
            with file:
                if kept_mode is not None:
                    os.fchmod(file.fileno(), kept_mode)
                yield file
            size = _settle(temporary)
            sync_folder(os.path.dirname(target))
        except BaseException:
            _remove(temporary)
            raise
        finally:
            del self._open[target]
        self._staged[target] = Staged(temporary, size, exclusive)

    @property
    def unfinished(self) -> list[str]:
        """Targets whose files are being written at this moment."""
        return list(self._open)

    def entries(self) -> list[Entry]:
        """What a commit owes for the files, in the order they were finished."""
        return [
            Entry(FILE, place_of(os.path.dirname(target)), target, _ENCODE(staged))
            for target, staged in self._staged.items()
        ]

    def discard(self) -> None:
        """The attempt has not committed: nothing of it stays."""
        for temporary in (*self._open.values(), *(s.temporary for s in self._staged.values())):
            _remove(temporary)
        self._staged.clear()


def discard_entries(entries: tuple[Entry, ...]) -> None:
    """Remove the files of an attempt whose commit was refused."""
    for entry in entries:
        if entry.kind == FILE:
            _remove(decode_staged(entry.body).temporary)


def _read_mode(mode: str) -> bool:
    """Whether the target must be new; `CannotStage` for a mode that makes no new file."""
    letters = set(mode)
    kind = letters & MODES
    if len(kind) != 1 or letters - MODES - _HELPERS or {"b", "t"} <= letters:
        why = "what is there already cannot be added to after the commit" if "a" in mode else (
            "a staged file is always new"
        )
        raise CannotStage(f"mode {mode!r} cannot be staged: {why}; use 'w' or 'x', with 'b' or '+'")
    return kind == {"x"}


def _look_at(target: str, *, exclusive: bool) -> int | None:
    """The permissions of what will be replaced, which its successor takes over."""
    try:
        found = os.stat(target)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CannotStage(f"{target} cannot be staged: {error}") from error
    if exclusive:
        raise CannotStage(f"{target} is there already, and mode 'x' makes new files only")
    if not stat.S_ISREG(found.st_mode):
        raise CannotStage(f"{target} is no ordinary file, and cannot be replaced by one")
    return stat.S_IMODE(found.st_mode)


def _name_beside(target: str, origin: Origin) -> str:
    folder, name = os.path.split(target)
    tail = f"{MARK}{origin.job_id}-{origin.index}-{origin.lease_id}-{os.urandom(4).hex()}"
    room = NAME_BYTES - SPARE_BYTES - len(os.fsencode(tail)) - 1
    head = name.encode()[:room].decode(errors="ignore")
    return os.path.join(folder, f".{head}{tail}")


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_EXCL | os.O_NOFOLLOW, 0o666)


def _settle(temporary: str) -> int:
    """All that was written is on the disk; how much that is."""
    descriptor = os.open(temporary, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def sync_folder(folder: str) -> None:
    """The names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(temporary: str) -> None:
    with suppress(OSError):
        Path(temporary).unlink(missing_ok=True)


def _is_text(target: str) -> bool:
    try:
        target.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_under(target: str, folder: str) -> bool:
    return target.startswith(folder.rstrip("/") + "/")
