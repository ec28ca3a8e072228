"""What hangs is found at its time and not before, and set right once: the real coordinator, a
clock that moves when told to, and workers that say what the test has them say."""

from typing import Any

import pytest
from msgspec import structs

from holdfast.coordinator.crews import LiveCrew
from holdfast.coordinator.settings import ASK, Settings
from holdfast.coordinator.surroundings import Surroundings
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.ids import Index, JobId, LeaseId
from holdfast.core.job import state_of
from holdfast.core.placing import WAIT, After
from holdfast.core.spec import JobSpec
from holdfast.core.task import TaskState
from holdfast.scheduler.explain import explain
from holdfast.scheduler.stalls import GRACE_MS
from holdfast.testing.clock import ManualClock, SeededDice
from holdfast.testing.owing import COURIER, Runner, effect
from holdfast.testing.owing import a_service as an_owing_service
from holdfast.testing.post import Post
from holdfast.testing.service import Service
from holdfast.wire.exchange import Done, Failed, Progress, Started

TERM_MS = 15_000
TIMEOUT_MS = 600_000
STEP_MS = 5_000
SPEC = JobSpec(name="work", kind="function", target="work", retries=1)


class Yard:
    """A coordinator with one worker, which keeps exchanging as a real one does."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.clock = ManualClock()
        self.service = Service(
            self.clock, SeededDice(1), term_ms=TERM_MS, settings=settings or Settings()
        )
        self.worker = Post(self.service)
        self.worker.hear(slots=1)
        self.held: tuple[int, ...] = ()

    @property
    def stalls(self) -> Any:
        return self.service.stalls

    def submit(self, job_id: str = "j", **words: Any) -> None:
        spec = structs.replace(SPEC, **words)
        self.service.do(c.SubmitJob(job_id=JobId(job_id), spec=spec, count=1))
        self.worker.say(held=self.held)
        self.service.settle()

    def submit_after(self, job_id: str, *after: After) -> None:
        """One that waits for these, whatever becomes of them."""
        waits = c.SubmitJob(job_id=JobId(job_id), spec=SPEC, count=1, after=after, fate=WAIT)
        self.service.do(waits)

    def fail(self, job_id: str) -> None:
        """The worker tells that the task it was given has failed."""
        (task,) = (self.service.coordinator.state.jobs[JobId(job_id)].tasks or {}).values()
        failed = Failed(task.job_id, task.index, task.lease_id, 1, "failed", "boom", "", None)
        self.worker.say(held=(task.lease_id,), failed=(failed,))
        self.service.settle()

    def begin(self) -> int:
        """The worker is given the task and has begun it; the lease it holds."""
        task = next(iter((self.service.coordinator.state.jobs[JobId("j")].tasks or {}).values()))
        self.held = (task.lease_id,)
        started = (Started(task.job_id, task.index, task.lease_id, 0),)
        self.worker.say(held=self.held, started=started)
        self.service.settle()
        return task.lease_id

    def tell(self, lease_id: int) -> None:
        told = (Progress(LeaseId(lease_id), 1, 10, ""),)
        self.worker.say(held=self.held, progress=told)
        self.service.settle()

    def pass_time(self, ms: int) -> None:
        """So much time passes; the worker renews all the while."""
        until = self.clock.now() + ms
        while self.clock.now() < until:
            self.clock.advance(min(STEP_MS, until - self.clock.now()))
            self.worker.say(held=self.held)
            self.service.settle()
        self.service.check()
        assert self.service.troubles == []

    def state(self, job_id: str = "j") -> TaskState:
        return state_of(self.service.coordinator.state.jobs[JobId(job_id)], Index(0))

    def ends(self) -> list[e.End]:
        kinds = (e.AttemptsReturned, e.TasksQuarantined)
        found = [event for record in self.service.records() for event in record.events]
        return [end for event in found if isinstance(event, kinds) for end in event.ends]


def test_resolution_001_06_an_attempt_that_takes_half_an_hour_and_tells_nothing_is_alive() -> None:
    yard = Yard()
    yard.submit()
    yard.begin()
    yard.pass_time(1_800_000)
    assert yard.state() is TaskState.RUNNING
    assert yard.stalls.current() == []
    assert yard.ends() == []


def test_001_86_stall_detection_counts_from_the_last_progress() -> None:
    yard = Yard(Settings(stall_recovery=ASK))
    yard.submit()
    lease_id = yard.begin()
    yard.pass_time(300_000)
    yard.tell(lease_id)
    told_at = yard.clock.now()
    yard.pass_time(TIMEOUT_MS - STEP_MS)
    assert yard.stalls.current() == []
    yard.pass_time(STEP_MS + yard.stalls.every_ms)
    (stall,) = yard.stalls.current()
    assert (stall.id, stall.kind, stall.since) == ("j/0:1", "no_progress", told_at)
    assert stall.lease_id == lease_id
    assert yard.stalls.counts()["no_progress"] == 1


def test_001_87_stall_recovery_is_automatic_charged_and_delayed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "holdfast")
    yard = Yard()
    yard.submit()
    yard.tell(yard.begin())
    yard.pass_time(TIMEOUT_MS + yard.stalls.every_ms)
    (end,) = yard.ends()
    assert (end.reason, end.charged) == ("timed_out", "failures")
    assert "it stalled (no_progress)" in end.error
    assert yard.state() is TaskState.WAITING
    assert yard.worker.replies[-1].stops[0].lease_id == end.lease_id, "the worker is told to stop"
    said = [(vars(line).get("event"), line.levelname) for line in caplog.records]
    assert said == [("stall_found", "WARNING"), ("recovered", "INFO")]
    assert vars(caplog.records[0])["age_s"] >= TIMEOUT_MS / 1_000
    yard.held = ()
    recovered_at = end.not_before - 60_000
    while yard.state() is TaskState.WAITING:
        yard.pass_time(STEP_MS)
    assert yard.clock.now() - recovered_at >= 60_000
    yard.tell(yard.begin())
    yard.pass_time(TIMEOUT_MS + yard.stalls.every_ms)
    assert yard.state() is TaskState.QUARANTINED
    assert yard.stalls.recovered == {"no_progress": 2}


@pytest.mark.parametrize("timeout_ms", [20_000, 60_000, 900_000])
def test_001_88_stall_timeout_tuning_decides_when_a_stall_is_one(timeout_ms: int) -> None:
    yard = Yard(Settings(stall_ms=timeout_ms, stall_recovery=ASK))
    yard.submit()
    yard.tell(yard.begin())
    yard.pass_time(timeout_ms - STEP_MS)
    assert yard.stalls.current() == []
    yard.pass_time(STEP_MS + yard.stalls.every_ms)
    assert [stall.kind for stall in yard.stalls.current()] == ["no_progress"]


def test_001_88_a_timeout_of_nothing_looks_for_nothing() -> None:
    yard = Yard(Settings(stall_ms=0))
    yard.submit()
    yard.tell(yard.begin())
    yard.pass_time(2 * TIMEOUT_MS)
    assert yard.state() is TaskState.RUNNING
    assert yard.stalls.next_due() == 0


def test_a_job_that_allows_less_is_ended_from_here_when_its_worker_does_not() -> None:
    yard = Yard()
    yard.submit(stall_ms=10_000)
    yard.begin()
    yard.pass_time(10_000)
    assert yard.state() is TaskState.RUNNING, "that is the worker's to do"
    yard.pass_time(GRACE_MS + yard.stalls.every_ms)
    assert [end.reason for end in yard.ends()] == ["timed_out"]


def test_a_command_that_may_be_printing_is_left_to_its_worker() -> None:
    yard = Yard()
    yard.submit(stall_ms=10_000, kind="command")
    yard.begin()
    yard.pass_time(TIMEOUT_MS)
    assert yard.state() is TaskState.RUNNING


def test_a_lease_is_too_old_when_its_own_timeout_passed_and_nobody_ended_it() -> None:
    yard = Yard(Settings(stall_recovery=ASK))
    yard.submit(timeout_ms=30_000)
    yard.begin()
    yard.pass_time(TIMEOUT_MS)
    assert yard.stalls.current() == []
    yard.pass_time(30_000 + yard.stalls.every_ms)
    assert [stall.kind for stall in yard.stalls.current()] == ["lease_age"]


def test_a_lease_that_nobody_begins_is_too_old_and_comes_back_free_of_charge() -> None:
    yard = Yard(Settings(stall_ms=20_000))
    yard.submit()
    task = (yard.service.coordinator.state.jobs[JobId("j")].tasks or {})[Index(0)]
    yard.held = (task.lease_id,)
    yard.pass_time(30_000)
    assert [(end.reason, end.charged) for end in yard.ends()] == [("undelivered", "")]


def test_what_could_not_be_heard_while_the_coordinator_was_away_is_no_stall() -> None:
    yard = Yard(Settings(stall_ms=60_000))
    yard.submit()
    yard.tell(yard.begin())
    yard.clock.advance(3_600_000)
    yard.worker.say(held=yard.held)
    yard.service.settle()
    assert yard.state() is TaskState.RUNNING
    yard.pass_time(50_000)
    assert yard.state() is TaskState.RUNNING
    yard.pass_time(30_000)
    assert [end.reason for end in yard.ends()] == ["timed_out"]


def test_after_a_restart_the_time_of_silence_begins_anew() -> None:
    yard = Yard(Settings(stall_ms=60_000))
    yard.submit(stall_ms=60_000)
    yard.begin()
    yard.pass_time(50_000)
    yard.service.crash()
    yard.pass_time(60_000)
    assert yard.state() is TaskState.RUNNING


def test_asked_first_a_stall_waits_for_approval_and_the_reason_is_recorded() -> None:
    yard = Yard(Settings(stall_recovery=ASK))
    yard.submit()
    yard.tell(yard.begin())
    yard.pass_time(2 * TIMEOUT_MS)
    assert yard.state() is TaskState.RUNNING
    (outcome,) = yard.stalls.approve(["j/0:1"], actor="ann", reason="it is dead")
    yard.service.settle()
    assert outcome.outcome == "recovered"
    record = yard.service.records()[-1]
    assert (record.command, record.actor, record.reason) == (
        "RecoverStalled", "ann", "it is dead",
    )  # fmt: skip
    assert yard.stalls.current() == []
    (again,) = yard.stalls.approve(["j/0:1"], actor="ann", reason="")
    assert again.outcome == "not_stalled"


def test_a_completion_that_comes_before_the_approval_wins() -> None:
    yard = Yard(Settings(stall_recovery=ASK))
    yard.submit()
    lease_id = yard.begin()
    yard.tell(lease_id)
    yard.pass_time(2 * TIMEOUT_MS)
    done = (Done(JobId("j"), Index(0), LeaseId(lease_id), 0, b"r"),)
    yard.worker.say(done=done)
    (outcome,) = yard.stalls.approve(["j/0:1"], actor="ann", reason="")
    assert outcome.outcome == "moved_on"
    assert yard.state() is TaskState.SUCCEEDED
    assert yard.ends() == []


def test_a_completion_that_comes_after_the_recovery_is_late() -> None:
    yard = Yard(Settings(stall_recovery=ASK))
    yard.submit()
    lease_id = yard.begin()
    yard.tell(lease_id)
    yard.pass_time(2 * TIMEOUT_MS)
    yard.stalls.approve(["j/0:1"], actor="ann", reason="")
    done = (Done(JobId("j"), Index(0), LeaseId(lease_id), 0, b"r"),)
    yard.worker.say(done=done)
    yard.service.settle()
    told = [verdict for reply in yard.worker.replies for verdict in reply.verdicts]
    assert [(verdict.lease_id, verdict.verdict) for verdict in told] == [(lease_id, "LEASE_LOST")]
    assert yard.state() is TaskState.WAITING


def test_a_job_that_waits_for_a_retry_of_what_failed_is_a_deadlock() -> None:
    yard = Yard()
    yard.submit("first", retries=0)
    yard.submit_after("second", After(JobId("first")))
    yard.fail("first")
    yard.pass_time(TIMEOUT_MS - STEP_MS)
    assert yard.stalls.current() == []
    yard.pass_time(STEP_MS + yard.stalls.every_ms)
    (stall,) = yard.stalls.current()
    assert (stall.id, stall.kind) == ("second", "dependency_deadlock")
    assert stall.command == "holdfast job retry first"
    (outcome,) = yard.stalls.approve(["second"], actor="ann", reason="")
    assert (outcome.outcome, outcome.command) == ("not_recoverable", "holdfast job retry first")


@pytest.mark.parametrize("end", ["cancelled", "beside one that failed"])
def test_a_job_that_waits_for_what_no_retry_sends_back_is_to_be_cancelled(end: str) -> None:
    yard = Yard()
    yard.submit("first", retries=0)
    yard.submit("gone")
    firsts = [After(JobId("first"))] if end == "beside one that failed" else []
    yard.submit_after("second", *firsts, After(JobId("gone")))
    yard.fail("first")
    yard.service.do(c.KillJob(job_id=JobId("gone")))
    yard.pass_time(TIMEOUT_MS + yard.stalls.every_ms)
    (stall,) = yard.stalls.current()
    assert (stall.id, stall.command) == ("second", "holdfast job cancel second")
    state = yard.service.coordinator.state
    crew = LiveCrew(state, yard.service.exchanges)
    around = Surroundings(state, yard.clock.now(), yard.clock.wall(), crew)
    told = explain(around.situation(state.jobs[JobId("second")], Index(0)))
    failed = [each.command for each in told if each.code == "dependency_failed"]
    assert failed == ["holdfast job cancel second"]


def test_a_child_that_comes_after_its_own_parent_can_never_begin() -> None:
    yard = Yard()
    yard.submit("parent", cpus_milli=64_000)
    between = (After(JobId("parent")),)
    yard.service.do(c.SubmitJob(job_id=JobId("b"), spec=SPEC, count=1, after=between))
    tied = {"after": (After(JobId("b")),), "parent": JobId("parent")}
    yard.service.do(c.SubmitJob(job_id=JobId("child"), spec=SPEC, count=1, **tied))
    yard.pass_time(TIMEOUT_MS + yard.stalls.every_ms)
    (stall,) = yard.stalls.current()
    assert (stall.id, stall.kind) == ("child", "dependency_deadlock")
    assert stall.command == "holdfast job cancel child"


def test_a_task_that_would_be_given_out_at_every_look_and_is_not_is_found(monkeypatch) -> None:
    yard = Yard()
    monkeypatch.setattr(yard.service.exchanges.placement, "give_out", lambda *given: {})
    yard.submit()
    yard.pass_time(TIMEOUT_MS + 2 * yard.stalls.every_ms)
    (stall,) = yard.stalls.current()
    assert (stall.id, stall.kind, stall.task) == ("j", "capacity_free", "j/0")
    monkeypatch.undo()
    yard.pass_time(yard.stalls.every_ms)
    assert yard.stalls.current() == []


def test_a_task_that_something_holds_back_is_no_stall() -> None:
    yard = Yard()
    yard.service.do(c.PauseQueue(queue="default", reason="inventory"))
    yard.submit()
    yard.submit("large", cpus_milli=64_000)
    yard.pass_time(2 * TIMEOUT_MS)
    assert yard.stalls.current() == []


def test_a_sink_where_nothing_arrives_is_found_and_one_that_moves_is_not() -> None:
    service = an_owing_service()
    job_id = Runner(service).commit((effect("ann"), effect("bob")))
    courier = Post(service, name="courier")
    (parcel,) = courier.hear(hello=COURIER, slots=0).parcels
    names = tuple(each.name for each in parcel.deliveries)

    def pass_time(ms: int, carrying: tuple[Any, ...]) -> None:
        clock: Any = service.clock
        for _ in range(ms // STEP_MS):
            clock.advance(STEP_MS)
            courier.say(slots=0, carrying=carrying)
            service.settle()

    pass_time(TIMEOUT_MS - STEP_MS, names)
    courier.say(slots=0, delivered=names[:1], carrying=names[1:])
    service.settle()
    pass_time(TIMEOUT_MS, names[1:])
    assert service.stalls.current() == []
    pass_time(2 * service.stalls.every_ms, names[1:])
    (stall,) = service.stalls.current()
    assert (stall.id, stall.kind) == (f"{job_id}/0.1", "sink_stuck")
    assert stall.worker == "courier"
