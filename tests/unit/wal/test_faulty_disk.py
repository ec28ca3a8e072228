"""The simulated disk is as forgetful as a real one, and no more."""

from pathlib import Path
from random import Random

import pytest

from holdfast.testing.disks import SECTOR_BYTES, CrashNow, FaultyDisk

FILE = Path("/f")
SYNCED = b"s" * (4 * SECTOR_BYTES)


def synced_file() -> tuple[FaultyDisk, int]:
    disk = FaultyDisk()
    fd = disk.open(FILE, create=True)
    disk.pwrite(fd, SYNCED, 0)
    disk.fsync(fd)
    disk.fsync_dir(Path("/"))
    return disk, fd


def wrecks(disk: FaultyDisk, count: int = 200) -> list[FaultyDisk]:
    return [disk.image(Random(number)) for number in range(count)]


def test_what_was_synced_survives_every_power_cut() -> None:
    disk, _ = synced_file()
    assert {wreck.content(FILE) for wreck in wrecks(disk)} == {SYNCED}


def test_unsynced_sectors_are_kept_dropped_or_torn_each_by_itself() -> None:
    disk, fd = synced_file()
    disk.pwrite(fd, b"n" * len(SYNCED), 0)
    assert disk.content(FILE) == b"n" * len(SYNCED)
    seen = set()
    for wreck in wrecks(disk):
        content = wreck.content(FILE)
        kinds = ""
        for start in range(0, len(content), SECTOR_BYTES):
            sector = content[start : start + SECTOR_BYTES]
            front = len(sector) - len(sector.lstrip(b"n"))
            assert sector == b"n" * front + b"s" * (SECTOR_BYTES - front)
            kinds += {0: "s", SECTOR_BYTES: "n"}.get(front, "t")
        seen.add(kinds)
    assert {"ssss", "nnnn", "snsn", "nsns"} <= seen
    assert any("t" in kinds for kinds in seen)


def test_a_file_that_grew_may_come_back_at_either_size() -> None:
    disk, fd = synced_file()
    disk.pwrite(fd, b"n" * 700, len(SYNCED))
    assert {len(wreck.content(FILE)) for wreck in wrecks(disk)} == {len(SYNCED), len(SYNCED) + 700}


def test_a_name_without_a_synced_directory_may_be_gone() -> None:
    disk, _ = synced_file()
    disk.rename(FILE, Path("/g"))
    disk.mkdir(Path("/d"))
    assert {tuple(map(str, wreck.files())) for wreck in wrecks(disk)} == {("/f",), ("/g",)}
    assert {wreck.exists(Path("/d")) for wreck in wrecks(disk)} == {True, False}
    disk.fsync_dir(Path("/"))
    assert {tuple(map(str, wreck.files())) for wreck in wrecks(disk)} == {("/g",)}


def test_files_go_with_the_directory_whose_name_was_not_synced() -> None:
    disk = FaultyDisk()
    disk.mkdir(Path("/d"))
    fd = disk.open(Path("/d/f"), create=True)
    disk.fsync(fd)
    disk.fsync_dir(Path("/d"))
    assert {len(wreck.files()) for wreck in wrecks(disk)} == {0, 1}


def test_a_failed_sync_leaves_pages_that_read_well_and_are_not_there() -> None:
    disk, fd = synced_file()
    disk.pwrite(fd, b"new", 0)
    disk.fail_sync_at = 3
    with pytest.raises(OSError, match="Input/output"):
        disk.fdatasync(fd)
    disk.fdatasync(fd)
    assert disk.content(FILE).startswith(b"new")
    assert {wreck.content(FILE) for wreck in wrecks(disk)} == {SYNCED}


def test_the_same_dice_give_the_same_wreck() -> None:
    disk, fd = synced_file()
    disk.pwrite(fd, b"n" * 1500, 100)
    assert disk.image(Random(5)).content(FILE) == disk.image(Random(5)).content(FILE)


def test_a_killed_program_leaves_the_cache_and_a_copy_lives_its_own_life() -> None:
    disk, fd = synced_file()
    disk.pwrite(fd, b"n" * 10, 0)
    copy = disk.copy()
    assert copy.content(FILE) == disk.content(FILE)
    other = copy.open(FILE, write=True)
    copy.fdatasync(other)
    assert {wreck.content(FILE)[:10] for wreck in wrecks(copy)} == {b"n" * 10}
    assert b"s" * 10 in {wreck.content(FILE)[:10] for wreck in wrecks(disk)}


def test_the_machine_is_off_from_the_chosen_operation_on() -> None:
    disk, fd = synced_file()
    disk.crash_at = disk.total_operations + 1
    disk.pwrite(fd, b"a", 0)
    for _ in range(2):
        with pytest.raises(CrashNow):
            disk.pwrite(fd, b"b", 0)
    with pytest.raises(CrashNow):
        disk.pread(fd, 1, 0)
    disk.crash(Random(0))
    with pytest.raises(OSError, match="Bad file"):
        disk.pread(fd, 1, 0)
    assert len(disk.content(FILE)) == len(SYNCED)


def test_a_lock_is_held_until_let_go_or_until_the_power_goes() -> None:
    disk = FaultyDisk()
    fd = disk.lock(Path("/l"))
    assert fd is not None
    assert disk.lock(Path("/l")) is None
    disk.unlock(fd)
    assert disk.lock(Path("/l")) is not None
    disk.crash(Random(0))
    assert disk.lock(Path("/l")) is not None


def test_growing_needs_space_and_writing_over_does_not() -> None:
    disk, fd = synced_file()
    disk.capacity = disk.used + 10
    assert disk.pwrite(fd, b"x" * 50, 0) == 50
    assert disk.pwrite(fd, b"x" * 50, len(SYNCED) - 5) == 15
    with pytest.raises(OSError, match="No space"):
        disk.pwrite(fd, b"x", len(SYNCED) + 10)


def test_a_budget_is_used_up_by_every_write() -> None:
    disk, fd = synced_file()
    disk.write_budget = 30
    assert disk.pwrite(fd, b"x" * 20, 0) == 20
    assert disk.pwrite(fd, b"x" * 20, 0) == 10
    with pytest.raises(OSError, match="No space"):
        disk.pwrite(fd, b"x", 0)


def test_a_descriptor_for_reading_does_not_write() -> None:
    disk, _ = synced_file()
    with pytest.raises(OSError, match="Bad file"):
        disk.pwrite(disk.open(FILE), b"x", 0)
    with pytest.raises(FileNotFoundError):
        disk.open(Path("/absent"))
    with pytest.raises(FileNotFoundError):
        disk.open(Path("/absent/f"), create=True)
