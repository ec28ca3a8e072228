"""A folder with a history of thirty jobs, and snapshots of it that may lie."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.core.freeze import fingerprint, freeze
from holdfast.core.record import decode_record
from holdfast.core.state import State
from holdfast.testing.world import World
from holdfast.wal import FileLog, RealDisk, write_snapshot

SEGMENT_BYTES = 16 * 1024

Snap = Callable[..., Path]


@pytest.fixture
def world() -> World:
    world = World()
    for number in range(1, 31):
        world.submit("", items=(bytes(400), b""))
        (lease,) = world.grant(str(number), 0)
        world.start(str(number), 0, lease)
        world.commit(str(number), 0, lease)
    return world


@pytest.fixture
def folder(tmp_path: Path, world: World) -> Path:
    log = FileLog.open(tmp_path / "state", segment_bytes=SEGMENT_BYTES)
    for first in range(0, len(world.log), 20):
        frame = world.log[first : first + 20]
        at = decode_record(frame[-1]).at
        log.append(frame, at=at, wall=at)
        log.sync()
    log.close()
    return tmp_path / "state"


def written(folder: Path, position: int, frozen: bytes, claim: bytes) -> Path:
    """A snapshot that a real writer wrote, of whatever it was given."""
    log = FileLog.open(folder, segment_bytes=SEGMENT_BYTES)
    chain = log.chain_after(position) or b""
    path = write_snapshot(RealDisk(), folder, position, chain, log.log_id, [frozen], claim)
    log.close()
    return path


@pytest.fixture
def snap(folder: Path, world: World) -> Snap:
    """A snapshot at a position. Its state may be a lie: attributes that are named, or whatever
    `spoil` does to it."""

    def make(position: int, spoil: Callable[[State], None] | None = None, **lies: Any) -> Path:
        state = world.replayed(position)
        for name, value in lies.items():
            setattr(state, name, value)
        if spoil is not None:
            spoil(state)
        return written(folder, position, freeze(state), fingerprint(state).encode())

    return make


@pytest.fixture
def unsound(folder: Path, world: World) -> Snap:
    """A well-made snapshot with one job in it twice."""

    def make(position: int) -> Path:
        rows = list(msgspec.msgpack.decode(freeze(world.replayed(position))))
        rows[10].append(list(rows[10][0]))
        rows[9] += rows[9][:4]
        return written(folder, position, msgspec.msgpack.encode(rows), b"0" * 32)

    return make
