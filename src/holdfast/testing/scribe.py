"""A program that writes a real log, has snapshots made, drops history, and notes every promise.

    python -m holdfast.testing.scribe

It is told what to write on its standard input, one `Order` a line, and has a copy of itself do
each: whoever breaks things starts thousands of them and cannot wait for as many Pythons. A copy
stops itself before it touches the disk, until somebody lets it go on.

What a copy was promised it notes in a file, one `Promise` a line. That file lies on another disk
than the log, and one that nobody breaks.
"""

import os
import signal
import sys
import traceback
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from holdfast.coordinator.desk import Desk
from holdfast.coordinator.recovery import recover
from holdfast.coordinator.settings import Settings
from holdfast.coordinator.snapshotting import Course, Snapshotter, make_snapshot
from holdfast.core import commands as c
from holdfast.core.errors import BrokenInvariant
from holdfast.core.record import Record, encode_record
from holdfast.core.state import State
from holdfast.testing.strategies import any_command, pass_time
from holdfast.testing.world import START, World
from holdfast.wal import FileLog, RealDisk

T = TypeVar("T")

SEGMENT_BYTES: Final = 8 * 1024
HISTORY_BYTES: Final = 2 * SEGMENT_BYTES
FRAMES_A_SNAPSHOT: Final = 14
RECORDS_MOST: Final = 3


class Order(Struct, frozen=True):
    """One life: so many frames, by these dice. `syncs`: whether syncs do anything. `is_held`: it
    stops before it touches the disk."""

    folder: str
    notes: str
    seed: str
    frames: int
    syncs: bool = True
    is_held: bool = True


class Promise(Struct, frozen=True, array_like=True):
    """Everything up to `position` is durable; there the log's chain and the state are these."""

    position: int
    chain: str
    state_hash: str


class WrittenWorld(World):
    """A world whose records go into a real log, a frame at a time. It begins where the log ends."""

    def __init__(self, folder: Path) -> None:
        super().__init__(opened=False)
        self.file = FileLog.open(folder, segment_bytes=SEGMENT_BYTES)
        self.state: State = recover(self.file, folder)
        # Positions and names of jobs are counted by what was written before.
        self.log = [b""] * self.state.position
        self.now = max(START, self.state.time)
        self._pending: list[bytes] = []
        self.did(
            c.OpenLog(
                log_id=self.file.log_id, epoch=self.file.epoch, version="test", host="host",
                pid=self.file.epoch, torn_bytes=0, term_ms=15_000, served=False,
            )
        )  # fmt: skip

    def append(self, record: Record) -> None:
        super().append(record)
        self._pending.append(encode_record(record))

    @property
    def gathered(self) -> int:
        """How many records wait to be written."""
        return len(self._pending)

    def write(self) -> Promise:
        """Make a frame of what has gathered; what is promised once it is synced."""
        self.file.append(self._pending, at=self.now, wall=self.wall)
        self._pending = []
        position = self.file.sync()
        return Promise(position, self.file.head.hex(), self.fingerprint())


class InPlace(Desk):
    """Makes snapshots in this very process, where whoever breaks things can see each step."""

    def run(self, errand: Struct, answer: type[T], *, patience_s: float | None = None) -> T:
        made = make_snapshot(errand) if isinstance(errand, Course) else None
        if not isinstance(made, answer):
            raise BrokenInvariant(f"{errand} is no errand for this desk")
        return made


class Scribe:
    def __init__(self, order: Order) -> None:
        self._order = order
        self._dice = Random(order.seed)
        self._notes = os.open(order.notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._world = WrittenWorld(Path(order.folder))

    def write(self) -> None:
        """Frames of a random history, a snapshot now and then, and a closing now and then."""
        world, dice, folder = self._world, self._dice, Path(self._order.folder)
        settings = Settings(history_bytes=HISTORY_BYTES)
        snapshotter = Snapshotter(
            folder, world.file, settings, lambda: 0, self._install, InPlace()
        )
        for number in range(1, self._order.frames + 1):
            wanted = dice.randint(1, RECORDS_MOST)
            while world.gathered < wanted:
                pass_time(world, dice)
                world.do(_a_deed(world, dice))
            self._note()
            if dice.random() < 0.1:
                world.file.note_idle()
            if world.file.wants_next and dice.random() < 0.5:
                world.file.prepare_next()
            if number % FRAMES_A_SNAPSHOT == 0 and snapshotter.make() is None:
                raise BrokenInvariant(snapshotter.last_error)
        if dice.random() < 0.5:
            world.file.close()

    def close(self) -> None:
        self._world.file.close()
        os.close(self._notes)

    def _note(self) -> None:
        """What is noted was durable before: the note itself needs no more than this program's
        word, which outlives it in the memory of the machine."""
        os.write(self._notes, msgspec.json.encode(self._world.write()) + b"\n")

    def _install(self, command: c.InstallSnapshot) -> None:
        self._world.did(command)
        self._note()


def _a_deed(world: World, dice: Random) -> c.Command:
    """Whatever the dice say, but for what belongs to whoever opens, snaps and forks for real."""
    while True:
        command = any_command(world, dice)
        if not isinstance(command, c.OpenLog | c.InstallSnapshot | c.ForkLog):
            return command


def forget_to_sync() -> None:
    """A control: with this every sync of the log returns at once and does nothing."""
    for name in ("fsync", "fdatasync", "fsync_dir"):
        setattr(RealDisk, name, lambda self, what: None)


def obey(order: Order) -> None:
    if not order.syncs:
        forget_to_sync()
    if order.is_held:
        os.kill(os.getpid(), signal.SIGSTOP)
    Scribe(order).write()


def main() -> None:
    for line in sys.stdin.buffer:
        order = msgspec.json.decode(line, type=Order)
        pid = _copy(partial(obey, order))
        _say(pid)
        _say(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _copy(live: "partial[None]") -> int:
    # Nothing can be copied half-way here: this process has no threads, and runs nothing else.
    pid = os.fork()  # noqa: TID251
    if pid:
        return pid
    code = 1
    try:
        live()
        code = 0
    except BaseException:  # noqa: BLE001 - a life must not return into this one
        traceback.print_exc()
    finally:
        os._exit(code)


def _say(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
