"""Recovery: what a folder holds after whatever happened to it, torn or damaged.

    the bytes after the last good frame        verdict
    all zero                                   clean: the log ends here
    a whole frame of this position or later    damaged: something safe was lost before it
    any, and the hint names a later position   damaged: it was acknowledged
    non-zero beyond the reach of one frame     damaged: a torn write cannot reach so far
    any, and a slot of the hint is bad         damaged: that slot may have named it
    anything else, in the last segment         torn: the one unsynced frame did not reach the disk
    anything else, in an earlier segment       damaged: all of it was durable once

Damage changes nothing on disk. A torn tail is copied aside before it is zeroed.
"""

from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from holdfast.wal.disk import Disk, is_full, read_all, write_all
from holdfast.wal.errors import LogDamaged
from holdfast.wal.frames import FRAME_CAP, Edge, Scan, genesis, later_frame, scan, seed_of
from holdfast.wal.hint import HINT_NAME, Hint
from holdfast.wal.segments import (
    SEGMENT_HEADER_BYTES,
    History,
    Segment,
    decode_header,
    segment_name,
    segment_paths,
)
from holdfast.wal.snapshots import reaches


class TornTail(Struct, frozen=True):
    """Bytes of a frame that a crash cut short, never acknowledged, and where they were put.

    `kept` is None where the disk had no room for the copy.
    """

    position: int
    size: int
    segment: Path
    offset: int
    kept: Path | None


class Damage(NamedTuple):
    offset: int
    why: str


class Torn(NamedTuple):
    """Bytes from `offset` up to `end` belong to a frame that never became durable."""

    offset: int
    end: int


class Clean(NamedTuple):
    offset: int


def judge(
    content: bytes, found: Scan, seed: int, *, acked: int, hint_is_whole: bool, is_newest: bool
) -> Clean | Torn | Damage:
    """The table above. `acked` is the position the hint names."""
    used = len(content.rstrip(b"\0"))
    position = found.edge.position
    if used > found.end:
        later = later_frame(content, found.end, position + 1, seed)
        if later is not None:
            return Damage(found.end, f"{found.flaw}, yet a whole frame lies at byte {later}")
        if not is_newest:
            return Damage(found.end, f"{found.flaw}, in a segment that was complete")
        if used - found.end > FRAME_CAP:
            return Damage(used - 1, "written bytes lie beyond the reach of any torn frame")
    if acked > position:
        why = f"the log ends at position {position}, but position {acked} was acknowledged"
        return Damage(found.end, why)
    if used <= found.end:
        return Clean(found.end)
    if not hint_is_whole:
        why = f"{found.flaw}, and the copy of the hint that may have acknowledged it is damaged"
        return Damage(found.end, why)
    return Torn(found.end, used)


class Survey:
    """A folder as it stands, nothing changed: every segment read and every frame verified.

    `run` raises `LogDamaged` at the first byte that cannot stand; what was good before it remains
    in `segments`. `final` is the content of the segment read last, `tail` the last frame's bytes
    with the segment and offset where they stand.
    """

    def __init__(self, disk: Disk, folder: Path, hint: Hint, *, hint_is_whole: bool) -> None:
        self.folder = folder
        self.hint = hint
        self.log_id = hint.log_id
        self.seed = seed_of(hint.log_id)
        self.segments: list[Segment] = []
        self.edge = genesis(hint.log_id)
        self.verdict: Clean | Torn = Clean(SEGMENT_HEADER_BYTES)
        self.final = b""
        self.tail: tuple[Segment, int, bytes] | None = None
        self._disk = disk
        self._hint_is_whole = hint_is_whole

    def run(self) -> "Survey":
        paths = segment_paths(self._disk, self.folder)
        self._check_ends(paths)
        for path in paths:
            self._visit(path, is_newest=path == paths[-1])
        self._check_head()
        return self

    def _visit(self, path: Path, *, is_newest: bool) -> None:
        content = read_all(self._disk, path)
        segment = self._enter(path, content)
        found = scan(content, SEGMENT_HEADER_BYTES, self.edge, self.seed)
        segment.take(found)
        self.segments.append(segment)
        self.edge = found.edge
        self.final = content
        if found.tail >= 0:
            self.tail = (segment, found.tail, content[found.tail : found.end])
        verdict = judge(
            content,
            found,
            self.seed,
            acked=self.hint.position if is_newest else 0,
            hint_is_whole=self._hint_is_whole,
            is_newest=is_newest,
        )
        if isinstance(verdict, Damage):
            raise LogDamaged(path, verdict.offset, verdict.why)
        self.verdict = verdict

    def _check_ends(self, paths: list[Path]) -> None:
        """The newest segment the hint names is there, and what is gone at the front is covered."""
        expected = segment_name(max(1, self.hint.segment))
        if not paths or paths[-1].name < expected:
            raise LogDamaged(self.folder / expected, 0, "the segment is missing")
        oldest = int(paths[0].stem)
        if oldest > 1 and not reaches(self._disk, self.folder.parent, self.log_id, oldest - 1):
            why = f"history before position {oldest} is gone and no snapshot stands for it"
            raise LogDamaged(paths[0], 0, why)

    def _enter(self, path: Path, content: bytes) -> Segment:
        """A segment continues the one before it, in the same log."""
        header = decode_header(path, content[:SEGMENT_HEADER_BYTES])
        edge = self.edge
        if header.log_id != self.log_id:
            raise LogDamaged(path, 16, "the segment belongs to another log")
        if self.segments and header.first != edge.position + 1:
            before = self.segments[-1]
            why = f"the segment ends at position {edge.position}, the next begins at {header.first}"
            raise LogDamaged(before.path, before.end, why)
        is_start = self.segments or header.first == 1
        if is_start and (header.chain != edge.chain or header.epoch < edge.epoch):
            raise LogDamaged(path, 40, "the segment does not continue what is before it")
        self.edge = Edge(header.first - 1, header.epoch, header.chain)
        return Segment(path, header, len(content))

    def _check_head(self) -> None:
        """The history is the one that was acknowledged, not another of the same length."""
        hint = self.hint
        history = History(self._disk, self.seed, self.segments)
        if hint.position >= history.oldest - 1 and history.chain_after(hint.position) != hint.chain:
            why = f"position {hint.position} is not the one that was acknowledged"
            raise LogDamaged(self.folder / HINT_NAME, 56, why)


def mend(disk: Disk, folder: Path, found: Survey) -> TornTail | None:
    """Put the torn tail aside and make sure that what reads well is on disk.

    The last frame is written again in place: a sync that failed or never came leaves pages that
    read well and are gone after the next power cut.
    """
    torn = None
    if isinstance(found.verdict, Torn):
        torn = _cut(disk, folder, found, found.verdict)
    if found.tail is not None:
        segment, offset, frame = found.tail
        _overwrite(disk, segment.path, frame, offset)
    disk.fsync_dir(folder)
    return torn


def _cut(disk: Disk, folder: Path, found: Survey, torn: Torn) -> TornTail:
    position = found.edge.position + 1
    path = found.segments[-1].path
    kept = _set_aside(disk, folder, position, found.final[torn.offset : torn.end])
    _overwrite(disk, path, bytes(torn.end - torn.offset), torn.offset)
    return TornTail(position, torn.end - torn.offset, path, torn.offset, kept)


def _set_aside(disk: Disk, folder: Path, position: int, content: bytes) -> Path | None:
    number = 1
    while disk.exists(path := folder / f"torn-{position}-{number}"):
        number += 1
    try:
        fd = disk.open(path, create=True)
        try:
            write_all(disk, fd, content, 0)
            disk.fsync(fd)
        finally:
            disk.close(fd)
        disk.fsync_dir(folder)
    except OSError as error:
        if not is_full(error):
            raise
        # Opening must not need space. These bytes were never acknowledged to anyone.
        if disk.exists(path):
            disk.unlink(path)
        return None
    return path


def _overwrite(disk: Disk, path: Path, content: bytes, offset: int) -> None:
    fd = disk.open(path, write=True)
    try:
        write_all(disk, fd, content, offset)
        disk.fdatasync(fd)
    finally:
        disk.close(fd)
