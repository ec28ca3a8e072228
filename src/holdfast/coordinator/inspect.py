"""Reading a data folder without owning it: what commands that look at a log stand on.

Nothing here takes the lock or writes. A live folder is read up to its last complete frame, and as
it stood at any kept moment: after a position, or when a wall clock showed a time.
"""

import json
import os
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from msgspec import Struct

from holdfast.coordinator.decoding import decode_at
from holdfast.core.apply import apply
from holdfast.core.errors import BrokenInvariant, OperatingError
from holdfast.core.freeze import fingerprint_of, thaw
from holdfast.core.ids import Position
from holdfast.core.record import Record, decode_record
from holdfast.core.sound import Unsound
from holdfast.core.state import State
from holdfast.wal import (
    DiskFull,
    FolderReader,
    Frame,
    HistoryGone,
    LogDamaged,
    LogInUse,
    NewerFormat,
    RealDisk,
    Snapshot,
    read_folder,
    verify_snapshot,
)
from holdfast.wire.specs import instant_of

__all__ = [
    "DiskFull",
    "Folder",
    "HistoryGone",
    "LogDamaged",
    "LogInUse",
    "Moment",
    "NewerFormat",
    "NoLog",
    "Reading",
    "Told",
    "Unreachable",
    "Walls",
    "look_at",
    "look_into",
    "moment_of",
    "open_folder",
    "snapshot_files",
    "thawed",
    "told_by",
    "told_in",
    "undisturbed",
]

WAL: Final = "wal"
SNAPSHOTS: Final = "snapshots"
LOCK: Final = "holdfast.lock"
LOOKS: Final = 5

T = TypeVar("T")


class NoLog(OperatingError):
    """There is nothing to read in this folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(
            f"there is no log in {path}. Name another folder with --data, or make one: "
            "`holdfast demo --keep`."
        )


class Unreachable(OperatingError):
    """The moment asked for is not in the log: before its oldest history, or beyond its end."""


class Moment(Struct, frozen=True):
    """When to look: right after `position`, or as the wall clock showed `wall`; else at the end."""

    position: int | None = None
    wall: int | None = None


def moment_of(text: str, name: str) -> Moment:
    """A position or an RFC 3339 instant; empty is the end."""
    if not text:
        return Moment()
    if text.isascii() and text.isdigit() and len(text) < 20:
        return Moment(position=int(text))
    return Moment(wall=instant_of(text, name))


class Told(Struct, frozen=True):
    """One record as the log tells it. `offset` leads from its log time to the wall clock."""

    position: Position
    epoch: int
    offset: int
    record: Record

    def wall(self, instant: int) -> int:
        return instant + self.offset


class Walls:
    """What the wall clock showed at an instant of log time, as the frames remember it.

    The two clocks part when the wall clock is set, so one difference for all would misdate
    whatever happened on the other side of such a jump.
    """

    def __init__(self) -> None:
        self._until: list[int] = []
        self._offsets: list[int] = []

    def note(self, at: int, wall: int) -> None:
        """Frames are noted in the order of the log."""
        if self._offsets and self._offsets[-1] == wall - at:
            self._until[-1] = at
        else:
            self._until.append(at)
            self._offsets.append(wall - at)

    def wall(self, instant: int) -> int:
        if not self._offsets:
            return instant
        # A frame's instant is that of its last record, so the frame that ends at or after the
        # instant is the one that tells of it.
        place = bisect_left(self._until, instant)
        return instant + self._offsets[min(place, len(self._offsets) - 1)]


class Folder:
    """The records of a data folder, as far as they were complete when it was opened."""

    def __init__(self, reader: FolderReader) -> None:
        self.reader = reader
        self.path = reader.path
        self.log_id = reader.log_id
        self.last = Position(reader.last)
        self.oldest = Position(reader.oldest)

    def told(self, position: int) -> Told:
        """One record; `HistoryGone` where neither the log nor a snapshot kept it."""
        return told_by(*self.reader.record(position), position)

    def records(self, first: int = 0, last: int | None = None) -> Iterator[Told]:
        """The records from `first` (by default the oldest kept) to `last`, in order."""
        until = self.last if last is None else min(last, self.last)
        start = first or self.oldest
        if start > until:
            return
        yield from told_in(self.reader.read(start), start, until)

    def position_of(self, moment: Moment) -> Position:
        """The last position at that moment, or the reason why there is none."""
        if moment.wall is not None:
            return self._position_at(moment.wall)
        if moment.position is None:
            return self.last
        if moment.position > self.last:
            raise Unreachable(
                f"the log ends at position {self.last}, before {moment.position}. "
                f"Ask for {self.last} or less: `--at {self.last}`."
            )
        return Position(moment.position)

    def _position_at(self, wall: int) -> Position:
        found = 0
        for frame in self.reader.read(self.oldest) if self.last >= self.oldest else ():
            # Where the clock was set back a time comes twice; the later one is meant.
            if frame.wall <= wall:
                found = frame.last
        if not found:
            raise Unreachable(
                f"the oldest kept history, position {self.oldest}, is later than that time. "
                f"Ask for a later one, or for the first position: `--at {_earliest(self)}`."
            )
        return Position(found)


class Reading:
    """A folder as it stood at one moment: the state then, and the records that led to it."""

    def __init__(self, folder: Folder, state: State, walls: Walls) -> None:
        self.folder = folder
        self.path = folder.path
        self.state = state
        self.walls = walls

    def told(self, position: int) -> Told:
        return self.folder.told(position)

    def records(self, first: int, last: int) -> Iterator[Told]:
        return self.folder.records(first, last)

    def wall(self, instant: int) -> int:
        return self.walls.wall(instant)


def look_into(path: Path | str, *, lenient: bool = False) -> Folder:
    """The records of a folder. Leniently, a damaged one is read up to the damage."""
    folder = Path(path)
    if not _has_segments(folder):
        if _had_log(folder):
            raise LogDamaged(folder / WAL / "acked", 0, "the log that was here is gone")
        raise NoLog(folder)
    return Folder(read_folder(folder, lenient=lenient))


def look_at(path: Path | str, moment: Moment | None = None) -> tuple[Folder, Position]:
    """The records of a folder, and the last position at `moment`, by default its end.

    A damaged folder is refused, unless the position asked for lies before the damage.
    """
    wanted = moment or Moment()
    try:
        folder = look_into(path)
    except LogDamaged:
        if wanted.position is None:
            raise
        folder = look_into(path, lenient=True)
        if wanted.position > folder.last:
            raise
    return folder, folder.position_of(wanted)


def open_folder(path: Path | str, moment: Moment | None = None) -> Reading:
    """The folder as it stood at `moment`, by default now. Never locks, never writes.

    What `look_at` refuses is refused here.
    """
    return undisturbed(lambda: _reading(*look_at(path, moment)))


def _reading(folder: Folder, until: Position) -> Reading:
    walls = Walls()
    state = _start(folder, until)
    if state.position < min(until, folder.oldest - 1):
        raise Unreachable(
            f"history before position {folder.oldest} is no longer kept in {folder.path}. "
            f"Ask for a later moment: `--at {_earliest(folder)}`."
        )
    if folder.last > state.position:
        _replay(folder, state, walls, until)
    elif folder.last >= folder.oldest:
        frame, _ = folder.reader.record(folder.last)
        walls.note(frame.at, frame.wall)
    return Reading(folder, state, walls)


def _replay(folder: Folder, state: State, walls: Walls, until: int) -> None:
    for frame in folder.reader.read(state.position + 1):
        walls.note(frame.at, frame.wall)
        if frame.first > until:
            return
        for place, data in enumerate(frame.records):
            position = frame.first + place
            if state.position < position <= until:
                apply(state, decode_at(folder.reader, data, position), Position(position))


def _start(folder: Folder, until: int) -> State:
    """The newest snapshot that stands for nothing after `until`, or the very beginning.

    A snapshot that cannot be used is passed over here: `holdfast log verify` reports it.
    """
    for path in reversed(snapshot_files(folder.path)):
        snapshot = _usable(folder, path) if int(path.stem) <= until else None
        if snapshot is not None:
            with suppress(Unsound):
                return thawed(snapshot)
    return State()


def _earliest(folder: Folder) -> int:
    """The first position whose state can still be told.

    Where old history was dropped, that is the first snapshot: the records kept from before it say
    what happened and not from where it set out.
    """
    if folder.oldest == 1:
        return 1
    usable = (_usable(folder, path) for path in snapshot_files(folder.path))
    return next((found.position for found in usable if found is not None), folder.last)


def _usable(folder: Folder, path: Path) -> Snapshot | None:
    """The snapshot, where it is whole and the log goes on from it."""
    try:
        snapshot = verify_snapshot(RealDisk(), path)
    except (LogDamaged, NewerFormat):
        return None
    head = folder.reader.chain_after(snapshot.position)
    return snapshot if (snapshot.log_id, snapshot.chain_head) == (folder.log_id, head) else None


def thawed(snapshot: Snapshot) -> State:
    """The state a snapshot holds, or the proof that it holds another."""
    frozen = b"".join(snapshot.payload(RealDisk()))
    state = thaw(frozen)
    # Compared as it was written: a former release may have frozen the same state otherwise.
    told = fingerprint_of(frozen).encode()
    if state.position != snapshot.position or told != snapshot.state_hash:
        raise BrokenInvariant(f"{snapshot.path} does not hold the state it claims")
    return state


def snapshot_files(path: Path) -> list[Path]:
    """The snapshots of a data folder, oldest first, by name."""
    return _numbered(path / SNAPSHOTS, ".snap")


def told_by(frame: Frame, data: bytes, position: int) -> Told:
    """The record at a position, as its frame tells it."""
    return Told(Position(position), frame.epoch, frame.wall - frame.at, decode_record(data))


def told_in(frames: Iterable[Frame], first: int, last: int) -> Iterator[Told]:
    """The records of these frames from `first` to `last`, in order."""
    for frame in frames:
        for position, data in enumerate(frame.records, start=frame.first):
            if position > last:
                return
            if position >= first:
                yield told_by(frame, data, position)


def _has_segments(folder: Path) -> bool:
    return bool(_numbered(folder / WAL, ".seg"))


def _numbered(place: Path, suffix: str) -> list[Path]:
    """The files of a folder that are named by a number, none where there is no such folder.

    A folder that may not be listed is not empty: that is an error of the operating system.
    """
    try:
        names = os.listdir(place)
    except (FileNotFoundError, NotADirectoryError):
        return []
    files = (place / name for name in sorted(names))
    return [file for file in files if file.suffix == suffix and file.stem.isdigit()]


def _had_log(folder: Path) -> bool:
    """Whether the note of the last owner says that a log was begun here."""
    try:
        note = json.loads((folder / LOCK).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(note, dict) and bool(note.get("log"))


def undisturbed(look: Callable[[], T]) -> T:
    """What `look` finds. While the owner of a folder drops old history under its eyes it looks
    again: a file that went away is no finding."""
    for _ in range(LOOKS - 1):
        try:
            return look()
        except (FileNotFoundError, HistoryGone):
            continue
    return look()
