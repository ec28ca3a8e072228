"""The engine's two threads, over a log whose disk can be held back or broken."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.engine import Engine
from holdfast.coordinator.ports import NoFaults
from holdfast.coordinator.recovery import opening, recover
from holdfast.core import commands as c
from holdfast.core.decision import Accepted, Decision, Refused
from holdfast.core.errors import LogFailed, OperatingError
from holdfast.core.ids import Instant, JobId, Position
from holdfast.core.spec import JobSpec
from holdfast.testing.clock import ManualClock, SeededDice
from holdfast.wal import DiskFull, MemoryLog

PATIENCE_S = 30
SPEC = JobSpec(name="work", kind="function", target="work")


class TestDisk:
    """Lets a sync through when told to, or breaks."""

    __test__ = False

    def __init__(self) -> None:
        self.at_sync = threading.Event()
        self.may_sync = threading.Event()
        self.trouble: Exception | None = None
        self.trouble_at_append = False
        self.trouble_beside: Exception | None = None


class HeldLog(MemoryLog):
    """A log in memory on such a disk."""

    def __init__(self, disk: TestDisk) -> None:
        super().__init__()
        self.disk = disk

    def append(self, records: object, *, at: int, wall: int) -> int:
        if self.disk.trouble_at_append and self.disk.trouble is not None:
            raise self.disk.trouble
        return super().append(records, at=at, wall=wall)  # type: ignore[arg-type]

    def sync(self) -> int:
        self.disk.at_sync.set()
        assert self.disk.may_sync.wait(PATIENCE_S), "nobody let the disk go on"
        if self.disk.trouble is not None:
            raise self.disk.trouble
        return super().sync()

    def note_idle(self) -> None:
        if self.disk.trouble_beside is not None:
            raise self.disk.trouble_beside

    def prepare_next(self) -> bool:
        self.note_idle()
        return True


class House:
    """An engine at work, and those who ask it."""

    def __init__(self, log: MemoryLog) -> None:
        self.log = log
        self.coordinator = Coordinator(recover(log, None), ManualClock(), SeededDice(1))
        self.engine = Engine(self.coordinator, log, NoFaults())
        self.coordinator.execute(opening(log.log_id, log.epoch, 0, 0), actor="coordinator")

    def ask(self, command: c.Command) -> "Answer":
        answer = Answer()

        def work() -> None:
            try:
                decision = self.coordinator.execute(command, actor="test")
            except Exception as error:  # noqa: BLE001 - it is the answer
                answer.fail(error)
            else:
                self.coordinator.answer(lambda: answer.give(decision), answer.fail)

        self.engine.post(work)
        return answer

    def read(self, look: Callable[[Coordinator], object]) -> "Answer":
        answer = Answer()

        def work() -> None:
            seen = look(self.coordinator)
            self.coordinator.answer(lambda: answer.give(seen), answer.fail)

        self.engine.post(work)
        return answer

    def turn(self) -> None:
        """Return when everything posted before this has been done by the engine's thread."""
        done = threading.Event()
        self.engine.post(done.set)
        assert done.wait(PATIENCE_S)


class Answer:
    def __init__(self) -> None:
        self.value: object = None
        self.error: Exception | None = None
        self._come = threading.Event()

    def give(self, value: object) -> None:
        self.value = value
        self._come.set()

    def fail(self, error: Exception) -> None:
        self.error = error
        self._come.set()

    @property
    def has_come(self) -> bool:
        return self._come.is_set()

    def wait(self) -> object:
        assert self._come.wait(PATIENCE_S), "no answer"
        return self.value


@pytest.fixture
def disk() -> TestDisk:
    return TestDisk()


@pytest.fixture
def house(disk: TestDisk) -> Iterator[House]:
    house = House(HeldLog(disk))
    house.engine.start()
    yield house
    disk.may_sync.set()
    house.engine.stop(OperatingError("the test is over"))


def submit(key: str = "") -> c.SubmitJob:
    return c.SubmitJob(spec=SPEC, key=key, digest=b"d", items=(b"item",))


def test_no_kind_of_answer_overtakes_the_disk(house: House, disk: TestDisk) -> None:
    first = house.ask(submit("k"))
    repeat = house.ask(submit("k"))
    refusal = house.ask(c.SubmitJob(spec=SPEC, key="k", digest=b"other", items=(b"item",)))
    read = house.read(lambda coordinator: len(coordinator.state.jobs))
    assert disk.at_sync.wait(PATIENCE_S)
    house.turn()
    assert not any(answer.has_come for answer in (first, repeat, refusal, read))
    disk.may_sync.set()
    assert isinstance(first.wait(), Accepted)
    assert isinstance(repeat.wait(), Accepted)
    assert isinstance(refusal.wait(), Refused)
    assert read.wait() == 1


def test_while_one_frame_is_synced_the_next_one_gathers(house: House, disk: TestDisk) -> None:
    house.ask(submit())
    assert disk.at_sync.wait(PATIENCE_S)
    answers = [house.ask(submit()) for _ in range(20)]
    house.turn()
    disk.may_sync.set()
    for answer in answers:
        answer.wait()
    # The opening and the first submit, then everything else at once.
    frames = [len(frame.records) for frame in house.log.read()]
    assert sum(frames) == 22
    assert frames[-1] == 20


@pytest.mark.parametrize("at_append", [True, False])
def test_a_disk_that_fails_ends_everything_and_acknowledges_nothing(
    house: House, disk: TestDisk, at_append: bool
) -> None:
    disk.may_sync.set()
    house.ask(submit()).wait()
    acknowledged = house.log.durable
    disk.trouble, disk.trouble_at_append = OSError(5, "Input/output error"), at_append
    asked = [house.ask(submit()) for _ in range(3)]
    for answer in asked:
        answer.wait()
        assert isinstance(answer.error, LogFailed)
    later = house.ask(submit())
    reading = house.read(lambda coordinator: None)
    later.wait()
    reading.wait()
    assert isinstance(later.error, LogFailed)
    assert isinstance(reading.error, LogFailed)
    assert house.log.durable == acknowledged
    reopened = house.log.reopen()
    assert list(recover(reopened, None).jobs) == ["1"]


@pytest.mark.parametrize("beside", ["the hint", "the next segment"])
def test_a_disk_that_fails_beside_the_frames_ends_everything_too(
    house: House, disk: TestDisk, beside: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody may wait for a writer that is gone."""
    monkeypatch.setattr("holdfast.coordinator.writing.IDLE_NOTE_S", 0.001)
    disk.may_sync.set()
    disk.trouble_beside = LogFailed(f"{beside} could not be written")
    house.log.wants_next = beside == "the next segment"
    while house.ask(submit()).wait() is not None:
        pass
    answer = house.ask(submit())
    answer.wait()
    assert answer.error is disk.trouble_beside


def test_leaving_does_not_wait_for_room_on_a_full_disk(house: House, disk: TestDisk) -> None:
    disk.may_sync.set()
    house.ask(submit()).wait()
    disk.trouble, disk.trouble_at_append = DiskFull(Path("/data"), 1), True
    answer = house.ask(submit())
    house.turn()
    assert not answer.has_come
    house.engine.leave()
    answer.wait()
    assert isinstance(answer.error, LogFailed)
    assert "no room" in str(answer.error)


def test_a_mistake_of_ours_on_the_engines_thread_looks_like_no_progress(
    house: House, disk: TestDisk
) -> None:
    class Broken:
        def step(self, now: Instant) -> None:
            raise ZeroDivisionError("a bug")

        def next_due(self) -> Instant:
            return Instant(0)

    disk.may_sync.set()
    house.ask(submit()).wait()
    house.engine.hooks.append(Broken())
    answer = house.ask(submit())
    answer.wait()
    assert isinstance(answer.error, ZeroDivisionError)


def test_work_that_posts_itself_leaves_time_for_everything_else(
    house: House, disk: TestDisk
) -> None:
    disk.may_sync.set()
    answered = threading.Event()

    def look() -> None:
        if not answered.is_set():
            house.engine.post(look)

    house.engine.post(look)
    house.ask(submit()).wait()
    answered.set()


def test_stopping_writes_what_has_gathered() -> None:
    disk = TestDisk()
    disk.may_sync.set()
    house = House(HeldLog(disk))
    house.engine.start()
    answers = [house.ask(submit()) for _ in range(5)]
    house.engine.stop(OperatingError("closed"))
    assert all(isinstance(answer.wait(), Accepted) for answer in answers)
    assert house.log.durable == 6


def test_who_asks_after_the_end_is_told_why_and_never_waits() -> None:
    disk = TestDisk()
    disk.may_sync.set()
    house = House(HeldLog(disk))
    house.engine.start()
    why = OperatingError("closed")
    house.engine.stop(why)
    for answer in (house.ask(submit()), house.read(lambda coordinator: 1)):
        answer.wait()
        assert answer.error is why
    assert house.log.durable == 1


def test_the_position_told_is_the_one_that_is_durable(house: House, disk: TestDisk) -> None:
    disk.may_sync.set()
    positions: list[Position] = []
    for _ in range(3):
        decision = house.ask(submit()).wait()
        assert isinstance(decision, Accepted)
        positions.append(Position(house.log.durable))
    assert positions == sorted(positions)
    decisions: list[Decision] = []
    house.read(lambda coordinator: decisions.append(Accepted(()))).wait()
    assert house.coordinator.durable == house.log.durable
    assert JobId("3") in house.coordinator.state.jobs
