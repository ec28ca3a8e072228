"""What can be mended about a folder: found without a change, mended through the one door."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.coordinator.embedding import open_embedded
from holdfast.coordinator.inspect import open_folder
from holdfast.coordinator.repairing import mend_files, mend_tasks, record, repairs_of
from holdfast.coordinator.settings import Settings
from holdfast.coordinator.verify import verify_folder
from holdfast.core import events as e
from holdfast.core.ids import Index, JobId
from holdfast.core.state import State
from holdfast.core.task import ASIDE, Task, TaskState
from holdfast.testing.world import World
from holdfast.wal import FileLog

EARLY, LATE = 40, 80
OLD = 10**9

Snap = Callable[..., Path]


def bytes_of(folder: Path) -> dict[str, str]:
    """Every file of a folder, and what is in it."""
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def mend(folder: Path) -> list[str]:
    """Mend what is found, as the owner of the folder; what was done."""
    found = repairs_of(folder)
    embedded = open_embedded(folder, Settings(history_bytes=None))
    done = [*mend_files(found), *mend_tasks(embedded.coordinator, found, "op", "why")]
    record(embedded.coordinator, done, "op", "why")
    embedded.engine.start()
    embedded.close(lambda: True)
    return [deed for _, deed in done]


def litter(folder: Path) -> None:
    """What makers leave when they die."""
    for name in ("snapshots/00000000000000000099.tmp", "wal/torn-3-1"):
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"half")
        os.utime(file, (OLD, OLD))
    (folder / "snapshots" / "00000000000000000007.kept").write_bytes(b"kept")
    (folder / "snapshots" / "00000000000000000098.tmp").write_bytes(b"being written")


def test_a_good_folder_needs_no_repair(folder: Path, snap: Snap) -> None:
    snap(EARLY)
    assert repairs_of(folder) == []


def test_resolution_001_14_a_dry_run_changes_no_byte(
    folder: Path, snap: Snap, unsound: Snap
) -> None:
    snap(EARLY)
    unsound(LATE)
    litter(folder)
    before = bytes_of(folder)
    found = repairs_of(folder)
    assert bytes_of(folder) == before
    assert [each.kind for each in found] == ["snapshot", "kept", "leftover", "leftover"]


def test_resolution_001_14_what_was_mended_is_recorded_with_who_and_why(
    folder: Path, world: World, snap: Snap, unsound: Snap
) -> None:
    snap(EARLY)
    path = unsound(LATE)
    litter(folder)
    deeds = mend(folder)
    assert deeds[0] == f"it was put aside as {path.name}.bad-1"
    assert path.with_name(f"{path.name}.bad-1").exists()
    assert not (folder / "wal" / "torn-3-1").exists()
    assert (folder / "snapshots" / "00000000000000000098.tmp").exists()
    assert repairs_of(folder) == []
    assert verify_folder(folder).is_good
    last = open_folder(folder).told(len(world.log) + 2).record
    assert (last.command, last.actor, last.reason) == ("RecordRepair", "op", "why")
    (repaired,) = last.events
    assert isinstance(repaired, e.Repaired)
    assert repaired.deeds == tuple(deeds)
    assert "job 1 is there 2 times" in repaired.findings[0]


def test_a_snapshot_that_claims_another_state_is_put_aside_where_the_log_covers(
    folder: Path, snap: Snap
) -> None:
    snap(LATE, next_job=999)
    (found,) = repairs_of(folder)
    assert (found.kind, "does not hold the state" in found.finding) == ("snapshot", True)
    mend(folder)
    assert open_folder(folder).state.next_job == 31


def test_nothing_is_put_aside_that_the_log_cannot_do_without(
    folder: Path, unsound: Snap
) -> None:
    unsound(LATE)
    log = FileLog.open(folder, segment_bytes=16 * 1024)
    log.drop_segments(LATE)
    log.close()
    before = bytes_of(folder)
    with pytest.raises(Exception, match="no usable snapshot"):
        repairs_of(folder)
    assert bytes_of(folder) == before


def test_a_bad_copy_of_the_hint_is_written_again(folder: Path) -> None:
    hint = folder / "wal" / "acked"
    content = bytearray(hint.read_bytes())
    older = min(range(2), key=lambda slot: content[slot * 4096 + 24])
    content[older * 4096 + 40] ^= 1
    hint.write_bytes(bytes(content))
    (found,) = repairs_of(folder)
    assert found.kind == "hint"
    assert mend(folder) == ["it was written again"]
    assert repairs_of(folder) == []


def lose(state: State) -> None:
    """A task whose record cannot be right."""
    job = state.jobs[JobId("1")]
    job.states[1] = ASIDE
    job.tasks = {Index(1): Task(JobId("1"), Index(1), attempt=1, strays=-1)}


def test_resolution_001_16_a_task_that_cannot_be_right_goes_into_quarantine(
    folder: Path, snap: Snap
) -> None:
    log = FileLog.open(folder, segment_bytes=16 * 1024)
    log.close()
    snap(120, spoil=lose)
    # The log no longer tells what came before, so the snapshot is all there is.
    log = FileLog.open(folder, segment_bytes=16 * 1024)
    log.drop_segments(120)
    assert log.oldest > 1
    log.close()
    (found,) = [each for each in repairs_of(folder) if each.kind == "task"]
    assert (found.subject, "strays" in found.finding) == ("1/1", True)
    assert mend(folder) == ["it is in quarantine"]
    state = open_folder(folder).state
    assert state.jobs[JobId("1")].states[1] == TaskState.QUARANTINED
    assert repairs_of(folder) == []
