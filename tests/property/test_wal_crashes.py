"""Power cuts, kills and failing syncs at every operation: nothing acknowledged is ever lost.

Each story runs once on a simulated disk. Before every operation it takes pictures of what a power
cut would leave at that moment and opens the log on each of them. HOLDFAST_CRASH_IMAGES says how
many pictures to take in all. The last part plants known bugs: the same stories must find them.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from holdfast.core.errors import LogFailed
from holdfast.testing.disks import CrashNow, FaultyDisk
from holdfast.wal import FileLog, LogDamaged, newest_snapshot, write_kept, write_snapshot
from holdfast.wal.hint import HintFile
from holdfast.wal.recovery import Clean, Damage, Torn
from holdfast.wal.snapshots import drop_snapshots

DATA = Path("/data")
SEGMENT_BYTES = 8192
PARTS = 12
STORY_OPERATIONS = 1000
IMAGES = int(os.environ.get("HOLDFAST_CRASH_IMAGES", "3000"))
SOAK_IMAGES = max(IMAGES, 100_000)


class Lost(AssertionError):
    """Something that was acknowledged is not there."""


class Witness:
    """Knows what was promised, independently of the log, and holds every wreck against it."""

    def __init__(self, disk: FaultyDisk) -> None:
        self.disk = disk
        self.written: list[bytes] = []
        self.acked = 0

    def open(self) -> FileLog:
        return FileLog.open(DATA, disk=self.disk, segment_bytes=SEGMENT_BYTES)

    def put(self, log: FileLog, *records: bytes) -> None:
        self.written += records
        log.append(records, at=len(self.written), wall=0)
        self.acked = max(self.acked, log.sync())

    def check(self, disk: FaultyDisk, dice: Random) -> None:
        """A log on this disk opens, has all that was promised, and goes on."""
        log = FileLog.open(DATA, disk=disk, segment_bytes=SEGMENT_BYTES)
        shown = self.state(log, disk)
        if shown != self.written[: len(shown)] or len(shown) < self.acked:
            raise Lost(f"{len(shown)} records are there, {self.acked} were acknowledged")
        if dice.random() < 0.5:
            # Whatever an opening showed must survive the next power cut, synced before or not.
            disk = disk.image(dice)
            log = FileLog.open(DATA, disk=disk, segment_bytes=SEGMENT_BYTES)
            if self.state(log, disk) != shown:
                raise Lost("an opening showed what the next power cut took away")
        log.append([b"more" * 30], at=0, wall=0)
        log.sync()
        disk.restart()
        after = self.state(FileLog.open(DATA, disk=disk, segment_bytes=SEGMENT_BYTES), disk)
        if after != [*shown, b"more" * 30]:
            raise Lost("the log opened but did not go on")

    def state(self, log: FileLog, disk: FaultyDisk) -> list[bytes]:
        """Every record from the first on: what a snapshot stands for, then the rest."""
        start = newest_snapshot(disk, DATA, log).snapshot
        if start is None:
            return [record for frame in log.read() for record in frame.records]
        records = unpacked(b"".join(start.payload(disk)))
        assert len(records) == start.position
        for frame in log.read(start.position + 1):
            records += frame.records
        return records

    def snapshot(self, log: FileLog) -> int:
        """Make a snapshot of everything durable; its payload is all the records."""
        position = log.durable
        head = log.chain_after(position)
        assert head is not None
        payload = packed(self.written[:position])
        write_snapshot(self.disk, DATA, position, head, log.log_id, [payload], b"hash")
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
    log = witness.open()
    for number in range(25):
        witness.put(log, *batch(number))
        if number % 9 == 8:
            log.note_idle()


def rotations(witness: Witness) -> None:
    """Frames larger than half a segment: nearly every one begins a new segment."""
    log = witness.open()
    for number in range(8):
        if number % 3 == 1:
            log.prepare_next()
        witness.put(log, bytes([65 + number]) * 2500)


def oversized(witness: Witness) -> None:
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
        assert log.torn is not None


def snapshots(witness: Witness) -> None:
    """Snapshots are installed, segments dropped behind them, older snapshots after that."""
    log = witness.open()
    for number in range(40):
        witness.put(log, *batch(number))
        if number % 13 == 12:
            position = witness.snapshot(log)
            kept = [(1, 0, 0, 1, witness.written[0])]
            write_kept(witness.disk, DATA, position, kept)
            witness.put(log, b"snapshot installed")
            log.drop_segments(position + 1)
            drop_snapshots(witness.disk, DATA)


def archiving(witness: Witness) -> None:
    log = witness.open()
    for number in range(30):
        witness.put(log, *batch(number))
    position = witness.snapshot(log)
    log.drop_segments(position, archive=Path("/archive"))
    witness.put(log, b"after")


Story = Callable[[Witness], None]

STORIES: list[Story] = [
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


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("story", STORIES)
def test_a_power_cut_or_kill_at_any_operation_loses_nothing_acknowledged(
    story: Story, part: int, seed: int
) -> None:
    dice = Random(f"{seed}:{story.__name__}:{part}")
    images = max(1, round(IMAGES / STORY_OPERATIONS) - 1)
    assert tell(story, FaultyDisk(), dice, images=images, part=part, parts=PARTS) > 1


@pytest.mark.soak
@pytest.mark.parametrize("story", STORIES)
def test_many_more_power_cuts_lose_nothing_acknowledged(story: Story, seed: int) -> None:
    dice = Random(f"{seed}:{story.__name__}:soak")
    tell(story, FaultyDisk(), dice, images=SOAK_IMAGES // STORY_OPERATIONS)


def syncs_of(story: Callable[[Witness], None]) -> int:
    disk = FaultyDisk()
    story(Witness(disk))
    done = disk.operations
    return done["fsync"] + done["fdatasync"] + done["fsync_dir"]


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("story", STORIES)
def test_a_failed_sync_ends_the_log_and_loses_nothing_acknowledged(
    story: Story, part: int, seed: int
) -> None:
    """The pages of a failed sync read well and are not on disk: the next opening must see to it."""
    total = syncs_of(story)
    for failing in range(1 + part, total + 1, 4):
        dice = Random(f"{seed}:{story.__name__}:{failing}")
        disk = FaultyDisk()
        witness = Witness(disk)
        disk.fail_sync_at = failing
        with pytest.raises((LogFailed, OSError)):
            story(witness)
        disk.fail_sync_at = None
        disk.restart()
        witness.check(disk.copy(), dice)
        witness.check(disk.image(dice), dice)


def test_after_a_failed_sync_nothing_is_ever_acknowledged_again() -> None:
    disk = FaultyDisk()
    log = FileLog.open(DATA, disk=disk, segment_bytes=SEGMENT_BYTES)
    log.append([b"a"], at=0, wall=0)
    disk.fail_sync_at = (
        sum(disk.operations[name] for name in ("fsync", "fdatasync", "fsync_dir")) + 1
    )
    with pytest.raises(LogFailed, match="sync failed"):
        log.sync()
    syncs = disk.operations["fdatasync"]
    for _ in range(3):
        with pytest.raises(LogFailed):
            log.sync()
        with pytest.raises(LogFailed):
            log.note_idle()
        with pytest.raises(LogFailed):
            log.drop_segments(1)
    assert log.durable == 0
    log.close()
    assert disk.operations["fdatasync"] == syncs


@pytest.mark.parametrize("number", range(40))
def test_many_lives_with_crashes_in_crashes_lose_nothing_acknowledged(
    number: int, seed: int
) -> None:
    """Random work, killed or cut at a random operation, recovery included, again and again."""
    dice = Random(f"{seed}:lives:{number}")
    disk = FaultyDisk()
    witness = Witness(disk)
    for _ in range(8):
        disk.crash_at = disk.total_operations + dice.randrange(1, 60)
        disk.largest_write = dice.choice((None, None, 700))
        with suppress(CrashNow):
            live(witness, dice)
        if dice.random() < 0.3:
            disk.restart()
        else:
            disk.crash(dice)
        disk.crash_at = disk.largest_write = None
        log = witness.open()
        shown = witness.state(log, disk)
        assert shown == witness.written[: len(shown)]
        assert len(shown) >= witness.acked
        # What was shown is promised from now on; what was not will never appear.
        witness.written, witness.acked = shown, len(shown)
        disk.restart()


def live(witness: Witness, dice: Random) -> None:
    log = witness.open()
    for _ in range(40):
        deed = dice.random()
        if deed < 0.75:
            size = dice.choice((0, 3, 80, 600, 3000))
            witness.put(log, *[dice.randbytes(size) for _ in range(dice.randint(1, 3))])
        elif deed < 0.82:
            log.note_idle()
        elif deed < 0.88:
            log.prepare_next()
        elif deed < 0.94 and log.durable:
            log.drop_segments(witness.snapshot(log) + 1)
        else:
            log.close()
            log = witness.open()


# Planted bugs: the same stories must find each of them.


class Forgetful(FaultyDisk):
    """A disk on which some call silently does nothing: as if the code had left it out."""

    def __init__(self, forgets: Callable[[str, Path], bool]) -> None:
        super().__init__()
        self._forgets = forgets

    def fdatasync(self, fd: int) -> None:
        if not self._forgets("fdatasync", self._of(fd).path):
            super().fdatasync(fd)

    def fsync(self, fd: int) -> None:
        if not self._forgets("fsync", self._of(fd).path):
            super().fsync(fd)

    def fsync_dir(self, path: Path) -> None:
        if not self._forgets("fsync_dir", path):
            super().fsync_dir(path)


FORGOTTEN_CALLS: dict[str, tuple[Story, Callable[[str, Path], bool]]] = {
    "sync of a frame": (
        appends,
        lambda call, path: call == "fdatasync" and path.suffix == ".seg",
    ),
    "sync of a segment header": (
        rotations,
        lambda call, path: call == "fsync" and path.name == "next.seg",
    ),
    "sync of the first hint": (
        fresh,
        lambda call, path: call == "fsync" and path.name == "acked.tmp",
    ),
    "sync of the log directory": (
        rotations,
        lambda call, path: call == "fsync_dir" and path.name == "wal",
    ),
    "sync of the data directory": (
        fresh,
        lambda call, path: call == "fsync_dir" and path == DATA,
    ),
    "sync of the data directory's name": (
        fresh,
        lambda call, path: call == "fsync_dir" and path == Path("/"),
    ),
    "sync of a snapshot": (
        snapshots,
        lambda call, path: call == "fsync" and path.suffix == ".tmp",
    ),
    "sync of the snapshot directory": (
        snapshots,
        lambda call, path: path.name == "snapshots",
    ),
    "sync of the hint": (
        closing,
        lambda call, path: call == "fdatasync" and path.name == "acked",
    ),
    "every sync": (fresh, lambda call, path: True),
}

TROUBLE = (Lost, LogDamaged, AssertionError)
ROUNDS = 60


def is_caught(story: Story, disks: Callable[[], FaultyDisk], seed: int) -> bool:
    """Whether some picture of this story comes out wrong."""
    for number in range(ROUNDS):
        dice = Random(f"{seed}:{number}")
        try:
            tell(story, disks(), dice, images=2, part=number % 4, parts=4)
        except TROUBLE:
            return True
    return False


@pytest.mark.parametrize("forgotten", FORGOTTEN_CALLS)
def test_a_forgotten_sync_is_caught(forgotten: str, seed: int) -> None:
    story, forgets = FORGOTTEN_CALLS[forgotten]
    assert is_caught(story, lambda: Forgetful(forgets), seed)


def plant_no_rewrite(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last frame is not written again on opening."""
    monkeypatch.setattr("holdfast.wal.recovery._overwrite", lambda *_: None)


def plant_cut_at_first_flaw(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever does not verify is cut, wherever it stands."""

    def cut(content: bytes, found: object, seed: int, **_: object) -> Clean | Torn | Damage:
        used, end = len(content.rstrip(b"\0")), found.end  # type: ignore[attr-defined]
        return Torn(end, used) if used > end else Clean(end)

    monkeypatch.setattr("holdfast.wal.recovery.judge", cut)


def plant_one_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hint is written over itself, so a torn write leaves none."""
    original = HintFile._put
    monkeypatch.setattr(HintFile, "_put", lambda self, slot, hint: original(self, 0, hint))


def plant_hint_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hint names a frame before its sync."""
    original = FileLog._sync

    def sync(self: FileLog) -> int:
        self.durable, durable = self.last, self.durable
        self._note()
        self.durable = durable
        return original(self)

    monkeypatch.setattr(FileLog, "_sync", sync)


def plant_two_unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two frames are under way at once."""
    original = FileLog.append

    def append(self: FileLog, records: list[bytes], *, at: int, wall: int) -> int:
        if len(records) < 2:
            return original(self, records, at=at, wall=wall)
        original(self, records[:1], at=at, wall=wall)
        durable, self.durable = self.durable, self.last
        original(self, records[1:], at=at, wall=wall)
        self.durable = durable
        return self.last

    monkeypatch.setattr(FileLog, "append", append)


def plant_early_ack(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sync says yes one frame too early."""
    original = FileLog._sync
    waiting: list[int] = []

    def sync(self: FileLog) -> int:
        if waiting:
            waiting.clear()
            return original(self)
        waiting.append(1)
        self.durable = self.last
        return self.last

    monkeypatch.setattr(FileLog, "_sync", sync)


def plant_drop_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several segments go with one sync of the directory."""

    def drop(disk: FaultyDisk, history: object, log_id: bytes, *rest: object) -> None:
        _, before, _ = rest
        segments = history.segments  # type: ignore[attr-defined]
        going = [segment for segment in segments[:-1] if segment.last < before]
        history.segments = segments[len(going) :]  # type: ignore[attr-defined]
        for segment in going:
            disk.unlink(segment.path)
        disk.fsync_dir(DATA / "wal")

    monkeypatch.setattr("holdfast.wal.file.drop", drop)


def plant_drop_without_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments go whether or not a snapshot stands for them."""
    monkeypatch.setattr("holdfast.wal.retention.reaches", lambda *_: True)
    monkeypatch.setattr(Witness, "snapshot", lambda self, log: log.durable)


PLANTED = [
    (plant_no_rewrite, appends),
    (plant_one_slot, closing),
    (plant_hint_ahead, appends),
    (plant_two_unsynced, appends),
    (plant_early_ack, appends),
    (plant_drop_together, archiving),
    (plant_drop_without_snapshot, snapshots),
]


@pytest.mark.parametrize(("plant", "story"), PLANTED)
def test_a_planted_bug_is_caught(
    plant: Callable[[pytest.MonkeyPatch], None],
    story: Story,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
) -> None:
    plant(monkeypatch)
    assert is_caught(story, FaultyDisk, seed)


def test_cutting_at_the_first_flaw_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Crashes never make a flaw in the middle; rot does."""
    disk = FaultyDisk()
    witness = Witness(disk)
    log = witness.open()
    for number in range(5):
        witness.put(log, *batch(number))
    log.close()
    path = log._segment.path
    content = bytearray(disk.content(path))
    content[4096 + 80] ^= 1
    disk.plant(path, bytes(content))
    with pytest.raises(LogDamaged):
        witness.check(disk.copy(), Random(0))
    plant_cut_at_first_flaw(monkeypatch)
    with pytest.raises(TROUBLE):
        witness.check(disk.copy(), Random(0))
