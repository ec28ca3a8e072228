"""Whatever a disk does to a log: what is salvaged of it can be true, and nothing runs again."""

from pathlib import Path
from random import Random

import pytest

from holdfast.coordinator.forking import build
from holdfast.coordinator.inspect import LogDamaged, open_folder
from holdfast.coordinator.salvage import NothingLost, plan_salvage
from holdfast.core.freeze import fingerprint
from holdfast.core.ids import Index, Instant
from holdfast.core.invariants import check
from holdfast.core.job import state_of
from holdfast.core.record import decode_record
from holdfast.core.task import TaskState
from holdfast.core.touching import Named, indices_of
from holdfast.testing.folders import Written, damage, write_folder
from holdfast.testing.histories import a_history
from holdfast.testing.world import World
from holdfast.wal import RealDisk, Wreckage

ABLE = (TaskState.WAITING, TaskState.LEASED, TaskState.RUNNING)
SEGMENT_BYTES = 16 * 1024


def salvaged(folder: Path, seed: int) -> bool:
    """One log, one wound, one salvage; whether there was anything to save."""
    dice = Random(seed)
    world = a_history(dice.randrange(20, 160), dice)
    source, target = folder / "old", folder / "new"
    frames = write_folder(source, world.log, segment_bytes=SEGMENT_BYTES, dice=dice)
    whole = damage(frames, dice)
    try:
        plan, loss = plan_salvage(source, wall=Instant(1), actor="test")
    except NothingLost:
        return False
    except LogDamaged:
        assert not [frame for frame in whole if frame.first == 1]
        return False
    good = loss.good_until
    assert fingerprint(plan.state) == fingerprint(world.replayed(good))
    build(plan, target)
    state = open_folder(target).state
    assert check(state) == ()
    assert (state.suspended, state.lineage[-1].until) == ("salvage", good)
    told = Named()
    for frame in whole:
        for record in world.log[max(frame.first - 1, good) : frame.last]:
            for event in decode_record(record).events:
                told.take(event)
                job = state.jobs.get(getattr(event, "job_id", ""))
                for index in indices_of(event) if job is not None else ():
                    assert job is not None
                    if index < job.count:
                        assert state_of(job, Index(index)) not in ABLE
    assert state.next_lease > told.lease
    assert state.next_job > told.job
    assert state.epoch > told.epoch
    _nothing_finished_came_back(world, good, state)
    return True


def _nothing_finished_came_back(world: World, good: int, state: object) -> None:
    """Whatever had ended where the history ends has ended there still, with the same end."""
    before = world.replayed(good)
    for job_id, job in before.jobs.items():
        now = state.jobs[job_id]  # type: ignore[attr-defined]
        for index in range(job.count):
            was = state_of(job, Index(index))
            if was not in ABLE:
                assert state_of(now, Index(index)) is was
                assert (now.ends or [0] * job.count)[index] == (job.ends or [0] * job.count)[index]


@pytest.mark.parametrize("seed", range(2))
def test_what_is_salvaged_can_be_true_and_runs_nothing_again(tmp_path: Path, seed: int) -> None:
    salvaged(tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 160, 20))
def test_what_is_salvaged_of_many_logs_can_be_true(tmp_path: Path, first: int) -> None:
    saved = [salvaged(tmp_path / str(seed), seed) for seed in range(first, first + 20)]
    assert sum(saved) > 10


@pytest.mark.slow
def test_the_frames_that_damage_leaves_are_those_that_can_be_read(tmp_path: Path) -> None:
    """The judge of these tests is judged: it believes in no frame that is not whole."""
    for seed in range(5):
        dice = Random(seed)
        world = a_history(40, dice)
        folder = tmp_path / str(seed)
        frames = write_folder(folder, world.log, segment_bytes=SEGMENT_BYTES, dice=dice)
        whole = damage(frames, dice)
        found = [Written(*place) for place in Wreckage(RealDisk(), folder).places]
        assert found == whole
