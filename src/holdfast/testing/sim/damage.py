"""Bytes that change by themselves, and programs that take what is not theirs: tried on copies, so
that the run goes on unharmed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Final

from holdfast.coordinator.recovery import recover
from holdfast.core.errors import BrokenInvariant, OperatingError
from holdfast.testing.disks import SECTOR_BYTES, FaultyDisk
from holdfast.testing.sim.plan import Fault
from holdfast.testing.sim.server import DATA
from holdfast.wal import WAL_FOLDER, FileLog, LogInUse, read_folder
from holdfast.wal.hint import read_hint

LOCK_NAME: Final = "holdfast.lock"


def _flip(content: bytearray, dice: Random) -> None:
    content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)


def _zero(content: bytearray, dice: Random) -> None:
    start = dice.randrange(len(content)) // SECTOR_BYTES * SECTOR_BYTES
    content[start : start + SECTOR_BYTES] = bytes(len(content[start : start + SECTOR_BYTES]))


def _misdirect(content: bytearray, dice: Random) -> None:
    """A sector is written where another belongs."""
    sectors = max(1, len(content) // SECTOR_BYTES)
    source, target = dice.randrange(sectors), dice.randrange(sectors)
    start = target * SECTOR_BYTES
    moved = content[source * SECTOR_BYTES : (source + 1) * SECTOR_BYTES]
    content[start : start + len(moved)] = moved


def _swap(content: bytearray, dice: Random) -> None:
    sectors = max(1, len(content) // SECTOR_BYTES)
    one, two = (dice.randrange(sectors) * SECTOR_BYTES for _ in range(2))
    first, second = content[one : one + SECTOR_BYTES], content[two : two + SECTOR_BYTES]
    content[one : one + len(second)], content[two : two + len(first)] = second, first


ROTS: Final[tuple[Callable[[bytearray, Random], None], ...]] = (_flip, _zero, _misdirect, _swap)


def refuses_or_agrees(disk: FaultyDisk, fault: Fault, durable: int) -> list[str]:
    """Bytes of a copy rot; opening it is refused, or shows exactly what is there without the rot.

    What rots in the very last frame looks like a frame that a crash cut short, as long as the hint
    does not name it; so do several that lie in one sector at the end. That much may be gone, and
    nothing else.
    """
    dice = Random(fault.who)
    copy = disk.copy()
    copy.capacity = None
    files = [path for path in copy.files() if copy.content(path) and path.name != LOCK_NAME]
    path = dice.choice(files)
    content = bytearray(copy.content(path))
    rot = ROTS[dice.randrange(len(ROTS))]
    rot(content, dice)
    if content == copy.content(path):
        return []
    least = _last_frame(disk) - 1 if rot is _flip else _hinted(disk)
    copy.plant(path, bytes(content))
    try:
        log = FileLog.open(DATA, disk=copy)
        if path.parent.name == "snapshots":
            state = recover(log, log.path, disk=copy)
            if state.position != log.last:
                return [f"{path.name} rotted unnoticed: {state.position} of {log.last} are known"]
    except (OperatingError, BrokenInvariant):
        return []
    if log.last < min(durable, least):
        return [f"{path.name} rotted unnoticed: {log.last} of {durable} records are left"]
    reader = read_folder(DATA, disk=disk)
    place = max(log.last, reader.oldest - 1)
    if log.last <= reader.last and log.chain_after(place) != reader.chain_after(place):
        return [f"{path.name} rotted unnoticed: another history up to {log.last}"]
    return []


def _last_frame(disk: FaultyDisk) -> int:
    """Where the last frame begins."""
    reader = read_folder(DATA, disk=disk)
    return next(iter(reader.read(reader.last))).first if reader.last >= reader.oldest else 1


def _hinted(disk: FaultyDisk) -> int:
    """How far the hint says that the log was acknowledged."""
    return read_hint(disk, DATA / WAL_FOLDER).hint.position


def unchanged_by_another(disk: FaultyDisk, refusal: type[LogInUse]) -> list[str]:
    """Another program tries to take the folder that somebody has: it is refused, and not a byte of
    the log is another."""
    before = _contents(disk)
    try:
        with _undisturbed(disk):
            FileLog.open(DATA, disk=disk)
    except refusal:
        return [] if _contents(disk) == before else ["a program that was refused wrote something"]
    except OperatingError as error:
        return [f"another program was refused for another reason: {error!r}"]
    return ["another program took a folder that is in use"]


@contextmanager
def _undisturbed(disk: FaultyDisk) -> Iterator[None]:
    """Whatever is to go wrong with the disk waits for its owner."""
    planned = (disk.crash_at, disk.fail_sync_at, disk.capacity, disk.largest_write)
    disk.crash_at = disk.fail_sync_at = disk.capacity = disk.largest_write = None
    done = disk.total_operations
    try:
        yield
    finally:
        disk.crash_at, disk.fail_sync_at, disk.capacity, disk.largest_write = planned
        if disk.crash_at is not None:
            disk.crash_at += disk.total_operations - done


def _contents(disk: FaultyDisk) -> dict[str, bytes]:
    return {str(path): disk.content(path) for path in disk.files()}
