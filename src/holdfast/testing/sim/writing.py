"""The disk's part of a coordinator without threads: frames and snapshots take virtual time."""

from collections.abc import Callable
from typing import Final

from holdfast.coordinator.coordinator import Batch, Coordinator
from holdfast.coordinator.ports import Faults
from holdfast.coordinator.settings import Settings
from holdfast.coordinator.snapshotting import (
    KEPT_SNAPSHOTS,
    TROUBLES,
    Course,
    Made,
    drop_history,
    make_snapshot,
)
from holdfast.coordinator.taking import Taken
from holdfast.coordinator.writing import DISK_FULL_RETRY_S, IDLE_NOTE_S, Pen, lost_by
from holdfast.core import commands as c
from holdfast.core.errors import LogFailed
from holdfast.core.ids import NEVER, Instant, Position
from holdfast.testing.disks import FaultyDisk
from holdfast.testing.sim.machines import Process
from holdfast.wal import Log, clear_leftovers, drop_snapshots

SNAPSHOT_S: Final = 0.05


class SteppedWriter:
    """Makes frames durable in the process of the coordinator itself, each after as long as the
    disk takes; what came in meanwhile makes up the next one."""

    def __init__(
        self,
        log: Log,
        faults: Faults,
        synced: Callable[[Position], None],
        failed: Callable[[Exception], None],
        *,
        process: Process,
        takes_s: Callable[[], float],
        durable: Callable[[], None],
    ) -> None:
        self._pen = Pen(log, faults)
        self._synced = synced
        self._failed = failed
        self._process = process
        self._takes_s = takes_s
        self._durable = durable
        self._written = 0
        self._is_over = False
        self._is_leaving = False

    def start(self) -> None:
        """There is no thread to start."""

    def write(self, batch: Batch) -> None:
        self._process.call_later(self._takes_s(), self._write, batch)

    def leave(self) -> None:
        self._is_leaving = True

    def stop(self) -> None:
        self._is_over = True

    def _write(self, batch: Batch) -> None:
        if self._is_over:
            return
        try:
            full = self._pen.write(batch)
        except Exception as error:  # noqa: BLE001 - as for the writer's thread
            self._lose(error)
            return
        if full is not None:
            if self._is_leaving:
                self._lose(full)
            else:
                self._process.call_later(DISK_FULL_RETRY_S, self._write, batch)
            return
        self._written += 1
        self._process.call_later(IDLE_NOTE_S, self._rest, self._written)
        self._durable()
        self._synced(batch.last)
        if self._pen.wants_next:
            self._process.call_later(self._takes_s(), self._prepare)

    def _rest(self, written: int) -> None:
        if written == self._written and not self._is_over:
            self._safely(self._pen.rest)

    def _prepare(self) -> None:
        if self._pen.wants_next and not self._is_over:
            self._safely(self._pen.prepare)

    def _safely(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - as for the writer's thread
            self._lose(error)

    def _lose(self, error: Exception) -> None:
        self._is_over = True
        self._failed(lost_by(error))


class SteppedSnapshots:
    """Has a snapshot made whenever enough log has gathered, as the second process makes it, in
    this one. A hook of the engine; `made` counts."""

    def __init__(
        self, taken: Taken, disk: FaultyDisk, settings: Settings, process: Process
    ) -> None:
        self.made = 0
        self._taken = taken
        self._coordinator: Coordinator = taken.coordinator
        self._disk = disk
        self._settings = settings
        self._process = process
        self._covered = 0
        self._is_busy = False

    def step(self, now: Instant) -> None:
        if self._is_busy or self._coordinator.failure is not None:
            return
        if self._taken.unsnapped() - self._covered >= self._settings.snapshot_bytes:
            self._covered = self._taken.unsnapped()
            self._is_busy = True
            self._process.call_later(SNAPSHOT_S, self._make)

    def next_due(self) -> Instant:
        return NEVER

    def _make(self) -> None:
        log, folder = self._taken.log, self._taken.log.path
        course = Course(str(folder), log.durable, self._settings.history_bytes)
        try:
            clear_leftovers(self._disk, folder)
            made = make_snapshot(course, self._disk)
        except TROUBLES:
            self._is_busy = False
            return
        if self._coordinator.failure is not None:
            return
        command = c.InstallSnapshot(at_position=made.position, state_hash=made.state_hash)
        self._coordinator.execute(command, actor="snapshotter")
        self._coordinator.answer(
            lambda: self._process.post(self._let_go, made), lambda error: None
        )

    def _let_go(self, made: Made) -> None:
        self.made += 1
        self._is_busy = False
        try:
            drop_history(self._taken.log, made, None)
            drop_snapshots(self._disk, self._taken.log.path, keep=KEPT_SNAPSHOTS)
        except LogFailed as error:
            self._coordinator.fail(error)
        except TROUBLES:
            return
