"""A log of real records, cut anywhere: what is left is a history, and it can go on."""

import shutil
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from holdfast.coordinator.recovery import recover
from holdfast.core.freeze import fingerprint
from holdfast.testing.histories import a_history
from holdfast.testing.world import World
from holdfast.wal import FileLog, LogDamaged

PARTS = 16
RECORDS = 300


class Written(NamedTuple):
    """A log that was killed before it noted anything: where its frames end, and what it told."""

    folder: Path
    segment: str
    content: bytes
    ends: list[tuple[int, int]]
    world: World


@pytest.fixture(scope="module")
def written(seed: int, tmp_path_factory: pytest.TempPathFactory) -> Written:
    dice = Random(f"{seed}:every event")
    world = a_history(RECORDS, dice)
    live, dead = tmp_path_factory.mktemp("log") / "live", tmp_path_factory.mktemp("log") / "dead"
    log = FileLog.open(live)
    records = list(world.log)
    while records:
        batch = [records.pop(0) for _ in range(min(len(records), dice.randint(1, 3)))]
        log.append(batch, at=0, wall=0)
        log.sync()
    # Copied while it is open, as a kill would leave it: the hint still names the beginning.
    shutil.copytree(live, dead)
    frames = list(log.read())
    log.close()
    segment = next(path.name for path in (dead / "wal").glob("0*.seg"))
    content = (dead / "wal" / segment).read_bytes()
    offset, ends = content.index(b"\xe9LF\xb7"), []
    for frame in frames:
        offset += 76 + sum(4 + len(record) for record in frame.records)
        ends.append((offset, frame.last))
    return Written(dead, segment, content, ends, world)


def cut(written: Written, at: int, tmp_path: Path, *, zeroed: bool) -> Path:
    """A copy of the folder that ends, or is zero, from byte `at` on."""
    folder = tmp_path / f"cut-{at}-{zeroed}"
    shutil.copytree(written.folder, folder)
    with (folder / "wal" / written.segment).open("r+b") as file:
        size = file.seek(0, 2)
        file.truncate(at)
        if zeroed:
            file.truncate(size)
    return folder


@pytest.mark.parametrize("part", range(PARTS))
def test_a_log_cut_anywhere_is_the_history_up_to_there_and_goes_on(
    written: Written, part: int, tmp_path: Path, dice: Random
) -> None:
    before = 0
    for number, (end, last) in enumerate(written.ends):
        start = written.ends[number - 1][0] if number else end
        if number % PARTS == part and number:
            at = dice.choice((end, end - 1, dice.randint(start, end)))
            zeroed = dice.random() < 0.5
            # Zeros that were zeros before are no harm.
            is_whole = at == end or (zeroed and not written.content[at:end].strip(b"\0"))
            kept = last if is_whole else before
            folder = cut(written, at, tmp_path, zeroed=zeroed)
            log = FileLog.open(folder)
            assert log.last == kept
            state = recover(log, folder)
            assert fingerprint(state) == fingerprint(written.world.replayed(kept))
            log.append([written.world.log[kept]] if kept < RECORDS else [b"more"], at=0, wall=0)
            assert log.sync() == kept + 1
            log.close()
            assert FileLog.open(folder).last == kept + 1
            shutil.rmtree(folder)
        before = last


def test_what_was_acknowledged_is_never_cut(written: Written, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    shutil.copytree(written.folder, whole)
    FileLog.open(whole).close()
    noted = written._replace(folder=whole)
    for at, _ in written.ends[1::40]:
        with pytest.raises(LogDamaged, match="acknowledged"):
            FileLog.open(cut(noted, at - 1, tmp_path, zeroed=True))
