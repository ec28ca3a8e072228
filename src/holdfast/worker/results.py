"""Where results go that are too large for a record: out of memory as soon as they are encoded.

Inside a program they go straight into the store beside the log. A worker elsewhere spools each in
a file of its own until it has been brought to the server: see `holdfast.worker.stowing`.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from msgspec import Struct

from holdfast.core.ids import LeaseId
from holdfast.core.owed import Stored
from holdfast.wire.contents import INLINE_BYTES, RESULT_BYTES_MAX, Contents, new_digest
from holdfast.worker.payloads import CannotEncode

__all__ = ["INLINE_BYTES", "Keep", "Place", "Spool", "keeper_of"]

Keep = Callable[[LeaseId, bytes], Stored]
"""Put a large result away; where, and how large it is."""

NOWHERE: Final = "there is no place for results over 64 KiB here; write it to a file"


class Place(Struct, frozen=True, array_like=True):
    """A folder for large results. `is_spool`: they are brought elsewhere from there. No more than
    `largest_bytes` are kept of one."""

    folder: str
    is_spool: bool = False
    largest_bytes: int = RESULT_BYTES_MAX


class Spool:
    """Results on their way to a server, each in a file named after the lease it came of. Nothing
    here need outlive the worker: what was not committed runs again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, lease_id: LeaseId, content: bytes) -> Stored:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path(lease_id).write_bytes(content)
        digest = new_digest()
        digest.update(content)
        return Stored(digest.digest(), len(content))

    @contextmanager
    def opened(self, lease_id: LeaseId) -> Iterator[BinaryIO]:
        with open(self._path(lease_id), "rb") as file:
            yield file

    def drop(self, lease_id: LeaseId) -> None:
        self._path(lease_id).unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove what a former incarnation left."""
        with suppress(FileNotFoundError):
            for entry in list(os.scandir(self._folder)):
                os.unlink(entry.path)

    def _path(self, lease_id: LeaseId) -> Path:
        return self._folder / str(int(lease_id))


def keeper_of(place: Place | None) -> Keep:
    """How large results are kept at this place; where there is none, their tasks fail."""
    if place is None:
        return _nowhere
    put = _into(place)

    def keep(lease_id: LeaseId, content: bytes) -> Stored:
        if len(content) > place.largest_bytes:
            raise too_large(len(content), place.largest_bytes)
        try:
            return put(lease_id, content)
        except OSError as error:
            # Without the path in it: that is ours, and no help to whoever wrote the task.
            why = error.strerror or str(error)
            told = f"the result of {len(content):,} bytes could not be stored: {why}"
            raise CannotStore(told) from None

    return keep


class CannotStore(Exception):
    """The disk that results are kept on does not take them."""


def too_large(size: int, most: int) -> CannotEncode:
    return CannotEncode(
        f"the result takes {size:,} bytes, over the limit of {most:,}; "
        "write it to a file and return its path"
    )


def _into(place: Place) -> Keep:
    if place.is_spool:
        return Spool(Path(place.folder)).keep
    contents = Contents(Path(place.folder), is_spread=True)
    return lambda lease_id, content: contents.keep(content)


def _nowhere(lease_id: LeaseId, content: bytes) -> Stored:
    raise CannotEncode(NOWHERE)
