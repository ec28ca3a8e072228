"""A data folder that this process owns: locked, replayed, and recorded as taken over."""

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter

from msgspec import Struct

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.desk import Desk
from holdfast.coordinator.lines import say
from holdfast.coordinator.ports import Dice, Faults, Machine, NoFaults, SystemClock, SystemDice
from holdfast.coordinator.recovery import opening, recover
from holdfast.coordinator.refusals import RefusalNotes
from holdfast.coordinator.settings import Settings
from holdfast.coordinator.snapshotting import Snapshotter
from holdfast.core import commands as c
from holdfast.core.decision import Refused
from holdfast.core.errors import BrokenInvariant, LogFailed
from holdfast.core.ids import Position
from holdfast.core.record import Record, decode_record
from holdfast.core.state import State
from holdfast.wal import Ballast, Disk, DiskFull, FileLog, RealDisk

Post = Callable[[Callable[[], None]], None]
"""Have something done on the thread that owns the coordinator."""


class Ground(Struct, frozen=True):
    """What a folder stands on: this machine and its disk, unless a simulation puts others there.
    `segment_bytes` and `new_id` are for a log that shall not choose them itself."""

    disk: Disk | None = None
    machine: Machine | None = None
    dice: Dice | None = None
    faults: Faults = NoFaults()
    segment_bytes: int | None = None
    new_id: bytes | None = None


class Taken:
    """The log of a folder and the coordinator that speaks for it. Whoever drives it adds turns."""

    def __init__(
        self, source: FileLog, coordinator: Coordinator, replay_s: float = 0.0
    ) -> None:
        self.log = source
        self.replay_s = replay_s
        self.epoch = source.epoch
        self.coordinator = coordinator
        # What earlier openings wrote and no snapshot stands for counts too: a program that is
        # never long at work would never have one made.
        self._behind = source.bytes_after(coordinator.state.snapshot_position)

    def unsnapped(self) -> int:
        """How many bytes of log no snapshot stands for, counted from the opening."""
        return self._behind + self.coordinator.written

    def read(self, position: Position) -> Record:
        """A durable record. May be called from any thread."""
        return decode_record(self.log.record(position)[1])

    def recent(self, position: Position) -> Record:
        """A record that may not be written yet: a repeat can come that soon."""
        pending = self.coordinator.pending_record(position)
        return decode_record(pending) if pending is not None else self.read(position)

    def snapshotter(self, settings: Settings, post: Post, desk: Desk) -> Snapshotter:
        """Whoever has snapshots of this folder made, recorded by way of `post`."""
        install = partial(self.install, post)
        return Snapshotter(self.log.path, self.log, settings, self.unsnapped, install, desk)

    def install(self, post: Post, command: c.InstallSnapshot) -> None:
        """Called by the snapshot's thread: returns when the record is durable."""
        recorded = threading.Event()

        def work() -> None:
            try:
                if self.coordinator.failure is None:
                    self.coordinator.execute(command, actor="snapshotter")
            finally:
                self.coordinator.answer(recorded.set, lambda error: recorded.set())

        post(work)
        recorded.wait()
        if self.coordinator.failure is not None:
            raise LogFailed("the log failed before the snapshot was recorded")


def _replayed(source: FileLog, disk: Disk | None) -> State:
    try:
        return recover(source, source.path, disk=disk)
    except OSError as error:
        raise LogFailed(
            f"{source.path} cannot be read: {error}. Run `holdfast log verify {source.path}`."
        ) from error


def take_folder(path: Path, *, term_ms: int, ground: Ground | None = None) -> Taken:
    """Take the folder, replay it, and record that it was taken. Nothing is answered before that
    record is durable. `term_ms` is that of remote workers' leases; zero where there are none.

    Opening needs next to no room. Where even that is missing the ballast makes some.
    """
    on = ground or Ground()
    try:
        return _take(path, term_ms, on)
    except DiskFull:
        if not Ballast(on.disk or RealDisk(), path).let_go():
            raise
        return _take(path, term_ms, on)


def _take(path: Path, term_ms: int, on: Ground) -> Taken:
    source = FileLog.open(
        path, disk=on.disk, segment_bytes=on.segment_bytes, new_id=on.new_id
    )
    try:
        began = perf_counter()
        state = _replayed(source, on.disk)
        replay_s = perf_counter() - began
        if state.position:
            say("log_recovered", position=state.position, seconds=round(replay_s, 3))
        clock, dice = SystemClock(state.time, on.machine), on.dice or SystemDice()
        coordinator = Coordinator(state, clock, dice, term_ms=term_ms)
        torn = source.torn
        if torn is not None:
            say("log_torn", position=torn.position, bytes=torn.size, kept=str(torn.kept))
        torn_bytes = 0 if torn is None else torn.size
        on.faults.reach("folder.before_opening")
        command = opening(source.log_id, source.epoch, torn_bytes, term_ms, on.machine)
        decision = coordinator.execute(command, actor="coordinator")
        if isinstance(decision, Refused):
            raise BrokenInvariant(decision.message)
        batch = coordinator.take_batch()
        if batch is None:
            raise LogFailed(f"{path} could not be taken over")
        source.append(batch.records, at=batch.at, wall=batch.wall)
        on.faults.reach("folder.before_sync")
        source.sync()
        coordinator.became_durable(batch.last)
        if on.disk is None:
            coordinator.refusing.notes = RefusalNotes(source.path)
        return Taken(source, coordinator, replay_s)
    except BaseException:
        source.close()
        raise
