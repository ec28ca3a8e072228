"""Kept records: what is still pointed to after its segment was dropped, copied beside a snapshot.

A file `P.kept` stands beside the snapshot of position P, little endian:

    8 magic "HFKEPT01", 4 format version, 4 zero
    for each record: 8 position, 8 at, 8 wall, 8 epoch, 4 length, 4 crc32 of all these and the
    bytes, then the bytes
    for each record, by position: 8 position, 8 offset
    8 number of records, 8 offset of that list
    4 crc32 of the first 16 bytes, of the list and of these two numbers
"""

import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from holdfast.wal.disk import Disk, is_full, is_numbered, make_folder, write_all
from holdfast.wal.errors import DiskFull, HistoryGone, LogDamaged, NewerFormat
from holdfast.wal.frames import PAYLOAD_CAP, Frame
from holdfast.wal.segments import History
from holdfast.wal.snapshots import SNAPSHOTS_FOLDER

KEPT_FORMAT: Final = 1
KEPT_MAGIC: Final = b"HFKEPT01"
KEPT_SUFFIX: Final = ".kept"
KEPT_TEMPORARY: Final = ".kept-tmp"
BATCH_BYTES: Final = 1024 * 1024
LOOKS: Final = 20

_HEADER: Final = struct.Struct("<8sI4x")
_ENTRY: Final = struct.Struct("<QqqQI")
_CRC: Final = struct.Struct("<I")
_PLACE: Final = struct.Struct("<QQ")
_ENTRY_BYTES: Final = _ENTRY.size + _CRC.size
_FOOTER_BYTES: Final = _PLACE.size + _CRC.size

KeptRecord = tuple[int, int, int, int, bytes]
"""position, at, wall, epoch, bytes"""


def write_kept(disk: Disk, folder: Path, position: int, records: Iterable[KeptRecord]) -> Path:
    """Copy these records beside the snapshot of `position` in the data folder; the file's path.

    When this returns they survive a power cut. Records kept by an older file and still wanted must
    be given again: it goes when its snapshot goes.
    """
    target = folder / SNAPSHOTS_FOLDER / f"{position:020d}{KEPT_SUFFIX}"
    temporary = target.with_suffix(KEPT_TEMPORARY)
    make_folder(disk, target.parent)
    try:
        fd = disk.open(temporary, create=True)
        try:
            disk.truncate(fd, 0)
            _fill(disk, fd, records)
            disk.fsync(fd)
        finally:
            disk.close(fd)
    except OSError as error:
        if not is_full(error):
            raise
        if disk.exists(temporary):
            disk.unlink(temporary)
        raise DiskFull(target.parent, _FOOTER_BYTES) from error
    disk.rename(temporary, target)
    disk.fsync_dir(target.parent)
    return target


def _fill(disk: Disk, fd: int, records: Iterable[KeptRecord]) -> None:
    places: list[tuple[int, int]] = []
    header = _HEADER.pack(KEPT_MAGIC, KEPT_FORMAT)
    waiting, start = [header], 0
    offset = _HEADER.size
    for position, at, wall, epoch, content in records:
        entry = _ENTRY.pack(position, at, wall, epoch, len(content))
        places.append((position, offset))
        waiting += (entry, _CRC.pack(crc32(content, crc32(entry))), content)
        offset += _ENTRY_BYTES + len(content)
        if offset - start >= BATCH_BYTES:
            write_all(disk, fd, b"".join(waiting), start)
            waiting, start = [], offset
    index = b"".join(_PLACE.pack(*place) for place in sorted(places))
    index += _PLACE.pack(len(places), offset)
    waiting += (index, _CRC.pack(crc32(index, crc32(header))))
    write_all(disk, fd, b"".join(waiting), start)


class _Index(NamedTuple):
    path: Path
    positions: "array[int]"
    offsets: "array[int]"


class KeptRecords:
    """Finds records of dropped history beside the snapshots. Safe to use from any thread."""

    def __init__(self, disk: Disk, folder: Path) -> None:
        self._disk = disk
        self._folder = folder / SNAPSHOTS_FOLDER
        self._known: dict[str, _Index] = {}

    def record(self, history: History, position: int) -> tuple[Frame, bytes]:
        """A record and its frame, out of the log, or kept from where its segment was dropped.

        The log is asked first and always: its segment may go between a look at it and the reading.
        """
        try:
            frame = history.frame(position)
        except HistoryGone as gone:
            frame = self.find(position, gone.oldest)
        return frame, frame.records[position - frame.first]

    def find(self, position: int, oldest: int) -> Frame:
        """The kept record at `position`, in a frame of its own whose chain is empty.

        Newer files are asked first. A damaged file is no proof of absence: when no other file has
        the record, the damage is what is raised; otherwise `HistoryGone`.
        """
        for _ in range(LOOKS):
            try:
                found = self._look(position)
            except FileNotFoundError:
                # Newer snapshots have just replaced this one, and keep what it kept.
                continue
            if found is not None:
                return found
            break
        raise HistoryGone(oldest)

    def positions(self, before: int) -> list[int]:
        """Of the records that the newest file has, those before a position, in order: it has all
        that older ones had and that were still wanted."""
        names = self._names()
        listed = self._load(names[0]).positions if names else ()
        return [position for position in listed if position < before]

    def _look(self, position: int) -> Frame | None:
        damage: LogDamaged | None = None
        names = self._names()
        for name in self._known.keys() - set(names):
            self._known.pop(name, None)
        for name in names:
            try:
                index = self._load(name)
                place = bisect_left(index.positions, position)
                if place < len(index.positions) and index.positions[place] == position:
                    return self._entry(index.path, index.offsets[place], position)
            except FileNotFoundError:
                raise
            except OSError as error:
                why = f"the kept records cannot be read: {error}"
                damage = damage or LogDamaged(self._folder / name, 0, why)
            except LogDamaged as error:
                damage = damage or error
        if damage is not None:
            raise damage
        return None

    def _names(self) -> list[str]:
        if not self._disk.exists(self._folder):
            return []
        listed = self._disk.listdir(self._folder)
        return sorted((name for name in listed if is_numbered(name, KEPT_SUFFIX)), reverse=True)

    def _load(self, name: str) -> _Index:
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = read_index(self._disk, self._folder / name)
        return known

    def _entry(self, path: Path, offset: int, position: int) -> Frame:
        fd = self._disk.open(path)
        try:
            head = self._disk.pread(fd, _ENTRY_BYTES, offset)
            if len(head) < _ENTRY_BYTES:
                raise LogDamaged(path, offset, "a kept record is cut short")
            found, at, wall, epoch, length = _ENTRY.unpack_from(head)
            if found != position or length > min(PAYLOAD_CAP, self._disk.size(fd) - offset):
                raise LogDamaged(path, offset, f"position {position} is not where it should be")
            content = self._disk.pread(fd, length, offset + _ENTRY_BYTES)
        finally:
            self._disk.close(fd)
        if crc32(content, crc32(head[: _ENTRY.size])) != _CRC.unpack_from(head, _ENTRY.size)[0]:
            raise LogDamaged(path, offset, "a kept record's checksum does not match")
        return Frame(position, epoch, at, wall, position - 1, (content,), b"")


def read_index(disk: Disk, path: Path) -> _Index:
    """Where each record of a kept file lies."""
    fd = disk.open(path)
    try:
        size = disk.size(fd)
        head = disk.pread(fd, _HEADER.size, 0)
        if size < _HEADER.size + _FOOTER_BYTES:
            raise LogDamaged(path, size, "the kept records are cut short")
        footer = disk.pread(fd, _FOOTER_BYTES, size - _FOOTER_BYTES)
        count, start = _PLACE.unpack_from(footer)
        if start + count * _PLACE.size != size - _FOOTER_BYTES:
            raise LogDamaged(path, size - _FOOTER_BYTES, "the list of kept records is damaged")
        listed = disk.pread(fd, count * _PLACE.size, start)
    finally:
        disk.close(fd)
    crc = crc32(footer[: _PLACE.size], crc32(listed, crc32(head)))
    if crc != _CRC.unpack_from(footer, _PLACE.size)[0]:
        raise LogDamaged(path, start, "the list of kept records does not match its checksum")
    magic, version = _HEADER.unpack(head)
    if magic != KEPT_MAGIC:
        raise LogDamaged(path, 0, "this is no file of kept records")
    if version > KEPT_FORMAT:
        raise NewerFormat(path, version, KEPT_FORMAT)
    places = list(_PLACE.iter_unpack(listed))
    return _Index(
        path, array("Q", [place[0] for place in places]), array("Q", [place[1] for place in places])
    )
