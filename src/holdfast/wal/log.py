"""The log as the coordinator sees it: a Protocol with one contract for every implementation."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from holdfast.wal.frames import Frame
from holdfast.wal.recovery import TornTail


class Log(Protocol):
    """An append-only sequence of opaque records at positions 1, 2, 3 … without gaps.

    One thread appends at a time. `read`, `record` and the attributes may be used from any thread.
    """

    @property
    def log_id(self) -> str:
        """32 hexadecimal characters, the same for the life of the log."""

    @property
    def epoch(self) -> int:
        """The number of this opening, higher than any before: earlier writers are fenced."""

    @property
    def last(self) -> int:
        """The last position written; 0 while the log is empty."""

    @property
    def durable(self) -> int:
        """The last position that survives a power cut."""

    @property
    def head(self) -> bytes:
        """16 bytes that stand for the whole history up to `last`."""

    @property
    def oldest(self) -> int:
        """The first position that `read` can still start from."""

    @property
    def torn(self) -> TornTail | None:
        """What opening had to cut, if anything."""

    @property
    def pressure(self) -> bool:
        """Whether the last attempt to make room for a next segment of the usual size failed."""

    @property
    def wants_next(self) -> bool:
        """Whether it is time to call `prepare_next`."""

    def append(self, records: Sequence[bytes], *, at: int, wall: int) -> int:
        """Write one frame; its last position. Not durable before `sync` returns.

        `BrokenInvariant` while an earlier frame is unsynced: at most one unsynced frame is ever on
        disk. `DiskFull` before anything was written: the log is healthy, try again later.
        `LogFailed` when the write failed: this log takes nothing more.
        """

    def sync(self) -> int:
        """Make everything written durable; the durable position. Never repeated once it failed."""

    def read(self, position: int = 1) -> Iterator[Frame]:
        """Frames from the one that holds `position` up to the last written when it gets there."""

    def record(self, position: int) -> tuple[Frame, bytes]:
        """One record and its frame. A kept record of dropped history comes in a frame of its own,
        whose `chain` is empty."""

    def chain_after(self, position: int) -> bytes | None:
        """The chain head right after `position`; None where no frame ends there any more."""

    def prepare_next(self) -> bool:
        """Make room for what comes after the current segment; False while the disk is full."""

    def note_idle(self) -> None:
        """Nothing is going on: remember durably how far the log is acknowledged."""

    def drop_segments(self, before_position: int, archive: Path | None = None) -> int:
        """Let go of whole segments that end before `before_position`; the oldest position kept.

        Only after a snapshot that stands for them was recorded. The last segment always stays.
        What `archive` cannot take stays too: `OperatingError`, and the log goes on.
        """

    def close(self) -> None:
        """Sync, remember how far, and let the folder go. A second close does nothing."""
