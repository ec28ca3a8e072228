"""Known bugs, planted one at a time: the stories of a log's life must find each of them."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from holdfast.testing.disks import FaultyDisk
from holdfast.testing.log_stories import (
    Lost,
    Story,
    Witness,
    appends,
    archiving,
    batch,
    closing,
    fresh,
    rotations,
    snapshots,
    tell,
)
from holdfast.testing.logs import DATA, WAL
from holdfast.wal import FileLog, HistoryGone, LogDamaged
from holdfast.wal.hint import HintFile
from holdfast.wal.recovery import Clean, Damage, Torn


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

TROUBLE = (Lost, LogDamaged, HistoryGone)
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

    def drop(self: FileLog, before: int, archive: Path | None = None) -> int:
        for segment in [one for one in self._history.segments[:-1] if one.last < before]:
            self._history.forget(segment)
            self._disk.unlink(segment.path)
        self._disk.fsync_dir(WAL)
        return self.oldest

    monkeypatch.setattr(FileLog, "drop_segments", drop)


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
