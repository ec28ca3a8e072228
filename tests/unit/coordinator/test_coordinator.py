"""The one writer: nothing comes out before it is durable, nothing malformed gets in."""

import pytest

from holdfast.coordinator.coordinator import FRAME_BYTES, RECORD_BYTES_MAX
from holdfast.coordinator.portions import COMMIT_BYTES
from holdfast.coordinator.watch import JobNow
from holdfast.core import commands as c
from holdfast.core.decision import Accepted, Decision, Refused
from holdfast.core.errors import BrokenInvariant, LogFailed
from holdfast.core.ids import Index, JobId, Position, WorkerId
from holdfast.core.spec import JobSpec
from holdfast.core.state import State
from holdfast.core.task import TaskState
from holdfast.testing.clock import ManualClock, SeededDice
from holdfast.testing.service import Service
from holdfast.wal.frames import PAYLOAD_CAP
from holdfast.wire.contents import INLINE_BYTES

SPEC = JobSpec(name="work", kind="function", target="work")
SUBMIT = c.SubmitJob(spec=SPEC, key="k", digest=b"d", items=(b"item",))


class Diary:
    """A feed that writes down what it is told."""

    def __init__(self, job_id: str) -> None:
        self.job_id = JobId(job_id)
        self.lines: list[str] = []

    def begin(self, now: JobNow) -> None:
        self.lines.append(f"begin {len(now.states)} {now.sealed} {now.ended}".rstrip())

    def grown(self, count: int, sealed: bool) -> None:
        self.lines.append(f"grown {count} {sealed}")

    def finished(self, indices: list[Index], state: TaskState, position: Position) -> None:
        self.lines.append(f"finished {list(indices)} {state.name}")

    def reopened(self, indices: list[Index]) -> None:
        self.lines.append(f"reopened {indices}")

    def ended(self, state: str, reason: str) -> None:
        self.lines.append(f"ended {state} {reason}".rstrip())

    def broken(self, error: Exception) -> None:
        self.lines.append(f"broken {error}")


@pytest.fixture
def service() -> Service:
    return Service(ManualClock(), SeededDice(1))


def ask(service: Service, command: c.Command) -> list[Decision]:
    told: list[Decision] = []
    service.ask(command, told.append)
    return told


def test_a_submit_is_answered_when_it_is_durable_and_not_before(service: Service) -> None:
    told = ask(service, SUBMIT)
    service.turn()
    assert told == []
    service.synced()
    assert [decision.answer for decision in told if isinstance(decision, Accepted)] == ["1"]


def test_what_comes_in_while_a_frame_is_synced_waits_for_the_next_one(service: Service) -> None:
    first = ask(service, SUBMIT)
    service.turn()
    second = ask(service, c.SubmitJob(spec=SPEC, items=(b"more",)))
    assert not service.turn()
    service.synced()
    assert (len(first), len(second)) == (1, 0)
    service.settle()
    assert len(second) == 1


def test_a_repeat_waits_for_what_it_repeats(service: Service) -> None:
    service.do(SUBMIT)
    told = ask(service, SUBMIT)
    service.turn()
    assert told == []
    service.synced()
    assert [decision.answer for decision in told if isinstance(decision, Accepted)] == ["1"]


def test_a_refusal_waits_for_what_it_rests_on(service: Service) -> None:
    service.do(SUBMIT)
    told = ask(service, c.SubmitJob(spec=SPEC, key="k", digest=b"other", items=(b"item",)))
    service.turn()
    assert told == []
    service.synced()
    assert [decision.code for decision in told if isinstance(decision, Refused)] == ["key_reused"]


def test_a_read_waits_for_what_it_saw(service: Service) -> None:
    service.do(SUBMIT)
    counted: list[int] = []
    jobs = len(service.coordinator.state.jobs)
    service.coordinator.answer(lambda: counted.append(jobs), pytest.fail)
    service.turn()
    assert counted == []
    service.synced()
    assert counted == [1]


def test_an_answer_that_needs_no_record_leaves_at_once(service: Service) -> None:
    told = ask(service, c.KillJob(job_id=JobId("7")))
    service.turn()
    assert [decision.code for decision in told if isinstance(decision, Refused)] == ["not_found"]


def test_watchers_hear_of_a_change_when_it_is_durable(service: Service) -> None:
    service.do(SUBMIT)
    diary = Diary("1")
    assert service.coordinator.watchers.add(diary)
    service.turn()
    assert diary.lines == []
    service.synced()
    assert diary.lines == ["begin 1 True"]
    service.do(c.KillJob(job_id=JobId("1")))
    service.turn()
    assert diary.lines == ["begin 1 True"]
    service.synced()
    assert diary.lines[1:] == ["grown 1 True", "finished [0] KILLED", "ended KILLED cancelled"]


def test_nobody_watches_a_job_that_is_not_there(service: Service) -> None:
    assert not service.coordinator.watchers.add(Diary("9"))
    assert service.coordinator.watchers.held() == frozenset()


def test_who_stops_watching_hears_no_more(service: Service) -> None:
    service.do(SUBMIT)
    diary, other = Diary("1"), Diary("1")
    watchers = service.coordinator.watchers
    watchers.add(diary)
    watchers.add(other)
    service.settle()
    watchers.remove(diary)
    assert watchers.held() == {"1"}
    service.do(c.KillJob(job_id=JobId("1")))
    service.settle()
    assert (len(diary.lines), len(other.lines)) == (1, 4)
    watchers.remove(other)
    assert watchers.held() == frozenset()


def test_after_a_failure_everyone_who_waits_is_told_and_nothing_is_accepted(
    service: Service,
) -> None:
    service.do(c.SubmitJob(spec=SPEC, items=(b"item",)))
    diary = Diary("1")
    service.coordinator.watchers.add(diary)
    told: list[Exception] = []
    service.coordinator.answer(lambda: pytest.fail("acknowledged"), told.append)
    failure = LogFailed("the disk is gone")
    service.coordinator.fail(failure)
    assert told == [failure]
    assert diary.lines == ["broken the disk is gone"]
    with pytest.raises(LogFailed):
        service.do(SUBMIT)
    service.coordinator.answer(lambda: pytest.fail("acknowledged"), told.append)
    assert told == [failure, failure]


def test_a_value_that_could_never_be_read_again_is_refused_and_not_written(
    service: Service,
) -> None:
    decision = service.do(c.SubmitJob(spec=SPEC, key=5, items=(b"item",)))  # type: ignore[arg-type]
    assert isinstance(decision, Refused)
    assert decision.code == "invalid"
    assert "`str`" in decision.message
    assert service.coordinator.refusals == {"invalid": 1}
    assert service.coordinator.take_batch() is None
    assert service.coordinator.state.jobs == {}


@pytest.mark.parametrize(
    "command",
    [
        c.SubmitJob(spec=SPEC, items=(b"item",), count="many"),  # type: ignore[arg-type]
        c.SubmitJob(spec=SPEC, key="\ud800", items=(b"item",)),
        c.SubmitJob(spec=SPEC, items=(object(),)),  # type: ignore[arg-type]
        c.RetryTasks(job_id=JobId("1"), indices=("first",)),  # type: ignore[arg-type]
        c.KillTasks(job_id=JobId("1"), indices=(0.5,)),  # type: ignore[arg-type]
    ],
)
def test_a_malformed_request_harms_nobody_but_its_asker(
    service: Service, command: c.Command
) -> None:
    service.do(c.SubmitJob(spec=SPEC, items=(b"item",)))
    before = service.coordinator.state.position
    try:
        decision = service.do(command)
    except (TypeError, ValueError, OverflowError):
        decision = None
    assert not isinstance(decision, Accepted)
    assert (service.coordinator.failure, service.coordinator.state.position) == (None, before)
    assert isinstance(service.do(SUBMIT), Accepted)


def test_broken_history_stops_the_coordinator(service: Service) -> None:
    grant = c.GrantLeases(
        job_id=JobId("1"), worker=WorkerId("w"), incarnation=1, slot=0,
        indices=(Index(0),), term_ms=0,
    )  # fmt: skip
    service.do(SUBMIT)
    service.do(grant)
    # Memory loses a job whose task is still held: nothing that follows can be trusted.
    del service.coordinator.state.jobs[JobId("1")]
    with pytest.raises(BrokenInvariant):
        service.do(c.LoseWorker(worker=WorkerId("w"), incarnation=1, error="gone"))
    assert isinstance(service.coordinator.failure, BrokenInvariant)


def test_log_time_does_not_go_back_when_the_clock_does() -> None:
    clock = ManualClock(5_000)
    service = Service(clock, SeededDice(1))
    service.do(SUBMIT)
    service.settle()
    service.clock = ManualClock(1_000)
    service.crash()
    assert service.coordinator.now() == 5_000
    assert service.troubles == []


def test_a_record_can_be_read_before_during_and_after_its_writing(service: Service) -> None:
    def command_at(position: int) -> str:
        return service.record(Position(position)).command

    service.do(SUBMIT)
    assert command_at(2) == "SubmitJob"
    service.turn()
    service.do(c.KillJob(job_id=JobId("1")))
    assert (command_at(2), command_at(3)) == ("SubmitJob", "KillJob")
    service.synced()
    assert (command_at(1), command_at(2), command_at(3)) == ("OpenLog", "SubmitJob", "KillJob")


def test_an_empty_state_has_nothing_to_write() -> None:
    service = Service(ManualClock(), SeededDice(1))
    assert isinstance(service.coordinator.state, State)
    assert service.coordinator.take_batch() is None
    assert service.coordinator.has_nothing_pending()


def test_what_has_gathered_beyond_a_frame_waits_for_the_next(service: Service) -> None:
    large = c.SubmitJob(spec=SPEC, items=(b"x" * (FRAME_BYTES // 2),))
    first, second = ask(service, large), ask(service, large)
    assert service.turn()
    service.synced()
    assert (len(first), len(second)) == (1, 0)
    assert service.turn()
    service.synced()
    assert len(second) == 1


def test_a_record_that_no_frame_could_hold_is_refused(service: Service) -> None:
    service.settle()
    before = service.coordinator.state.position
    refused = service.do(c.SubmitJob(spec=SPEC, items=(b"x" * RECORD_BYTES_MAX,)))
    assert isinstance(refused, Refused)
    assert refused.code == "too_large"
    assert service.coordinator.state.position == before


def test_what_goes_into_a_record_fits_and_the_largest_record_fits_into_a_frame() -> None:
    assert INLINE_BYTES < COMMIT_BYTES < RECORD_BYTES_MAX
    assert max(FRAME_BYTES, RECORD_BYTES_MAX) < PAYLOAD_CAP
