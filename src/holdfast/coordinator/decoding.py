"""Reading a record where it stands, and saying who wrote it where this release cannot."""

from collections.abc import Iterator
from typing import Protocol

from holdfast.core.errors import BrokenInvariant, OperatingError
from holdfast.core.record import Record, UnreadableRecord, decode_record
from holdfast.core.upcast import names_in, opened_by
from holdfast.version import VERSION
from holdfast.wal import Frame


class NewerRecord(OperatingError):
    """A later release wrote a record that this one does not know. Nothing was changed."""

    def __init__(self, position: int, wrote: str, names: tuple[str, ...]) -> None:
        self.position = position
        self.wrote = wrote
        what = f" ({', '.join(names)})" if names else ""
        by, cure = "a later holdfast", "--upgrade holdfast"
        if wrote:
            by, cure = f"holdfast {wrote}", f"'holdfast>={wrote}'"
        super().__init__(
            f"record {position}{what} was written by {by}; this is {VERSION} and cannot read it. "
            f"Nothing was changed. Install a release that can: `pip install {cure}`."
        )


class Framed(Protocol):
    """A log, or what is left of one."""

    @property
    def oldest(self) -> int: ...

    def read(self, position: int = 1) -> Iterator[Frame]: ...


def decode_at(log: Framed, data: bytes, position: int) -> Record:
    """The record at a position. `NewerRecord` where a later release wrote it; `BrokenInvariant`
    where this one, or a former one, should have been able to read it."""
    try:
        return decode_record(data)
    except UnreadableRecord as error:
        wrote = writer_of(log, position)
        if not wrote or _number(wrote) > _number(VERSION):
            raise NewerRecord(position, wrote, names_in(data)) from error
        raise BrokenInvariant(f"record {position}, written by {wrote}: {error}") from error


def writer_of(log: Framed, position: int) -> str:
    """The version of the release that had the log open when a position was written; empty where
    the record that says so was dropped."""
    found, epoch = "", -1
    for frame in log.read(log.oldest):
        if frame.first > position:
            break
        if frame.epoch != epoch:
            # Whoever opens a log says so in the first record of its epoch.
            found = opened_by(frame.records[0]) or found
            epoch = frame.epoch
    return found


def _number(version: str) -> tuple[int, ...]:
    parts = version.split("+", maxsplit=1)[0].split(".")
    return tuple(int(part) if part.isdigit() else 0 for part in parts)
