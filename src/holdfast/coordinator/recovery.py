"""From a log to the state it tells: newest snapshot that verifies, then the tail, in order."""

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

from holdfast.coordinator.decoding import decode_at
from holdfast.coordinator.lines import say
from holdfast.coordinator.ports import Machine, ThisMachine
from holdfast.coordinator.settings import LEASE_TERM_MS
from holdfast.core import commands as c
from holdfast.core.apply import apply
from holdfast.core.errors import BrokenInvariant
from holdfast.core.freeze import thaw
from holdfast.core.ids import Position
from holdfast.core.state import State
from holdfast.version import VERSION
from holdfast.wal import Disk, Frame, RealDisk, Snapshot, newest_snapshot


class Readable(Protocol):
    """A log or a reader of one, as far as replay needs it."""

    @property
    def log_id(self) -> str: ...

    @property
    def last(self) -> int: ...

    @property
    def oldest(self) -> int: ...

    def chain_after(self, position: int) -> bytes | None: ...

    def read(self, position: int = 1) -> Iterator[Frame]: ...


def recover(
    log: Readable, folder: Path | None, *, disk: Disk | None = None, until: int | None = None
) -> State:
    """The state at the end of the log, or right after position `until`."""
    was_collecting = gc.isenabled()
    # Replay makes millions of objects that all stay: looking for garbage among them is waste.
    gc.disable()
    try:
        state = State()
        if folder is not None:
            state = _from_snapshot(log, folder, disk or RealDisk(), until)
        if until is not None and state.position >= until:
            return state
        return replay_frames(state, log, until)
    finally:
        if was_collecting:
            gc.enable()


def replay_frames(state: State, log: Readable, until: int | None = None) -> State:
    """Apply everything after what the state holds already, up to `until`."""
    if log.last <= state.position:
        return state
    for frame in log.read(state.position + 1):
        position = frame.first
        for data in frame.records:
            if until is not None and position > until:
                return state
            if position > state.position:
                apply(state, decode_at(log, data, position), Position(position))
            position += 1
    return state


BEYOND: Final = "it stands for more than was asked for"


def _from_snapshot(log: Readable, folder: Path, disk: Disk, until: int | None) -> State:
    """The state of the newest snapshot that can be used. One whose bytes are whole and whose state
    cannot be is passed over like a damaged one; where nothing stands for dropped history this
    refuses, and names each file and what is wrong with it."""
    found: list[State] = []

    def judge(snapshot: Snapshot) -> str:
        if until is not None and snapshot.position > until:
            return BEYOND
        # Whoever made it compared the thawed state with the hash; the bytes are those it checked.
        try:
            state = thaw(b"".join(snapshot.payload(disk)))
        except BrokenInvariant as error:
            return str(error)
        if state.position != snapshot.position:
            return "it does not hold the state it claims"
        found.append(state)
        return ""

    choice = newest_snapshot(disk, folder, log, judge)
    for rejected in choice.rejected:
        if rejected.why != BEYOND:
            say("snapshot_rejected", file=rejected.path.name, why=rejected.why)
    return found[0] if found else State()


def opening(
    log_id: str, epoch: int, torn_bytes: int, term_ms: int, machine: Machine | None = None
) -> c.OpenLog:
    """The command that takes the log over. `term_ms` zero: workers and feeders are in our own
    process; leases that a server granted before still get their term."""
    machine = machine or ThisMachine()
    return c.OpenLog(
        log_id=log_id,
        epoch=epoch,
        version=VERSION,
        host=machine.host(),
        pid=machine.pid(),
        torn_bytes=torn_bytes,
        term_ms=term_ms or LEASE_TERM_MS,
        served=bool(term_ms),
    )
