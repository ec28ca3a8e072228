"""What outlives its segment: the whole past of every task in memory, however it is threaded."""

from pathlib import Path

from holdfast.coordinator.keeping import ENDS
from holdfast.coordinator.settings import Settings
from holdfast.coordinator.snapshotting import Snapshotter
from holdfast.core import events as e
from holdfast.core.spec import JobSpec
from holdfast.testing.scribe import SEGMENT_BYTES, InPlace, WrittenWorld
from holdfast.testing.scribes import untold

PATIENT = JobSpec(name="work", kind="function", target="work", retries=9)


def test_the_past_of_a_task_is_kept_though_its_last_end_points_from_history_that_stays(
    tmp_path: Path,
) -> None:
    """The chain of a task leads from what memory points at, in history that stays, into history
    that goes. Were that let go of, the next snapshot could not be made, nor any after it."""
    world = WrittenWorld(tmp_path)
    settings = Settings(history_bytes=SEGMENT_BYTES)
    snapshotter = Snapshotter(
        tmp_path, world.file, settings, lambda: 0, world.did, InPlace()
    )
    world.submit("long", spec=PATIENT)

    def fail() -> None:
        world.sleep(3_600_000)
        (lease,) = world.grant("long")
        world.start("long", 0, lease)
        world.fail("long", 0, lease)
        world.write()

    fail()
    for number in range(4):
        for filler in range(48):
            world.submit(f"filler {number} {filler}", spec=PATIENT)
            if filler % 8 == 7:
                world.write()
        fail()
        assert snapshotter.make() is not None, snapshotter.last_error
        world.write()
        assert untold(world.file, world.state) == []
    assert world.file.oldest > 1
    world.file.close()


def test_every_event_with_an_end_in_it_counts_as_one() -> None:
    assert {e.TasksCompleted, e.TaskCommitted, e.AttemptsReturned, e.TasksQuarantined} <= set(ENDS)
    assert {e.TasksKilled, e.TasksUnschedulable, e.TasksSetAside, e.TasksPurged} <= set(ENDS)
    assert e.LeasesGranted not in ENDS
