"""A disk that is short of room or of speed: what is refused, what never is, and what comes back."""

import logging
from pathlib import Path

import pytest

from holdfast.coordinator.room import PENDING_BYTES, SLOW_MS, Room, Space, marks_of
from holdfast.coordinator.settings import Settings
from holdfast.coordinator.shortage import GROWS, MESSAGES, NEEDED, refusal
from holdfast.coordinator.taking import Ground, take_folder
from holdfast.core import commands as c
from holdfast.core import commands_schedules as s
from holdfast.core.decision import Accepted, Reason, Refused
from holdfast.core.ids import Index, JobId, LeaseId
from holdfast.core.spec import JobSpec
from holdfast.testing.clock import ManualClock, SeededDice
from holdfast.testing.disks import FaultyDisk
from holdfast.testing.post import Post
from holdfast.testing.service import Service
from holdfast.wal import Ballast, DiskFull
from holdfast.wire.exchange import Done, Started

SPEC = JobSpec(name="work", kind="function", target="work")
SUBMIT = c.SubmitJob(spec=SPEC, items=(b"x",))
TERM_MS = 9_000
MIB = 1024 * 1024


class Scene:
    """A service whose disk has as much room as the test says, and one worker that runs a task."""

    def __init__(self, ballast: Ballast | None = None) -> None:
        self.clock = ManualClock()
        self.service = Service(self.clock, SeededDice(1), term_ms=TERM_MS)
        self.coordinator = self.service.coordinator
        self.free = 10_000 * MIB
        settings = Settings(disk_low=100 * MIB, disk_stop=10 * MIB)
        self.room = Room(
            self.coordinator, settings, lambda: Space(self.free, 20_000 * MIB),
            self.service.exchanges.withhold, ballast,
        )  # fmt: skip
        self.worker = Post(self.service)

    def leave_free(self, free: int) -> None:
        self.free = free
        self.clock.advance(1_000)
        self.room.step(self.clock.now())

    def code(self, command: c.Command) -> str:
        decision = self.coordinator.execute(command, actor="test")
        return decision.code if isinstance(decision, Refused) else ""


def test_below_the_first_mark_no_more_work_is_taken_and_everything_else_is() -> None:
    scene = Scene()
    assert scene.code(SUBMIT) == ""
    scene.leave_free(100 * MIB - 1)
    assert scene.room.short is Reason.DISK_LOW
    assert scene.code(SUBMIT) == "disk_low"
    assert scene.code(c.AddTasks(job_id=JobId("1"), first=Index(0), items=(b"",))) != "disk_low"
    assert scene.code(c.KillJob(job_id=JobId("1"))) == ""
    scene.leave_free(100 * MIB)
    assert scene.code(SUBMIT) == ""


def test_a_completion_is_taken_below_both_marks() -> None:
    scene = Scene()
    scene.code(c.SubmitJob(spec=SPEC, items=(b"x", b"y")))
    scene.service.settle()
    item, other = (item for run in scene.worker.hear(slots=2).runs for item in run.items)
    leases = [LeaseId(item.lease_id), LeaseId(other.lease_id)]
    starts = tuple(Started(JobId("1"), Index(n), lease, 1) for n, lease in enumerate(leases))
    scene.worker.hear(slots=2, held=tuple(leases), started=starts)
    for index, free in ((0, 50 * MIB), (1, 5 * MIB)):
        scene.leave_free(free)
        done = Done(JobId("1"), Index(index), leases[index], 1, b"result")
        scene.worker.hear(slots=2, held=tuple(leases[index + 1 :]), done=(done,))
        assert scene.coordinator.state.jobs[JobId("1")].unfinished == 1 - index


def test_below_the_second_mark_nothing_is_changed_and_nothing_given_out() -> None:
    scene = Scene()
    scene.code(SUBMIT)
    scene.leave_free(10 * MIB - 1)
    assert scene.code(c.KillJob(job_id=JobId("1"))) == "disk_full"
    assert scene.code(c.PauseQueue(queue="default", reason="")) == "disk_full"
    scene.service.settle()
    assert scene.worker.hear().runs == ()
    assert scene.service.exchanges.withheld == "disk_full"
    scene.leave_free(50 * MIB)
    scene.service.settle()
    assert scene.worker.hear().runs != ()


def test_a_repeat_is_answered_whatever_the_disk_is_like() -> None:
    scene = Scene()
    keyed = c.SubmitJob(spec=SPEC, items=(b"x",), key="k", digest=b"d")
    assert scene.code(keyed) == ""
    scene.leave_free(0)
    decision = scene.coordinator.execute(keyed, actor="test")
    assert isinstance(decision, Accepted)
    assert decision.events == ()
    assert scene.code(SUBMIT) == "disk_full"


def test_room_that_went_while_nothing_happened_is_noticed_by_the_first_who_asks() -> None:
    scene = Scene()
    scene.free = 0
    scene.clock.advance(3_600_000)
    assert scene.code(SUBMIT) == "disk_full"


def test_it_is_looked_at_again_only_while_something_is_short() -> None:
    scene = Scene()
    assert scene.room.next_due() == 0
    scene.leave_free(50 * MIB)
    assert scene.room.next_due() == scene.clock.now() + 1_000


def test_schedules_wait_for_room_and_are_made_up_for() -> None:
    scene = Scene()
    scene.leave_free(50 * MIB)
    assert scene.coordinator.guard(s.FireSchedule) is not None
    scene.leave_free(5_000 * MIB)
    assert scene.coordinator.guard(s.FireSchedule) is None


def test_while_too_much_waits_for_a_slow_disk_nobody_adds_to_it() -> None:
    scene = Scene()
    most = PENDING_BYTES - 10
    scene.coordinator.pending_bytes += most
    assert [scene.code(SUBMIT) for _ in range(2)] == ["", "disk_slow"]
    assert scene.code(c.KillJob(job_id=JobId("1"))) == ""
    scene.service.settle()
    assert scene.coordinator.pending_bytes == most
    scene.coordinator.pending_bytes -= most
    assert scene.code(SUBMIT) == ""


def test_while_a_frame_takes_very_long_nobody_adds_to_what_waits_behind_it() -> None:
    scene = Scene()
    scene.code(SUBMIT)
    assert scene.service.turn()
    scene.clock.advance(SLOW_MS + 1)
    assert scene.code(SUBMIT) == "disk_slow"
    scene.service.synced()
    assert scene.code(SUBMIT) == ""


def test_nothing_is_given_out_where_a_lease_might_be_over_before_it_is_written() -> None:
    scene = Scene()
    scene.code(SUBMIT)
    assert scene.service.turn()
    scene.clock.advance(TERM_MS // 3 + 1)
    scene.room.step(scene.clock.now())
    assert scene.service.exchanges.withheld == "disk_slow"
    scene.service.synced()
    assert scene.worker.hear().runs == ()
    # It stays so for a term after a sync that took so long: the next may take as long.
    assert scene.room.withholds() is Reason.DISK_SLOW
    scene.clock.advance(TERM_MS)
    scene.room.step(scene.clock.now())
    scene.service.settle()
    assert scene.worker.hear().runs != ()


def test_the_marks_are_a_part_of_the_disk_or_what_was_chosen() -> None:
    assert marks_of(Settings(), 4 * 1024 * MIB) == (4 * 1024 * MIB // 20, 4 * 1024 * MIB // 100)
    assert marks_of(Settings(), 10**13) == (1024 * MIB, 64 * MIB)
    assert marks_of(Settings(disk_low=7, disk_stop=3), 10**13) == (7, 3)
    # The second is never above the first.
    assert marks_of(Settings(disk_low=0, disk_stop=9), 10**13) == (9, 9)


def test_the_ballast_is_let_go_of_when_the_disk_is_full_and_taken_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FaultyDisk()
    folder = Path("/data")
    disk.mkdir(folder)
    ballast = Ballast(disk, folder, size=2 * MIB)
    scene = Scene(ballast)
    scene.room.finish()
    assert ballast.is_held()
    with caplog.at_level(logging.WARNING):
        scene.leave_free(5 * MIB)
    assert not disk.exists(ballast.path)
    events = [vars(line)["event"] for line in caplog.records]
    assert events == ["disk_full", "ballast_released"]
    scene.leave_free(150 * MIB)
    scene.room.finish()
    assert not ballast.is_held()
    scene.leave_free(202 * MIB)
    scene.room.finish()
    assert ballast.is_held()


def test_a_ballast_that_does_not_fit_is_given_back_whole() -> None:
    disk = FaultyDisk()
    folder = Path("/data")
    disk.mkdir(folder)
    disk.capacity = disk.used + MIB
    ballast = Ballast(disk, folder, size=2 * MIB)
    assert not ballast.hold()
    assert not disk.exists(ballast.path)
    assert not ballast.let_go()


def test_a_start_that_finds_no_room_at_all_lets_go_of_the_ballast() -> None:
    disk, folder = FaultyDisk(), Path("/data")
    ground = Ground(disk=disk, segment_bytes=8 * 1024)
    take_folder(folder, term_ms=0, ground=ground).log.close()
    ballast = Ballast(disk, folder, size=MIB)
    assert ballast.hold()
    disk.capacity = disk.used
    starts = 0
    while ballast.is_held():
        # Each is recorded, so what is left of the segment is used up soon.
        take_folder(folder, term_ms=0, ground=ground).log.close()
        starts += 1
        assert starts < 100
    disk.capacity = disk.used

    def start_often() -> None:
        for _ in range(100):
            take_folder(folder, term_ms=0, ground=ground).log.close()

    with pytest.raises(DiskFull):
        start_often()


def test_every_command_is_judged_and_no_command_is_of_two_kinds() -> None:
    assert not GROWS & NEEDED
    assert set(c.COMMAND_TYPES) >= GROWS | NEEDED
    for kind in c.COMMAND_TYPES:
        assert refusal(kind, None) is None
        for short in MESSAGES:
            told = refusal(kind, short)
            is_refused = kind not in NEEDED and (short is Reason.DISK_FULL or kind in GROWS)
            assert (told is not None) == is_refused
            assert told is None or told.code is short
