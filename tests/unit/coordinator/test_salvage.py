"""What is saved of a damaged log, wound by wound: what is lost is said, what is doubtful waits."""

from pathlib import Path
from random import Random

import pytest

from holdfast.coordinator.embedding import open_embedded
from holdfast.coordinator.forking import build
from holdfast.coordinator.inspect import LogDamaged, LogInUse, open_folder
from holdfast.coordinator.salvage import Loss, NothingLost, plan_salvage
from holdfast.coordinator.settings import Settings
from holdfast.coordinator.snapshotting import Course, make_snapshot
from holdfast.coordinator.verify import verify_folder
from holdfast.core.ids import Index, Instant, JobId
from holdfast.core.job import state_of
from holdfast.core.task import TaskState
from holdfast.testing.folders import Written, flip_bit, write_folder, zero_block
from holdfast.testing.histories import a_history
from holdfast.testing.world import World

JOB = JobId("1")
SEGMENT_BYTES = 16 * 1024


def a_story() -> World:
    """Ten tasks of job 1: three committed, two held; job 2 comes last."""
    world = World()
    world.submit("1", items=tuple(b"%d" % n for n in range(10)))
    for index in range(3):
        (lease,) = world.grant("1", index)
        world.commit("1", index, lease, result=b"result %d" % index)
    world.grant("1", 3, 4, term_ms=60_000)
    world.submit("2", items=(b"a",))
    return world


def look(folder: Path) -> Loss:
    return plan_salvage(folder, wall=Instant(1), actor="test")[1]


def saved(folder: Path, target: Path) -> Loss:
    plan, loss = plan_salvage(folder, wall=Instant(1), actor="test")
    build(plan, target)
    assert verify_folder(target).is_good
    return loss


def holding(frames: list[Written], position: int) -> Written:
    (found,) = [frame for frame in frames if frame.first <= position <= frame.last]
    return found


def test_what_was_held_at_the_hole_and_what_is_named_behind_it_waits_for_a_person(
    tmp_path: Path,
) -> None:
    world = a_story()
    frames = write_folder(tmp_path / "old", world.log)
    (lease,) = world.grant("1", 7)
    world.commit("1", 7, lease)
    folder = tmp_path / "longer"
    frames = write_folder(folder, world.log)
    hit = holding(frames, len(world.log) - 2)
    flip_bit(hit.path, hit.offset + 60)
    loss = saved(folder, tmp_path / "new")
    assert loss.good_until == len(world.log) - 3
    assert (loss.quarantined, loss.quarantined_count) == (("1/7", "1/3", "1/4"), 3)
    assert (loss.frames_behind, loss.records_behind, loss.records_unreadable) == (2, 2, 0)
    job = open_folder(tmp_path / "new").state.jobs[JOB]
    states = [state_of(job, Index(index)) for index in range(10)]
    assert states.count(TaskState.QUARANTINED) == 3
    assert states.count(TaskState.SUCCEEDED) == 3
    assert states.count(TaskState.WAITING) == 4


def test_a_lost_tail_that_was_acknowledged_is_a_hole_of_known_length(tmp_path: Path) -> None:
    world = a_story()
    frames = write_folder(tmp_path / "old", world.log)
    last = frames[-1]
    zero_block(last.path, last.offset, last.end - last.offset)
    loss = look(tmp_path / "old")
    assert (loss.lost_from, loss.lost_to) == (len(world.log), len(world.log))
    assert (loss.jobs_kept, loss.quarantined) == (1, ("1/3", "1/4"))


def test_damage_in_history_that_a_snapshot_stands_for_costs_nothing_but_old_results(
    tmp_path: Path,
) -> None:
    world = a_story()
    frames = write_folder(tmp_path / "old", world.log)
    make_snapshot(Course(str(tmp_path / "old"), len(world.log) - 1, None))
    hit = holding(frames, 4)
    flip_bit(hit.path, hit.offset + 60)
    with pytest.raises(LogDamaged):
        open_folder(tmp_path / "old")
    loss = saved(tmp_path / "old", tmp_path / "new")
    assert (loss.good_until, loss.lost_from) == (len(world.log), 0)
    assert loss.followed_from == len(world.log) - 1
    assert (loss.quarantined, loss.results_lost) == ((), ("1/0",))
    state = open_folder(tmp_path / "new").state
    assert set(state.jobs) == {"1", "2"}
    assert state_of(state.jobs[JOB], Index(3)) is TaskState.WAITING


@pytest.mark.slow
def test_a_missing_segment_is_a_hole_and_what_is_behind_it_is_looked_at(tmp_path: Path) -> None:
    world = a_history(200, Random(11))
    frames = write_folder(tmp_path / "old", world.log, segment_bytes=SEGMENT_BYTES)
    segments = sorted({frame.path for frame in frames})
    assert len(segments) > 2
    segments[1].unlink()
    loss = saved(tmp_path / "old", tmp_path / "new")
    gone = [frame for frame in frames if frame.path == segments[1]]
    assert (loss.lost_from, loss.hole["last"]) == (gone[0].first, gone[-1].last)
    assert loss.lost_to == len(world.log)
    assert loss.records_behind == len(world.log) - gone[-1].last


@pytest.mark.parametrize("how", ["missing", "zeros"])
def test_without_the_hint_the_segments_say_which_log_it_was(tmp_path: Path, how: str) -> None:
    world = a_story()
    write_folder(tmp_path / "old", world.log)
    hint = tmp_path / "old" / "wal" / "acked"
    if how == "missing":
        hint.unlink()
    else:
        hint.write_bytes(bytes(8192))
    loss = saved(tmp_path / "old", tmp_path / "new")
    assert (loss.good_until, loss.lost_from, loss.quarantined) == (len(world.log), 0, ())


def test_a_log_that_is_whole_or_in_use_or_gone_is_refused(tmp_path: Path) -> None:
    write_folder(tmp_path / "old", a_story().log)
    with pytest.raises(NothingLost, match="holdfast log fork"):
        look(tmp_path / "old")
    embedded = open_embedded(tmp_path / "old", Settings(history_bytes=None))
    embedded.engine.start()
    try:
        with pytest.raises(LogInUse):
            look(tmp_path / "old")
    finally:
        embedded.close(lambda: True)
    for path in (tmp_path / "old" / "wal").iterdir():
        path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(LogDamaged, match="says which log this was"):
        look(tmp_path / "old")
