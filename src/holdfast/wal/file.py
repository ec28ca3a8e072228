"""The log in a folder of files: the embedded default.

DIR/holdfast.lock      who writes here
DIR/wal/0000…1.seg     frames, from that position on
DIR/wal/next.seg       zero-filled space for the next segment
DIR/wal/acked          how far the log was acknowledged
DIR/wal/torn-P-N       bytes of a frame for position P that a crash cut short
DIR/snapshots/         snapshots, and the records kept beside them
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from secrets import token_bytes
from threading import Lock
from time import perf_counter
from typing import Final

from holdfast.core.errors import BrokenInvariant, LogFailed
from holdfast.core.histogram import RECORDS, SYNC_SECONDS, Histogram
from holdfast.wal.disk import Disk, RealDisk, is_full, make_folder, write_all
from holdfast.wal.errors import DiskFull, LogDamaged
from holdfast.wal.frames import Edge, Frame, encode, genesis
from holdfast.wal.hint import HINT_NAME, Hint, HintFile, create_hint, read_hint
from holdfast.wal.kept import KeptRecords
from holdfast.wal.lock import FolderLock
from holdfast.wal.recovery import Survey, TornTail, mend
from holdfast.wal.retention import droppable, put_away
from holdfast.wal.segments import (
    SEGMENT_HEADER_BYTES,
    History,
    Segment,
    check_format,
    segment_paths,
)
from holdfast.wal.snapshots import snapshot_paths
from holdfast.wal.space import SegmentSpace

WAL_FOLDER: Final = "wal"


class FileLog:
    """The one writer of a folder. Made by `open`; the contract is that of `Log`.

    After a failed write or sync every append and sync raises `LogFailed`: the pages of a failed
    sync count as clean, so a second sync would say yes to bytes that are not on disk.
    A forked child holds a copy of this object but not the log: it can neither append nor release.
    """

    def __init__(
        self,
        disk: Disk,
        folder: Path,
        lock: FolderLock,
        hint: HintFile,
        found: Survey,
        torn: TornTail | None,
        space: SegmentSpace,
    ) -> None:
        self.path = folder
        self.log_id = found.log_id.hex()
        self.epoch = max(found.edge.epoch, hint.hint.epoch) + 1
        self.durable = found.edge.position
        self.torn = torn
        self.sync_seconds = Histogram(SYNC_SECONDS)
        self.frame_records = Histogram(RECORDS)
        self._identity = found.log_id
        self._disk = disk
        self._lock = lock
        self._hint = hint
        self._edge: Edge = found.edge
        self._seed = found.seed
        self._space = space
        self._history = History(disk, found.seed, found.segments)
        self._kept = KeptRecords(disk, folder)
        self._segment = found.segments[-1]
        self._fd = disk.open(self._segment.path, write=True)
        self.owner_pid = os.getpid()
        self._writing = Lock()
        self._failure = ""
        self._is_closed = False

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        disk: Disk | None = None,
        segment_bytes: int | None = None,
        new_id: bytes | None = None,
    ) -> "FileLog":
        """Take the folder over, creating folder and log where absent.

        When this returns, everything the log shows is durable and every earlier writer is fenced.
        `segment_bytes` fixes the size of new segments; `new_id` names a log that is made here.
        """
        disk = disk or RealDisk()
        # The program may change its directory while the log is open.
        folder = Path(path).absolute()
        try:
            make_folder(disk, folder)
            lock = FolderLock(disk, folder)
            try:
                return cls._take_over(disk, folder, lock, segment_bytes, new_id)
            except BaseException:
                lock.release()
                raise
        except OSError as error:
            if is_full(error):
                raise DiskFull(folder, SEGMENT_HEADER_BYTES) from error
            raise LogFailed(
                f"{folder} cannot be opened: {error}. Run `holdfast log verify {folder}`."
            ) from error

    @classmethod
    def _take_over(
        cls,
        disk: Disk,
        folder: Path,
        lock: FolderLock,
        segment_bytes: int | None,
        new_id: bytes | None,
    ) -> "FileLog":
        wal = folder / WAL_FOLDER
        space = SegmentSpace(disk, wal, segment_bytes)
        _create_where_absent(disk, folder, lock, space, new_id or token_bytes(16))
        check_format(disk, wal)
        with ExitStack() as leaving:
            hint = HintFile(disk, wal)
            leaving.callback(hint.close)
            found = Survey(disk, wal, hint.hint, hint_is_whole=hint.is_whole).run()
            torn = mend(disk, wal, found)
            hint.settle()
            log = cls(disk, folder, lock, hint, found, torn, space)
            leaving.callback(disk.close, log._fd)
            log._note()
            lock.sign(log.log_id)
            leaving.pop_all()
        return log

    @property
    def last(self) -> int:
        return self._edge.position

    @property
    def head(self) -> bytes:
        return self._edge.chain

    @property
    def oldest(self) -> int:
        return self._history.oldest

    @property
    def pressure(self) -> bool:
        return self._space.pressure

    @property
    def wants_next(self) -> bool:
        segment = self._segment
        return not self._space.is_ready and segment.end * 2 > segment.size

    def append(self, records: Sequence[bytes], *, at: int, wall: int) -> int:
        # Asked before the lock is taken: another thread's sync must not make this one wait.
        self._check_owner()
        self._check_usable()
        if self.durable != self._edge.position:
            raise BrokenInvariant(f"position {self.last} is not synced yet; one frame at a time")
        with self._writing:
            self._check_usable()
            frame, edge = encode(
                self._edge, self._seed, records, epoch=self.epoch, at=at, wall=wall
            )
            segment = self._segment
            if segment.end + len(frame) > segment.size:
                segment = self._rotate(len(frame))
            offset = segment.end
            try:
                taken = self._disk.pwrite(self._fd, frame, offset)
                if taken != len(frame):
                    write_all(self._disk, self._fd, frame[taken:], offset + taken)
            except OSError as error:
                raise self._fail("a frame could not be written", error) from error
            self._edge = edge
            segment.grow(offset, offset + len(frame), edge.position)
            self.frame_records.observe(len(records))
            return edge.position

    def sync(self) -> int:
        self._check_owner()
        with self._writing:
            self._check_usable()
            return self._sync()

    def read(self, position: int = 1) -> Iterator[Frame]:
        return self._history.read(position, lambda: self._segment.last)

    def record(self, position: int) -> tuple[Frame, bytes]:
        return self._kept.record(self._history, position)

    def bytes_after(self, position: int) -> int:
        """About how many bytes of frames come after `position`: what a start would replay."""
        return self._history.bytes_after(position)

    def chain_after(self, position: int) -> bytes | None:
        return self._history.chain_after(position)

    def prepare_next(self) -> bool:
        """Also from another thread: it touches only the file that is not in use yet."""
        if os.getpid() != self.owner_pid or self._failure:
            return False
        self._check_place()
        try:
            return self._space.prepare(0, self._segment.size)
        except OSError as error:
            raise self._fail("the next segment could not be prepared", error) from error

    def note_idle(self) -> None:
        self._check_owner()
        with self._writing:
            self._check_usable()
            if self.durable == self._edge.position:
                self._check_place()
                self._note()

    def drop_segments(self, before_position: int, archive: Path | None = None) -> int:
        """Appends go on meanwhile: copying to an archive may take long. What the archive cannot
        take stays, and `OperatingError` says so; the log is none the worse."""
        self._check_owner()
        self._check_usable()
        self._check_place()
        try:
            for segment in droppable(
                self._disk, self._history, self._identity, self.path, before_position
            ):
                is_here = archive is None or put_away(self._disk, segment, archive)
                with self._writing:
                    self._check_usable()
                    if is_here:
                        self._disk.unlink(segment.path)
                    self._history.forget(segment)
                    self._disk.fsync_dir(segment.path.parent)
        except OSError as error:
            raise self._fail("old segments could not be dropped", error) from error
        return self._history.oldest

    def close(self) -> None:
        if os.getpid() != self.owner_pid:
            return
        with self._writing:
            if self._is_closed:
                return
            self._is_closed = True
            with ExitStack() as leaving:
                leaving.callback(self._lock.release)
                leaving.callback(self._hint.close)
                leaving.callback(self._disk.close, self._fd)
                leaving.callback(self._space.close)
                if not self._failure:
                    self._sync()
                    self._note()
                    self._failure = CLOSED

    def _sync(self) -> int:
        position = self._edge.position
        if self.durable != position:
            try:
                began = perf_counter()
                self._disk.fdatasync(self._fd)
            except OSError as error:
                raise self._fail("a sync failed", error) from error
            self.sync_seconds.observe(perf_counter() - began)
            self.durable = position
        return position

    def _note(self) -> None:
        """Write the hint. Only ever while nothing is unsynced: the torn-tail rule rests on it."""
        try:
            self._hint.note(self.durable, self.epoch, self._segment.first, self._edge.chain)
        except OSError as error:
            raise self._fail("the hint could not be written", error) from error

    def _rotate(self, frame_bytes: int) -> Segment:
        """Go on in a fresh segment. `DiskFull` leaves everything as it was."""
        self._check_place()
        try:
            if not self._space.prepare(frame_bytes, self._segment.size):
                raise DiskFull(self.path, self._space.sizes_for(frame_bytes, self._segment.size)[0])
            segment = self._space.begin(self._identity, self._edge, self.epoch)
            fd = self._disk.open(segment.path, write=True)
            old, self._fd = self._fd, fd
            self._disk.close(old)
        except OSError as error:
            raise self._fail("the next segment could not be begun", error) from error
        self._history.add(segment)
        self._segment = segment
        self._note()
        return segment

    def _check_usable(self) -> None:
        if self._failure:
            raise LogFailed(
                f"the log in {self.path} takes nothing more: {self._failure}. "
                f"What was acknowledged is safe; open it again to go on."
            )

    def _check_place(self) -> None:
        """Asked before anything is done by name: what took this folder's place is not ours."""
        try:
            is_in_place = self._hint.is_in_place()
        except OSError as error:
            raise self._fail("the folder cannot be looked at", error) from error
        if not is_in_place:
            raise self._fail("the folder is gone", "it was moved, deleted or replaced")

    def _check_owner(self) -> None:
        """Asked before any lock: a child may inherit one that nobody is left to release."""
        if os.getpid() != self.owner_pid:
            raise LogFailed(
                f"the log in {self.path} belongs to process {self.owner_pid}; a forked child "
                f"cannot write it. Use `holdfast.connect` there."
            )

    def _fail(self, what: str, error: OSError | str) -> LogFailed:
        self._failure = f"{what}: {error}"
        return LogFailed(
            f"the log in {self.path} takes nothing more: {self._failure}. What was acknowledged "
            f"is safe. Look at it with `holdfast log verify {self.path}`, then open it again."
        )


CLOSED: Final = "it is closed"


def _create_where_absent(
    disk: Disk, folder: Path, lock: FolderLock, space: SegmentSpace, log_id: bytes
) -> None:
    """Make the log where there is none, going on where a crash interrupted the making.

    The hint comes first and names epoch 0; the first opening raises it. So a folder without
    segments is new only while its hint says 0, or while nothing shows that it ever had one.
    """
    wal = folder / WAL_FOLDER
    make_folder(disk, wal)
    has_segments = bool(segment_paths(disk, wal))
    if not has_segments and not disk.exists(wal / HINT_NAME):
        if lock.log_id or snapshot_paths(disk, folder):
            raise LogDamaged(wal / HINT_NAME, 0, "this folder held a log whose files are gone")
        origin = genesis(log_id)
        create_hint(disk, wal, Hint(log_id, 1, 0, 0, 0, origin.chain))
    if not has_segments:
        hint = read_hint(disk, wal).hint
        if hint.epoch == 0 and not space.prepare(0, 0):
            raise DiskFull(folder, space.sizes_for(0, 0)[0])
        if hint.epoch == 0:
            space.begin(hint.log_id, genesis(hint.log_id), 0)
