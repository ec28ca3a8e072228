"""What can still be read of a damaged folder: every whole frame, wherever it lies.

A frame is known by its checksum, which begins with the id of the log; whether it follows another
is told by the chain. Across a hole nothing is: the frames behind it are whole, and that is all
that can be said of them. Nothing is locked, written or repaired.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from holdfast.wal.disk import Disk, read_all
from holdfast.wal.errors import HistoryGone, LogDamaged
from holdfast.wal.file import WAL_FOLDER
from holdfast.wal.frames import (
    CHAIN_AT,
    HEADER,
    HEADER_BYTES,
    MAGIC_BYTES,
    PATIENCE,
    Edge,
    Frame,
    decode,
    extent_at,
    flaw_at,
    seed_of,
)
from holdfast.wal.hint import HINT_NAME, judge_slots
from holdfast.wal.kept import KeptRecords
from holdfast.wal.segments import SEGMENT_HEADER_BYTES, decode_header, segment_paths
from holdfast.wal.snapshots import Snapshot, snapshot_paths, verify_snapshot


class Place(NamedTuple):
    """Where a whole frame lies, and which positions it holds."""

    path: Path
    offset: int
    end: int
    first: int
    last: int


class Reach(NamedTuple):
    """How far a history can be followed: where it then stands, and the byte behind it."""

    edge: Edge
    path: Path | None
    offset: int


class Wreckage:
    """`acked` is the last position that is known to have been acknowledged, zero where nothing
    tells. `unread` are segments of which some part was not looked through."""

    def __init__(self, disk: Disk, folder: Path) -> None:
        self._disk = disk
        self._kept = KeptRecords(disk, folder)
        self._cached: tuple[Path, bytes] | None = None
        self.folder = folder
        self.paths = segment_paths(disk, folder / WAL_FOLDER)
        self.snapshots = _snapshots(disk, folder)
        self.acked = 0
        self.unread: list[Path] = []
        self.bytes = 0
        self.log_id = self._find_id()
        self.seed = seed_of(self.log_id)
        self.places = [place for path in self.paths for place in self._whole_frames(path)]
        self._ordered = sorted(self.places, key=_first_of)
        self._by_first: dict[int, list[Place]] = {}
        for place in self.places:
            self._by_first.setdefault(place.first, []).append(place)
        self.snapshots = [s for s in self.snapshots if s.log_id == self.log_id.hex()]

    @property
    def last(self) -> int:
        """The last position that any readable frame holds, or that was acknowledged."""
        return max([self.acked, *(place.last for place in self.places)])

    @property
    def lost_bytes(self) -> int:
        """How many bytes that are not zero lie in no whole frame."""
        return max(0, self.bytes - sum(place.end - place.offset for place in self.places))

    def follow(self, edge: Edge, until: int | None = None) -> Reach:
        """From where the history stands, on as far as the chain holds, or to the last frame that
        ends at `until` or before."""
        reach = Reach(edge, None, 0)
        for place, after in self._links(edge):
            if until is not None and after.position > until:
                break
            reach = Reach(after, place.path, place.end)
        return reach

    def linked(self, edge: Edge, until: int) -> Iterator[Frame]:
        """The frames that follow, up to the one that ends at `until`."""
        for place, after in self._links(edge):
            if after.position > until:
                return
            yield self.frame(place)

    def ends_at(self, reach: Reach) -> bool:
        """Whether nothing was written behind what can be followed."""
        if reach.path is None or reach.path != self.paths[-1]:
            return False
        return not self._content(reach.path)[reach.offset :].strip(b"\0")

    def behind(self, position: int) -> Iterator[Frame]:
        """Whole frames with anything after `position`, in the order of their positions."""
        seen: set[tuple[int, bytes]] = set()
        for place in self._ordered:
            if place.last > position:
                frame = self.frame(place)
                if (frame.first, frame.chain) not in seen:
                    seen.add((frame.first, frame.chain))
                    yield frame

    @property
    def oldest(self) -> int:
        """The first position that any readable frame holds; behind all, where none is whole."""
        return self._ordered[0].first if self._ordered else self.last + 1

    def read(self, position: int = 1) -> Iterator[Frame]:
        """Whole frames from the one that holds `position`, whether they follow each other or
        not."""
        return self.behind(position - 1)

    def kept_positions(self) -> list[int]:
        """What was kept beside snapshots, as far as that can be read."""
        found: list[int] = []
        with suppress(OSError, LogDamaged):
            for position in self._kept.positions(self.oldest):
                with suppress(OSError, LogDamaged, HistoryGone):
                    self._kept.find(position, self.oldest)
                    found.append(position)
        return found

    def record(self, position: int) -> tuple[Frame, bytes]:
        """One record and its frame, out of what is whole or was kept beside a snapshot."""
        at = bisect_right(self._ordered, position, key=_first_of) - 1
        if at >= 0 and position <= self._ordered[at].last:
            frame = self.frame(self._ordered[at])
            return frame, frame.records[position - frame.first]
        frame = self._kept.find(position, self.oldest)
        return frame, frame.records[position - frame.first]

    def frame(self, place: Place) -> Frame:
        found = decode(self._content(place.path), place.offset, self.seed, None)
        if isinstance(found, str):
            raise LogDamaged(place.path, place.offset, found)
        return found

    def _links(self, edge: Edge) -> Iterator[tuple[Place, Edge]]:
        position, epoch, chain = edge
        while True:
            for place in self._by_first.get(position + 1, ()):
                content = self._content(place.path)
                link = self._link(content, place, chain)
                if link is not None and link[0] >= epoch:
                    epoch, chain = link
                    position = place.last
                    break
            else:
                return
            yield place, Edge(position, epoch, chain)

    def _link(self, content: bytes, place: Place, chain: bytes) -> tuple[int, bytes] | None:
        """The epoch and the chain after this frame, where it continues `chain`."""
        _, _, _, _, _, epoch, _, _, _, link, _ = HEADER.unpack_from(content, place.offset)
        digest = blake2b(chain, digest_size=16)
        view = memoryview(content)
        digest.update(view[place.offset : place.offset + CHAIN_AT])
        digest.update(view[place.offset + HEADER_BYTES : place.end])
        return (epoch, link) if digest.digest() == link else None

    def _content(self, path: Path) -> bytes:
        """One segment is held at a time: frames are mostly read one after another."""
        if self._cached is None or self._cached[0] != path:
            self._cached = (path, _readable(self._disk, path))
        return self._cached[1]

    def _whole_frames(self, path: Path) -> Iterator[Place]:
        content = self._content(path)
        # Counted from behind the header, by which a segment begins even where that is damaged.
        self.bytes += len(content[SEGMENT_HEADER_BYTES:].rstrip(b"\0"))
        patience = PATIENCE * len(content)
        found = content.find(MAGIC_BYTES)
        while 0 <= found <= len(content) - HEADER_BYTES:
            _, length, first, count, *_ = HEADER.unpack_from(content, found)
            following = found + 1
            if count and found + HEADER_BYTES + length <= len(content):
                patience -= length
                if patience < 0:
                    self.unread.append(path)
                    return
                if flaw_at(content, found, self.seed) is None:
                    following = found + extent_at(content, found)
                    yield Place(path, found, following, first, first + count - 1)
            found = content.find(MAGIC_BYTES, following)

    def _find_id(self) -> bytes:
        """The log that this folder held: by its hint, its segments, or its snapshots."""
        wal = self.folder / WAL_FOLDER
        hint = wal / HINT_NAME
        reading = judge_slots(_readable(self._disk, hint)) if self._disk.exists(hint) else None
        if reading is not None:
            self.acked = reading.hint.position
            return reading.hint.log_id
        ids: Counter[bytes] = Counter()
        for path in self.paths:
            try:
                ids[decode_header(path, _readable(self._disk, path)).log_id] += 1
            except LogDamaged:
                continue
        ids.update(bytes.fromhex(snapshot.log_id) for snapshot in self.snapshots)
        if not ids:
            raise LogDamaged(hint, 0, "neither a segment nor a snapshot says which log this was")
        return ids.most_common(1)[0][0]


def _first_of(place: Place) -> int:
    return place.first


def _readable(disk: Disk, path: Path) -> bytes:
    """The bytes of a file as far as the disk gives them; none where it gives none."""
    try:
        return read_all(disk, path)
    except OSError:
        return b""


def _snapshots(disk: Disk, folder: Path) -> list[Snapshot]:
    """Those of which every byte is as it was written."""
    found: list[Snapshot] = []
    for path in snapshot_paths(disk, folder):
        try:
            found.append(verify_snapshot(disk, path))
        except (OSError, LogDamaged):
            continue
    return found
