"""Reading a folder that another process may be writing: no lock, nothing cut, nothing written."""

from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import Final

from holdfast.core.errors import OperatingError
from holdfast.wal.disk import Disk, RealDisk, read_all
from holdfast.wal.errors import HistoryGone, LogDamaged
from holdfast.wal.file import WAL_FOLDER
from holdfast.wal.frames import Frame
from holdfast.wal.hint import HINT_NAME, Hint, judge_slots
from holdfast.wal.kept import KeptRecords
from holdfast.wal.recovery import Clean, Survey, Torn
from holdfast.wal.segments import (
    SEGMENT_HEADER_BYTES,
    History,
    check_format,
    decode_header,
    segment_paths,
)

LOOKS: Final = 20


class FolderReader:
    """A log folder as it stood at one moment, up to the last complete frame.

    `damage` is what ended the good part, when the folder was read leniently; `verdict` is how the
    good part ends otherwise.
    """

    def __init__(self, disk: Disk, folder: Path, found: Survey, damage: LogDamaged | None) -> None:
        self.path = folder
        self.log_id = found.log_id.hex()
        self.epoch = found.edge.epoch
        self.last = found.edge.position
        self.head = found.edge.chain
        self.damage = damage
        self.verdict: Clean | Torn = found.verdict
        self._history = History(disk, found.seed, found.segments)
        self._kept = KeptRecords(disk, folder)

    @property
    def oldest(self) -> int:
        return self._history.oldest

    def read(self, position: int = 1) -> Iterator[Frame]:
        """Frames from the one that holds `position`; `HistoryGone` when it was dropped."""
        return self._history.read(position, lambda: self.last)

    def record(self, position: int) -> tuple[Frame, bytes]:
        return self._kept.record(self._history, position)

    def kept_positions(self) -> list[int]:
        """Where the records stood that outlived their segments, in order."""
        return self._kept.positions(self.oldest)

    def chain_after(self, position: int) -> bytes | None:
        return self._history.chain_after(position)


def read_folder(
    path: Path | str, *, disk: Disk | None = None, lenient: bool = False
) -> FolderReader:
    """Look at a log folder, live or not.

    A writer may be in the middle of a frame, a rotation or a drop, so what looks damaged is looked
    at again: real damage stays where it is. It raises `LogDamaged`; leniently, the good part before
    it can be read and the damage is told by the reader.
    """
    disk = disk or RealDisk()
    folder = Path(path)
    seen: tuple[Path, int] | None = None
    for _ in range(LOOKS):
        try:
            return _look(disk, folder, lenient=lenient and seen is not None)
        except (FileNotFoundError, HistoryGone):
            # The writer dropped a segment between our listing and our reading.
            continue
        except LogDamaged as damage:
            if seen == (damage.file, damage.offset):
                raise
            seen = (damage.file, damage.offset)
    raise OperatingError(
        f"{folder} changes faster than it can be read. "
        f"Try again: `holdfast log verify {quote(str(folder))}`."
    )


def _look(disk: Disk, folder: Path, *, lenient: bool) -> FolderReader:
    wal = folder / WAL_FOLDER
    # The hint is read first: whatever it names is on disk by the time the frames are read.
    hint, flaw = _hint(disk, wal, lenient=lenient)
    found = Survey(disk, wal, hint, hint_is_whole=True)
    try:
        found.run()
    except LogDamaged as damage:
        if not lenient or not found.segments:
            raise
        return FolderReader(disk, folder, found, damage)
    return FolderReader(disk, folder, found, flaw)


def _hint(disk: Disk, wal: Path, *, lenient: bool) -> tuple[Hint, LogDamaged | None]:
    """What was acknowledged; leniently, nothing and why, where that cannot be read."""
    path = wal / HINT_NAME
    if not disk.exists(wal) or not segment_paths(disk, wal):
        raise LogDamaged(path, 0, "there is no log here")
    check_format(disk, wal)
    reading = judge_slots(read_all(disk, path)) if disk.exists(path) else None
    if reading is not None:
        return reading.hint, None
    flaw = LogDamaged(path, 0, "neither copy of what was acknowledged can be read")
    if not lenient:
        raise flaw
    first = segment_paths(disk, wal)[0]
    header = decode_header(first, read_all(disk, first)[:SEGMENT_HEADER_BYTES])
    return Hint(header.log_id, 0, header.first - 1, 0, 0, header.chain), flaw
