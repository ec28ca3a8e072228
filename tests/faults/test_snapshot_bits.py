"""Every bit of a real snapshot, flipped: it is passed over, and the state is the one it was."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

import pytest

from holdfast.coordinator.recovery import recover
from holdfast.core.freeze import fingerprint
from holdfast.testing.scribe import Order, Scribe
from holdfast.wal import LogDamaged, RealDisk, newest_snapshot, read_folder, snapshot_paths

FRAMES = 60
SHARE = 400


def written(folder: Path, seed: int) -> Path:
    """A folder that has dropped history: only its snapshots stand for what is gone."""
    order = Order(str(folder), str(folder.with_suffix(".notes")), f"bits {seed}", FRAMES)
    scribe = Scribe(order)
    scribe.write()
    scribe.close()
    return folder


def flip(path: Path, bit: int) -> None:
    fd = os.open(path, os.O_RDWR)
    try:
        byte = os.pread(fd, 1, bit // 8)[0] ^ 1 << bit % 8
        os.pwrite(fd, bytes([byte]), bit // 8)
    finally:
        os.close(fd)


def flip_each(folder: Path, bits: Iterable[int]) -> int:
    """What is left after each flip is a folder that tells the same; how many there were."""
    reader, disk = read_folder(folder), RealDisk()
    assert reader.oldest > 1
    newest = snapshot_paths(disk, folder)[-1]
    wanted = fingerprint(recover(reader, folder))
    count = 0
    for bit in bits:
        flip(newest, bit)
        choice = newest_snapshot(disk, folder, reader)
        assert [bad.path for bad in choice.rejected] == [newest], bit
        assert fingerprint(recover(reader, folder)) == wanted, bit
        flip(newest, bit)
        count += 1
    assert newest_snapshot(disk, folder, reader).rejected == ()
    return count


def size_in_bits(folder: Path) -> int:
    return 8 * snapshot_paths(RealDisk(), folder)[-1].stat().st_size


@pytest.mark.slow
def test_a_snapshot_with_a_flipped_bit_is_passed_over_and_nothing_changes(
    tmp_path: Path, seed: int, dice: Random
) -> None:
    folder = written(tmp_path / "data", seed)
    assert flip_each(folder, dice.sample(range(size_in_bits(folder)), SHARE)) == SHARE


@pytest.mark.soak
def test_every_bit_of_a_snapshot_may_flip_and_nothing_changes(
    tmp_path: Path, seed: int, record_testsuite_property: Callable[[str, object], None]
) -> None:
    folder = written(tmp_path / "data", seed)
    flips = flip_each(folder, range(size_in_bits(folder)))
    record_testsuite_property("bits of a snapshot", flips)


@pytest.mark.slow
def test_where_every_snapshot_is_damaged_and_history_is_gone_the_folder_is_refused(
    tmp_path: Path, seed: int
) -> None:
    folder = written(tmp_path / "data", seed)
    for path in snapshot_paths(RealDisk(), folder):
        flip(path, 8 * 200)
    with pytest.raises(LogDamaged, match="no snapshot stands for it"):
        recover(read_folder(folder), folder)
