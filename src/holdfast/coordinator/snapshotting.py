"""Snapshots: made by a second process, recorded by the coordinator, and then what they allow to go.

The second process reads the folder as anyone may, so the coordinator never pauses for it. Nothing
is dropped before the snapshot is verified, installed and recorded in the log itself.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from logging import getLogger
from pathlib import Path

import msgspec
from msgspec import Struct

from holdfast.coordinator.recovery import recover
from holdfast.coordinator.settings import Settings
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.errors import BrokenInvariant, OperatingError
from holdfast.core.freeze import fingerprint, freeze, thaw
from holdfast.core.ids import Instant, Position
from holdfast.core.invariants import check
from holdfast.core.record import Record, decode_record
from holdfast.core.state import State
from holdfast.wal import (
    WAL_FOLDER,
    Disk,
    FolderReader,
    KeptRecord,
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

TROUBLES = (OSError, OperatingError, subprocess.SubprocessError, msgspec.MsgspecError)
"""What may go wrong with a snapshot and harms nothing: the log still has everything."""


class Made(Struct, frozen=True):
    """A snapshot that is on disk and verified. Segments that end before `drop_before` may go."""

    position: Position
    state_hash: str
    drop_before: int


class Course(Struct, frozen=True):
    """What the second process is asked to do."""

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
        write_kept(disk, folder, state.position, _kept_records(reader, state, before))
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


def _kept_records(reader: FolderReader, state: State, before: int) -> Iterator[KeptRecord]:
    """The records older than `before` that the tasks of the jobs in memory point into, and those
    that these point into: results, errors and the attempts before them."""
    wanted: set[int] = set()
    for job in state.jobs.values():
        wanted.update(end for end in job.ends or () if 0 < end < before)
        for task in (job.tasks or {}).values():
            wanted.update(p for p in (task.previous, task.committed) if 0 < p < before)
    found: dict[int, KeptRecord] = {}
    waiting = [-position for position in wanted]
    heapify(waiting)
    while waiting:
        position = -heappop(waiting)
        frame, data = reader.record(position)
        found[position] = (position, frame.at, frame.wall, frame.epoch, data)
        for earlier in _pointed_at(decode_record(data), state):
            if 0 < earlier < before and earlier not in wanted:
                wanted.add(earlier)
                heappush(waiting, -earlier)
    yield from (found[position] for position in sorted(found))


def _pointed_at(record: Record, state: State) -> Iterator[int]:
    """Where the attempts before those that this record ended had ended, for jobs in memory."""
    for event in record.events:
        if getattr(event, "job_id", None) not in state.jobs:
            continue
        if isinstance(event, e.TasksCompleted):
            yield from (commit.previous for commit in event.commits)
        elif isinstance(event, e.TaskCommitted):
            yield event.commit.previous
        elif isinstance(event, e.WithEnds):
            yield from (end.previous for end in event.ends)
            if isinstance(event, e.TasksKilled | e.TasksSetAside):
                yield from (stopped.previous for stopped in event.stopped)


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
    ) -> None:
        self.last_error = ""
        self._folder = folder
        self._log = source
        self.settings = settings
        self._written = written
        self._install = install
        self._covered = 0
        self._thread: threading.Thread | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._leaving = False

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
        """Wait a while for a snapshot under way, then end its process: a later opening makes one
        again, and leaving must not take as long as a replay."""
        if self._thread is None:
            return
        self._thread.join(patience_s)
        self._leaving = True
        child = self._child
        if self._thread.is_alive() and child is not None:
            child.kill()
        self._thread.join()

    def make(self) -> Made | None:
        """One snapshot of everything durable now; None where it failed, which harms nothing."""
        course = Course(str(self._folder), self._log.durable, self.settings.history_bytes)
        try:
            clear_leftovers(RealDisk(), self._folder)
            made = self._in_second_process(course)
            # Returns when the record is durable: only then may anything be dropped.
            self._install(c.InstallSnapshot(at_position=made.position, state_hash=made.state_hash))
        except TROUBLES as error:
            self._tell("a snapshot could not be made: %s", error)
            return None
        self._let_go(made)
        return made

    def _let_go(self, made: Made) -> None:
        """Drop what the snapshot stands for. What stays is tried again after the next one."""
        try:
            drop_history(self._log, made, self.settings.archive)
        except TROUBLES as error:
            self._tell("old history could not be let go of: %s", error)
        try:
            drop_snapshots(RealDisk(), self._folder, keep=KEPT_SNAPSHOTS)
        except TROUBLES as error:
            self._tell("old snapshots could not be removed: %s", error)

    def _tell(self, message: str, error: Exception) -> None:
        self.last_error = str(error)
        if not self._leaving:
            log.warning(message, self.last_error)

    def _in_second_process(self, course: Course) -> Made:
        """What the second process answered. It is ended when the folder is left meanwhile."""
        child = _second_process()
        self._child = child
        if self._leaving:
            child.kill()
        told, said = child.communicate(msgspec.json.encode(course))
        if child.returncode:
            last = said.decode(errors="replace").strip().splitlines()[-1:]
            raise subprocess.SubprocessError("".join(last) or f"exit code {child.returncode}")
        return msgspec.json.decode(told, type=Made)


def _second_process() -> "subprocess.Popen[bytes]":
    package_root = str(Path(__file__).parents[2])
    found = os.environ.get("PYTHONPATH")
    path = package_root if not found else f"{package_root}{os.pathsep}{found}"
    return subprocess.Popen(
        [sys.executable, "-m", "holdfast.coordinator.snapshotter"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,
    )
