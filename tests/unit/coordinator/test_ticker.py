"""Time alone: what comes due is recorded once, and nothing is looked at for ever."""

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decide.jobs import unknown
from holdfast.core.decision import Accepted
from holdfast.core.ids import Index, Instant, JobId, LeaseId, WorkerId
from holdfast.core.reports import Done
from holdfast.core.spec import JobSpec
from holdfast.testing.clock import ManualClock, SeededDice
from holdfast.testing.service import Service

W = WorkerId("w")


def a_service() -> tuple[Service, ManualClock]:
    clock = ManualClock()
    return Service(clock, SeededDice(1)), clock


def submit(service: Service, **limits: int) -> JobId:
    in_spec = {name: limits.pop(name) for name in list(limits) if name.endswith("timeout_ms")}
    spec = JobSpec(name="work", kind="function", target="work", **in_spec)  # type: ignore[arg-type]
    command = c.SubmitJob(spec=spec, items=(b"item",), **limits)  # type: ignore[arg-type]
    decision = service.do(command)
    assert isinstance(decision, Accepted)
    service.settle()
    return JobId(str(decision.answer))


def names(service: Service) -> list[str]:
    return [type(event).__name__ for record in service.records()[1:] for event in record.events]


def lease(service: Service, job_id: JobId, term_ms: int) -> None:
    command = c.GrantLeases(
        job_id=job_id, worker=W, incarnation=1, slot=0, indices=(Index(0),), term_ms=term_ms
    )
    assert isinstance(service.do(command), Accepted)
    service.settle()


def test_nothing_is_recorded_while_nothing_is_due() -> None:
    service, clock = a_service()
    submit(service, job_timeout_ms=5_000)
    clock.advance(4_999)
    service.settle()
    assert names(service) == ["JobSubmitted"]
    assert service.next_due() == clock.now() + 1


def test_a_job_that_took_too_long_is_stopped_in_one_record() -> None:
    service, clock = a_service()
    submit(service, job_timeout_ms=5_000)
    clock.advance(5_000)
    service.settle()
    assert names(service) == ["JobSubmitted", "JobCancelled", "TasksKilled"]


def test_a_task_that_nobody_took_in_time_is_unschedulable() -> None:
    service, clock = a_service()
    submit(service, schedule_timeout_ms=1_000)
    clock.advance(1_000)
    service.settle()
    assert names(service)[-1] == "TasksUnschedulable"


def test_a_deadline_is_judged_by_the_wall_clock() -> None:
    service, clock = a_service()
    submit(service, deadline_wall=clock.wall() + 60_000)
    clock.advance(1_000)
    service.settle()
    assert names(service) == ["JobSubmitted"]
    clock.move_wall(60_000)
    clock.advance(1_000)
    service.settle()
    assert names(service) == ["JobSubmitted", "JobCancelled", "TasksKilled"]


def test_a_dated_job_becomes_due_by_record_and_only_once() -> None:
    service, clock = a_service()
    submit(service, not_before_wall=clock.wall() + 60_000)
    clock.advance(60_000)
    service.settle()
    clock.advance(60_000)
    service.settle()
    assert names(service) == ["JobSubmitted", "JobDue"]


def test_the_wall_clock_is_looked_at_while_something_waits_for_it() -> None:
    service, clock = a_service()
    submit(service, not_before_wall=clock.wall() + 86_400_000)
    # It may be set at any moment, and nobody announces that.
    assert clock.now() < service.next_due() <= clock.now() + 1_000


def test_a_delayed_job_wakes_the_coordinator_in_time() -> None:
    service, clock = a_service()
    submit(service, delay_ms=700)
    assert service.next_due() == clock.now() + 700
    clock.advance(700)
    service.settle()
    # No worker is here to take it: it is in line, and nothing more is due for it.
    assert service.next_due() > clock.now()


def test_a_lease_that_ended_early_calls_nobody_when_its_time_comes() -> None:
    service, clock = a_service()
    job_id = submit(service)
    lease(service, job_id, 1_000)
    # Another one keeps the worker in the book.
    lease(service, submit(service), 5_000)
    done = Done(job_id, Index(0), LeaseId(1), 1, b"")
    service.do(c.CommitTasks(worker=W, incarnation=1, done=(done,)))
    service.settle()
    clock.advance(1_000)
    service.settle()
    assert service.next_due() > clock.now()
    assert not any(isinstance(x, e.AttemptsReturned) for r in service.records() for x in r.events)


class Watcher:
    """Somebody who holds on to a job, and does not care what becomes of it."""

    def __init__(self, job_id: JobId) -> None:
        self.job_id = job_id

    def __getattr__(self, name: str) -> object:
        return lambda *news: None


def test_a_finished_job_leaves_memory_after_its_hour_unless_somebody_holds_it() -> None:
    clock = ManualClock()
    service = Service(clock, SeededDice(1), keep_finished=0)
    jobs = [submit(service) for _ in range(3)]
    for job_id in jobs:
        service.do(c.KillJob(job_id=job_id))
    assert service.coordinator.watchers.add(Watcher(jobs[1]))  # type: ignore[arg-type]
    service.settle()
    clock.advance(3_599_000)
    service.settle()
    assert list(service.coordinator.state.jobs) == jobs
    clock.advance(61_000)
    service.settle()
    assert list(service.coordinator.state.jobs) == [jobs[1]]
    gone = unknown(service.coordinator.state, jobs[0])
    assert (gone.code, "holdfast job show 1 --data" in gone.message) == ("gone", True)
    # Its number is never given again, also after a restart.
    service.crash()
    assert submit(service) == "4"


def test_nothing_is_due_twice_at_the_same_moment() -> None:
    service, clock = a_service()
    for limit in ("job_timeout_ms", "schedule_timeout_ms", "delay_ms"):
        lease(service, submit(service), 3_000)
        submit(service, **{limit: 3_000})
    clock.advance(3_000)
    for _ in range(3):
        service.settle()
    assert service.next_due() > Instant(clock.now())
