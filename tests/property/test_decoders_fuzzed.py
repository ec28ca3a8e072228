"""Whatever reads bytes that somebody else wrote: wrong ones are refused in its own words, soon, and
without taking more memory than they deserve."""

import io
import shutil
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import msgspec
import pytest

from holdfast.core.apply import apply
from holdfast.core.errors import BrokenInvariant, OperatingError
from holdfast.core.freeze import freeze, thaw
from holdfast.core.ids import LeaseId, Position
from holdfast.core.invariants import check
from holdfast.core.record import decode_record
from holdfast.core.reports import Done, Failed, Released, Started
from holdfast.core.state import State
from holdfast.core.unreadable import UNREADABLE
from holdfast.testing.archives import Surroundings, file, folder, program, sealed, stream
from holdfast.testing.disks import FaultyDisk
from holdfast.testing.histories import a_history
from holdfast.testing.logs import DATA, open_log, segments_of, snap
from holdfast.testing.mutations import TooMuch, bounded, mutated
from holdfast.wal import LogDamaged, NewerFormat
from holdfast.wal.snapshots import verify_snapshot
from holdfast.wire.exchange import Capacity, Exchange, Hello, Progress
from holdfast.wire.output import Chunk, Chunks
from holdfast.worker import frames
from holdfast.worker.executor import Left
from holdfast.worker.frames import Broke, Ran
from holdfast.worker.payloads import CannotEncode, decode_call, decode_result, encode_call
from holdfast.worker.unpacking import BadBundle, unpack

Read = Callable[[bytes], object]
Made = tuple[list[bytes], Read, tuple[type[BaseException], ...]]
"""Bytes that are right, what reads them, and what it may say to others."""


def records(dice: Random, tmp_path: Path) -> Made:
    world = a_history(150, dice)
    return world.log, decode_record, (BrokenInvariant,)


def histories(dice: Random, tmp_path: Path) -> Made:
    """A record in its place that can be read and does not fit is refused."""
    world = a_history(60, dice)
    states, state = [], State()
    for position, record in world.records():
        states.append(freeze(state))
        apply(state, record, position)

    def read(data: bytes) -> None:
        place = dice.randrange(len(states))
        wrong = decode_record(mutated(world.log[place], dice))
        apply(thaw(states[place]), wrong, Position(place + 1))

    return world.log, read, (BrokenInvariant,)


def snapshots(dice: Random, tmp_path: Path) -> Made:
    states = [freeze(a_history(count, dice).state) for count in (5, 40, 150)]

    def read(data: bytes) -> list[str]:
        return [str(violation) for violation in check(thaw(data))]

    return states, read, (BrokenInvariant,)


def segments(dice: Random, tmp_path: Path) -> Made:
    disk = FaultyDisk()
    log = open_log(disk)
    for data in a_history(40, dice).log:
        log.append((data,), at=0, wall=0)
        log.sync()
    contents = [disk.content(path) for path in segments_of(disk)]
    wal = segments_of(disk)[0]

    def read(data: bytes) -> None:
        other = FaultyDisk()
        for path in disk.files():
            other.plant(path, disk.content(path))
        other.plant(wal, data)
        open_log(other).close()

    return contents[:1], read, (OperatingError,)


def snapshot_files(dice: Random, tmp_path: Path) -> Made:
    disk = FaultyDisk()
    log = open_log(disk)
    log.append((b"record",), at=0, wall=0)
    log.sync()
    path = snap(disk, log, 1)

    def read(data: bytes) -> None:
        disk.plant(path, data)
        verify_snapshot(disk, path)

    assert path.is_relative_to(DATA)
    return [disk.content(path)], read, (LogDamaged, NewerFormat)


def exchanges(dice: Random, tmp_path: Path) -> Made:
    at = ("1", 0, LeaseId(7))
    said = Exchange(
        "w", 1, 2, 1, Capacity(2, 2_000, 1 << 30, 0), (Started(*at, 5),),
        (Done(*at, 5, b"result"),), (Failed(*at, 5, "failed", "boom", "line 1", 1),),
        (Released(*at, True),), (LeaseId(9),), 0, False, Hello("host", 1, "1"),
        progress=(Progress(LeaseId(9), 1.0, 2.0, "note"),),
    )  # fmt: skip
    decode = msgspec.msgpack.Decoder(Exchange).decode
    return [msgspec.msgpack.encode(said)], decode, UNREADABLE


def outputs(dice: Random, tmp_path: Path) -> Made:
    chunks = Chunks("w", 1, tuple(Chunk("1", 0, 1, LeaseId(1), "stdout", n, b"x") for n in (0, 1)))
    decode = msgspec.msgpack.Decoder(Chunks).decode
    return [msgspec.msgpack.encode(chunks)], decode, UNREADABLE


def pipes(dice: Random, tmp_path: Path) -> Made:
    """What a child says through its pipe: a user's code may write there too."""
    words = {
        frames.COMMIT: Done("1", 0, LeaseId(1), 5, b"result"),
        frames.LEFT: Left(LeaseId(1), "why"),
        frames.PROGRESS: Progress(LeaseId(1), 1.0, 2.0, "note"),
        frames.OUTCOMES: [Ran(LeaseId(1), 5, b"result"), Broke(LeaseId(2), 5, "no", "line", 1)],
    }
    whole = b"".join(frames.frame(kind, frames.encode(word)) for kind, word in words.items())
    readers = {**frames.ASIDES, frames.OUTCOMES: frames.decode_outcomes}

    def read(data: bytes) -> None:
        inbox = frames.Inbox()
        inbox.add(data)
        for kind, body in inbox.frames():
            readers.get(kind, bytes)(body)

    return [whole], read, (frames.Garbled, *UNREADABLE)


def calls(dice: Random, tmp_path: Path) -> Made:
    made = [encode_call((1, "two", [3.0])), encode_call((1,), {"name": {"deep": [None]}})]

    def read(data: bytes) -> None:
        # The shortest that is ever sent is an empty array.
        decode_call(data or b"\x90")
        decode_result(data)

    return made, read, (*UNREADABLE, CannotEncode, ValueError, TypeError)


def bundles(dice: Random, tmp_path: Path) -> Made:
    around = Surroundings(tmp_path)
    inside = stream(folder("pkg"), file("pkg/a.py", b"x = 1\n" * 50), program("pkg/run.sh"))
    own = str(around.target.relative_to(around.top))

    def read(data: bytes) -> None:
        # Wrong inside a right wrapping, or wrong as a whole.
        whole = sealed(data) if dice.random() < 0.8 else mutated(sealed(data), dice)
        try:
            unpack(io.BytesIO(whole), around.target)
        finally:
            assert all(name.startswith(own) for name in around.changed())
            shutil.rmtree(around.target, ignore_errors=True)

    return [inside], read, (BadBundle,)


DECODERS = (
    records, histories, snapshots, segments, snapshot_files, exchanges, outputs, pipes, calls,
    bundles,
)  # fmt: skip


@pytest.fixture
def _counting() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def fuzz(made: Made, dice: Random, count: int) -> int:
    """So many wrong inputs; how many of them were refused."""
    right, read, refusals = made
    refused = 0
    for _ in range(count):
        data = mutated(dice.choice(right), dice)
        with bounded(data[:2_000].hex):
            try:
                read(data)
            except refusals:
                refused += 1
    return refused


@pytest.mark.usefixtures("_counting")
@pytest.mark.parametrize("decoder", DECODERS, ids=lambda made: made.__name__)
def test_fuzz_wrong_bytes_are_refused_in_its_own_words(decoder, dice, tmp_path) -> None:
    made = decoder(dice, tmp_path)
    assert fuzz(made, dice, 60) > 0


@pytest.mark.slow
@pytest.mark.usefixtures("_counting")
@pytest.mark.parametrize("decoder", DECODERS, ids=lambda made: made.__name__)
def test_fuzz_a_thousand_wrong_inputs_of_each_kind(decoder, dice, tmp_path) -> None:
    assert fuzz(decoder(dice, tmp_path), dice, 1_000) > 0


@pytest.mark.soak
@pytest.mark.usefixtures("_counting")
@pytest.mark.parametrize("decoder", DECODERS, ids=lambda made: made.__name__)
def test_fuzz_ten_thousand_wrong_inputs_of_each_kind(decoder, dice, tmp_path) -> None:
    assert fuzz(decoder(dice, tmp_path), dice, 10_000) > 0


@pytest.mark.usefixtures("_counting")
def test_the_watch_over_readers_sees_what_takes_too_much() -> None:
    with pytest.raises(TooMuch, match="bytes: it"), bounded(lambda: "it"):
        assert bytes(80 * 1024 * 1024)


def endless() -> None:
    while True:
        pass


@pytest.mark.slow
def test_the_watch_over_readers_sees_what_takes_too_long() -> None:
    with pytest.raises(TooMuch, match="more than 1 s: it"), bounded(lambda: "it"):
        endless()
