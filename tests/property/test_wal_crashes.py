"""Power cuts, kills and failing syncs at every operation: nothing acknowledged is ever lost.

HOLDFAST_CRASH_IMAGES says about how many pictures of the disk are taken in all.
`test_wal_planted_bugs.py` shows that the same stories find bugs.
"""

import os
from contextlib import suppress
from random import Random

import pytest

from holdfast.core.errors import LogFailed, OperatingError
from holdfast.testing.disks import CrashNow, FaultyDisk
from holdfast.testing.log_stories import STORIES, Story, Witness, tell
from holdfast.testing.logs import DATA, SEGMENT_BYTES, syncs_of
from holdfast.wal import FileLog

PARTS = 12
STORY_OPERATIONS = 870
IMAGES = int(os.environ.get("HOLDFAST_CRASH_IMAGES", "3000"))
SOAK_IMAGES = max(IMAGES, 100_000)


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


def syncs_in(story: Story) -> int:
    disk = FaultyDisk()
    story(Witness(disk))
    return syncs_of(disk)


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("story", STORIES)
def test_a_failed_sync_ends_the_log_and_loses_nothing_acknowledged(
    story: Story, part: int, seed: int
) -> None:
    """The pages of a failed sync read well and are not on disk: the next opening must see to it."""
    total = syncs_in(story)
    for failing in range(1 + part, total + 1, 4):
        dice = Random(f"{seed}:{story.__name__}:{failing}")
        disk = FaultyDisk()
        witness = Witness(disk)
        disk.fail_sync_at = failing
        # An archive that fails ends the story, and a snapshot that does; neither ends the log.
        with pytest.raises((OperatingError, OSError)):
            story(witness)
        disk.fail_sync_at = None
        disk.restart()
        witness.check(disk.copy(), dice)
        witness.check(disk.image(dice), dice)


def test_after_a_failed_sync_nothing_is_ever_acknowledged_again() -> None:
    disk = FaultyDisk()
    log = FileLog.open(DATA, disk=disk, segment_bytes=SEGMENT_BYTES)
    log.append([b"a"], at=0, wall=0)
    disk.fail_sync_at = syncs_of(disk) + 1
    with pytest.raises(LogFailed, match="sync failed"):
        log.sync()
    syncs = disk.operations["fdatasync"]
    for _ in range(3):
        with pytest.raises(LogFailed):
            log.append([b"b"], at=0, wall=0)
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
