"""Snapshots: made by a second process, recorded by the coordinator, and then what they allow to go.

The second process reads the folder as anyone may, so the coordinator never pauses for it. Nothing
is dropped before the snapshot is verified, installed and recorded in the log itself.
"""

import threading
from collections.abc import Callable
from logging import getLogger
from pathlib import Path

from msgspec import Struct

from holdfast.coordinator.desk import Desk
from holdfast.coordinator.keeping import kept_records
from holdfast.coordinator.recovery import recover
from holdfast.coordinator.settings import Settings
from holdfast.core import commands as c
from holdfast.core.errors import BrokenInvariant, OperatingError
from holdfast.core.freeze import fingerprint, freeze, thaw
from holdfast.core.ids import Instant, Position
from holdfast.core.invariants import check
from holdfast.wal import (
    WAL_FOLDER,
    Disk,
    Log,
    RealDisk,
    clear_leftovers,
    drop_snapshots,
    read_folder,
    segment_paths,
    size_of,
    snapshot_paths,
    write_kept,
    write_snapshot,
)

log = getLogger("holdfast")

KEPT_SNAPSHOTS = 2

TROUBLES = (OSError, OperatingError)
"""What may go wrong with a snapshot and harms nothing: the log still has everything."""


class Made(Struct, frozen=True):
    """A snapshot that is on disk and verified. Segments that end before `drop_before` may go."""

    position: Position
    state_hash: str
    drop_before: int


class Course(Struct, frozen=True, tag="snapshot"):
    """The errand: a snapshot of the folder at a position."""

    folder: str
    position: int
    history_bytes: int | None


def make_snapshot(course: Course, disk: Disk | None = None) -> Made:
    """Replay to `position`, check everything, write, and read it back. Runs in its own process."""
    folder, disk = Path(course.folder), disk or RealDisk()
    reader = read_folder(folder, disk=disk)
    state = recover(reader, folder, disk=disk, until=course.position)
    if state.position != course.position:
        raise BrokenInvariant(f"the log ends at {state.position}, before {course.position}")
    violations = check(state)
    if violations:
        raise BrokenInvariant(f"the state at {state.position} is broken: {violations[0]}")
    frozen = freeze(state)
    state_hash = fingerprint(state)
    if fingerprint(thaw(frozen)) != state_hash:
        raise BrokenInvariant("a snapshot does not come back as it went in")
    chain = reader.chain_after(state.position)
    if chain is None:
        raise BrokenInvariant(f"no frame ends at position {state.position}")
    drop_before = _drop_before(disk, folder, course)
    # Also what an earlier snapshot kept: its file goes with it.
    before = max(drop_before, reader.oldest)
    if before > 1:
        write_kept(disk, folder, state.position, kept_records(reader, state, before))
    write_snapshot(
        disk, folder, state.position, chain, reader.log_id, [frozen], state_hash.encode()
    )
    return Made(state.position, state_hash, drop_before)


def _drop_before(disk: Disk, folder: Path, course: Course) -> int:
    """The first position to keep: the last snapshot but one stays replayable, and at least so
    many bytes of history stay to look back on."""
    snapshots = snapshot_paths(disk, folder)
    if course.history_bytes is None or not snapshots:
        return 0
    kept = 0
    for path in reversed(segment_paths(disk, folder / WAL_FOLDER)):
        if kept >= course.history_bytes:
            return min(int(path.stem) + 1, int(snapshots[-1].stem))
        kept += size_of(disk, path)
    return 0


def drop_history(source: Log, made: Made, archive: Path | None) -> None:
    """Let go of the segments that a recorded snapshot stands for."""
    if made.drop_before:
        source.drop_segments(made.drop_before, archive)


class Snapshotter:
    """Has a snapshot made whenever enough log has gathered. A hook of the engine."""

    def __init__(
        self,
        folder: Path,
        source: Log,
        settings: Settings,
        written: Callable[[], int],
        install: Callable[[c.InstallSnapshot], None],
        desk: Desk,
    ) -> None:
        self.last_error = ""
        self._desk = desk
        self._folder = folder
        self._log = source
        self.settings = settings
        self._written = written
        self._install = install
        self._covered = 0
        self._thread: threading.Thread | None = None
        # Somebody may ask for one by hand while another is under way.
        self._making = threading.Lock()

    def step(self, now: Instant) -> None:
        if self._written() - self._covered < self.settings.snapshot_bytes:
            return
        if self._thread is not None and self._thread.is_alive():
            return
        self._covered = self._written()
        self._thread = threading.Thread(target=self.make, name="holdfast-snapshot", daemon=True)
        self._thread.start()

    def next_due(self) -> Instant:
        return Instant(0)

    def finish(self, patience_s: float) -> None:
        """Wait a while for a snapshot under way, then leave the desk: a later opening makes one
        again."""
        if self._thread is not None:
            self._thread.join(patience_s)
        self._desk.leave()
        if self._thread is not None:
            self._thread.join()

    def make(self, settings: Settings | None = None) -> Made | None:
        """One snapshot of everything durable now; None where it failed, which harms nothing.
        `settings` say otherwise what may go then."""
        with self._making:
            return self._make(settings or self.settings)

    def _make(self, settings: Settings) -> Made | None:
        course = Course(str(self._folder), self._log.durable, settings.history_bytes)
        try:
            clear_leftovers(RealDisk(), self._folder)
            made = self._desk.run(course, Made)
            # Returns when the record is durable: only then may anything be dropped.
            self._install(c.InstallSnapshot(at_position=made.position, state_hash=made.state_hash))
        except TROUBLES as error:
            self._tell("a snapshot could not be made: %s", error)
            return None
        self._let_go(made, settings)
        return made

    def _let_go(self, made: Made, settings: Settings) -> None:
        """Drop what the snapshot stands for. What stays is tried again after the next one."""
        try:
            drop_history(self._log, made, settings.archive)
        except TROUBLES as error:
            self._tell("old history could not be let go of: %s", error)
        try:
            drop_snapshots(RealDisk(), self._folder, keep=KEPT_SNAPSHOTS)
        except TROUBLES as error:
            self._tell("old snapshots could not be removed: %s", error)

    def _tell(self, message: str, error: Exception) -> None:
        self.last_error = str(error)
        if not self._desk.leaving:
            log.warning(message, self.last_error)
