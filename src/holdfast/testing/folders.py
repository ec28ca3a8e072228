"""Real folders with known histories, and the damage that disks do to them."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from holdfast.core.events import LogForked, LogOpened
from holdfast.core.record import decode_record
from holdfast.wal import FileLog, RealDisk, Wreckage


class Written(NamedTuple):
    """Where a frame was written, and the positions it holds."""

    path: Path
    offset: int
    end: int
    first: int
    last: int


def write_folder(
    folder: Path,
    records: Sequence[bytes],
    *,
    segment_bytes: int | None = None,
    dice: Random | None = None,
) -> list[Written]:
    """Write these records as a log would have, one to four in a frame; where each frame lies."""
    log = FileLog.open(folder, segment_bytes=segment_bytes)
    try:
        start = 0
        while start < len(records):
            count = 1 if dice is None else dice.randrange(1, 5)
            batch = records[start : start + count]
            append(log, batch)
            start += count
    finally:
        log.close()
    places = Wreckage(RealDisk(), folder).places
    return [Written(*place) for place in places]


def append(log: FileLog, batch: Sequence[bytes]) -> None:
    """One frame, durable, under the epoch that its records say they were written in."""
    records = [decode_record(data) for data in batch]
    events = (event for record in records for event in record.events)
    opened = [event.epoch for event in events if isinstance(event, LogOpened | LogForked)]
    log.epoch = max([log.epoch, *opened])
    log.append(batch, at=records[-1].at, wall=records[-1].at)
    log.sync()


def flip_bit(path: Path, offset: int, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 1 << bit
    path.write_bytes(content)


def zero_block(path: Path, offset: int, size: int) -> None:
    """A block that reads as zeros, as a lost sector does."""
    content = bytearray(path.read_bytes())
    content[offset : offset + size] = bytes(len(content[offset : offset + size]))
    path.write_bytes(content)


def damage(frames: Sequence[Written], dice: Random) -> list[Written]:
    """Hurt a folder somewhere in what was written; the frames that are still whole."""
    hit = dice.choice(frames)
    kind = dice.choice(("flip", "flip", "block", "cut", "gone"))
    first, last = hit.offset, hit.offset
    if kind == "flip":
        first = last = dice.randrange(hit.offset, hit.end)
        flip_bit(hit.path, first, dice.randrange(8))
    elif kind == "block":
        last = first + dice.choice((1, 512, 4_096))
        zero_block(hit.path, first, last - first)
    elif kind == "cut":
        content = hit.path.read_bytes()
        hit.path.write_bytes(content[:first])
        last = len(content)
    else:
        first, last = 0, hit.path.stat().st_size
        hit.path.unlink()
    return [
        frame
        for frame in frames
        if frame.path != hit.path or frame.end <= first or frame.offset > last
    ]
