"""A log in memory: the same contract, no disk. For tests and for work not worth keeping."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path

from holdfast.core.errors import BrokenInvariant, LogFailed
from holdfast.wal.errors import HistoryGone
from holdfast.wal.frames import Edge, Frame, encode, genesis, seed_of
from holdfast.wal.recovery import TornTail


class MemoryLog:
    """Forgets with the process. `reopen` stands for a crash: only durable frames come back."""

    def __init__(self, log_id: str = "") -> None:
        identity = bytes.fromhex(log_id) if log_id else blake2b(b"memory", digest_size=16).digest()
        self.log_id = identity.hex()
        self.epoch = 1
        self.durable = 0
        self.torn: TornTail | None = None
        self.pressure = False
        self.wants_next = False
        self._seed = seed_of(identity)
        self._origin = genesis(identity)
        self._edge = self._origin
        self._frames: list[Frame] = []
        self._gone = ""

    @property
    def last(self) -> int:
        return self._edge.position

    @property
    def head(self) -> bytes:
        return self._edge.chain

    @property
    def oldest(self) -> int:
        return self._origin.position + 1

    def append(self, records: Sequence[bytes], *, at: int, wall: int) -> int:
        self._check_open()
        if self.durable != self.last:
            raise BrokenInvariant(f"position {self.last} is not synced yet; one frame at a time")
        acked, first = self.last, self.last + 1
        _, self._edge = encode(self._edge, self._seed, records, epoch=self.epoch, at=at, wall=wall)
        frame = Frame(first, self.epoch, at, wall, acked, tuple(records), self._edge.chain)
        self._frames.append(frame)
        return self.last

    def sync(self) -> int:
        self._check_open()
        self.durable = self.last
        return self.durable

    def read(self, position: int = 1) -> Iterator[Frame]:
        if position < self.oldest:
            raise HistoryGone(self.oldest)
        return self._from(position)

    def record(self, position: int) -> tuple[Frame, bytes]:
        if position > self.last or position < 1:
            raise BrokenInvariant(
                f"position {position} was never written: the log ends at {self.last}"
            )
        for frame in self.read(position):
            return frame, frame.records[position - frame.first]
        raise HistoryGone(self.oldest)

    def chain_after(self, position: int) -> bytes | None:
        if position == self._origin.position:
            return self._origin.chain
        if position < self.oldest or position > self.last:
            return None
        frame, _ = self.record(position)
        return frame.chain if frame.last == position else None

    def prepare_next(self) -> bool:
        return True

    def note_idle(self) -> None:
        """Memory has no hint to write."""

    def drop_segments(self, before_position: int, archive: Path | None = None) -> int:
        """Every frame is a segment of its own here; there is nothing to archive."""
        while len(self._frames) > 1 and self._frames[0].last < before_position:
            frame = self._frames.pop(0)
            self._origin = Edge(frame.last, frame.epoch, frame.chain)
        return self.oldest

    def reopen(self) -> "MemoryLog":
        """The log as the next opening finds it: unsynced frames are gone, this writer is fenced."""
        self._gone = "another opening took the log over"
        after = MemoryLog(self.log_id)
        after.epoch = self.epoch + 1
        after._origin = self._origin
        after._frames = [frame for frame in self._frames if frame.last <= self.durable]
        after._edge = self._origin
        if after._frames:
            tail = after._frames[-1]
            after._edge = Edge(tail.last, tail.epoch, tail.chain)
        after.durable = after.last
        return after

    def close(self) -> None:
        if not self._gone:
            self.sync()
            self._gone = "it is closed"

    def _from(self, position: int) -> Iterator[Frame]:
        while position <= self.last:
            place = bisect_right(self._frames, position, key=_first_of) - 1
            if place < 0:
                raise HistoryGone(self.oldest)
            frame = self._frames[place]
            position = frame.last + 1
            yield frame

    def _check_open(self) -> None:
        if self._gone:
            raise LogFailed(f"this log takes nothing more: {self._gone}. Open it again to go on.")


def _first_of(frame: Frame) -> int:
    return frame.first
