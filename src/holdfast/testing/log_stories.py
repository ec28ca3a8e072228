"""Stories of a log's life on a disk that crashes, and a witness who knows what was promised.

A story runs once. Before every operation of its disk, pictures are taken of what a power cut or a
kill would leave at that moment, and the log is opened on each of them.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

from holdfast.testing.disks import FaultyDisk
from holdfast.testing.logs import DATA, open_log
from holdfast.wal import FileLog, drop_snapshots, newest_snapshot, write_kept, write_snapshot


class Lost(Exception):
    """Something that was promised is not there, or something that was not is."""


class Witness:
    """Knows what was promised, independently of the log, and holds every wreck against it."""

    def __init__(self, disk: FaultyDisk) -> None:
        self.disk = disk
        self.written: list[bytes] = []
        self.acked = 0
        self.keeps_first = False

    def open(self) -> FileLog:
        return open_log(self.disk)

    def put(self, log: FileLog, *records: bytes) -> None:
        self.written += records
        log.append(records, at=len(self.written), wall=0)
        self.acked = max(self.acked, log.sync())

    def check(self, disk: FaultyDisk, dice: Random) -> None:
        """A log on this disk opens, has all that was promised, and goes on."""
        log = open_log(disk)
        shown = self.state(log, disk)
        if shown != self.written[: len(shown)] or len(shown) < self.acked:
            raise Lost(f"{len(shown)} records are there, {self.acked} were acknowledged")
        if self.keeps_first and log.record(1)[1] != self.written[0]:
            raise Lost("a kept record did not outlive its segment")
        if dice.random() < 0.5:
            # Whatever an opening showed must survive the next power cut, synced before or not.
            disk = disk.image(dice)
            log = open_log(disk)
            if self.state(log, disk) != shown:
                raise Lost("an opening showed what the next power cut took away")
        log.append([b"more" * 30], at=0, wall=0)
        log.sync()
        disk.restart()
        after = self.state(open_log(disk), disk)
        if after != [*shown, b"more" * 30]:
            raise Lost("the log opened but did not go on")

    def state(self, log: FileLog, disk: FaultyDisk) -> list[bytes]:
        """Every record from the first on: what a snapshot stands for, then the rest."""
        start = newest_snapshot(disk, DATA, log).snapshot
        if start is None:
            return [record for frame in log.read() for record in frame.records]
        records = unpacked(b"".join(start.payload(disk)))
        if len(records) != start.position:
            raise Lost(f"the snapshot of {start.position} holds {len(records)} records")
        for frame in log.read(start.position + 1):
            records += frame.records
        return records

    def snapshot(self, log: FileLog) -> int:
        """Make a snapshot of everything durable; its payload is all the records."""
        position = log.durable
        payload = packed(self.written[:position])
        write_snapshot(self.disk, DATA, position, log.head, log.log_id, [payload], b"hash")
        return position


def packed(records: list[bytes]) -> bytes:
    return b"".join(len(record).to_bytes(4, "big") + record for record in records)


def unpacked(content: bytes) -> list[bytes]:
    records = []
    while content:
        end = 4 + int.from_bytes(content[:4], "big")
        records.append(content[4:end])
        content = content[end:]
    return records


def batch(number: int) -> list[bytes]:
    """Batches of varied sizes; some span several sectors."""
    return [bytes([33 + number % 90]) * (number * 131 % 900 + 1), b"%d" % number][: 1 + number % 2]


def fresh(witness: Witness) -> None:
    """A log is made and written to for the first time."""
    log = witness.open()
    for number in range(6):
        witness.put(log, *batch(number))


def appends(witness: Witness) -> None:
    """Frames of varied sizes, with a rest now and then."""
    log = witness.open()
    for number in range(25):
        witness.put(log, *batch(number))
        if number % 9 == 8:
            log.note_idle()
        if number % 9 == 4:
            # Not idle at all: a frame is under way, and the hint must not speak of it.
            witness.written.append(b"under way")
            log.append([b"under way"], at=0, wall=0)
            log.note_idle()
            witness.acked = log.sync()


def rotations(witness: Witness) -> None:
    """Frames larger than half a segment: nearly every one begins a new segment."""
    log = witness.open()
    for number in range(8):
        if number % 3 == 1:
            log.prepare_next()
        witness.put(log, bytes([65 + number]) * 2500)


def oversized(witness: Witness) -> None:
    """A frame that no ordinary segment holds."""
    log = witness.open()
    witness.put(log, b"small")
    witness.put(log, b"L" * 20_000)
    witness.put(log, b"small")


def closing(witness: Witness) -> None:
    """Openings and closings, each with a higher epoch."""
    for number in range(5):
        log = witness.open()
        witness.put(log, *batch(number * 7))
        log.append([b"left to close"], at=0, wall=0)
        witness.written.append(b"left to close")
        log.close()
        witness.acked = log.durable


def torn_again(witness: Witness) -> None:
    """Opening after a torn tail, time and again, with a crash in the middle of the cutting."""
    log = witness.open()
    for number in range(5):
        witness.put(log, *batch(number))
        content = bytearray(witness.disk.content(log._segment.path))
        content[log._segment.end + 80 : log._segment.end + 1300] = b"half a frame" * 101
        witness.disk.restart()
        witness.disk.plant(log._segment.path, bytes(content))
        log = witness.open()
        if log.torn is None:
            raise Lost("half a frame was not noticed")


def snapshots(witness: Witness) -> None:
    """Snapshots are installed, segments dropped behind them, older snapshots after that."""
    log = witness.open()
    for number in range(40):
        witness.put(log, *batch(number))
        if number % 13 == 12:
            position = witness.snapshot(log)
            kept = [(1, 0, 0, 1, witness.written[0])]
            write_kept(witness.disk, DATA, position, kept)
            witness.keeps_first = True
            witness.put(log, b"snapshot installed")
            log.drop_segments(position + 1)
            drop_snapshots(witness.disk, DATA)


def archiving(witness: Witness) -> None:
    """Old segments move to another folder."""
    log = witness.open()
    for number in range(30):
        witness.put(log, *batch(number))
    position = witness.snapshot(log)
    log.drop_segments(position, archive=Path("/archive"))
    witness.put(log, b"after")


Story = Callable[[Witness], None]

STORIES: Final[list[Story]] = [
    fresh,
    appends,
    rotations,
    oversized,
    closing,
    torn_again,
    snapshots,
    archiving,
]


def tell(
    story: Story,
    disk: FaultyDisk,
    dice: Random,
    *,
    images: int,
    part: int = 0,
    parts: int = 1,
) -> int:
    """Run a story and judge pictures of its disk before its operations; how many were judged."""
    witness = Witness(disk)
    judged = 0
    count = 0

    def look(name: str, path: Path) -> None:
        nonlocal judged, count
        count += 1
        if count % parts != part:
            return
        for _ in range(images):
            witness.check(disk.image(dice), dice)
            judged += 1
        witness.check(disk.copy(), dice)
        judged += 1

    disk.on_operation = look
    story(witness)
    disk.on_operation = None
    witness.check(disk.image(dice), dice)
    return judged + 1
