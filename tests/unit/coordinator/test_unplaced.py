"""What is recorded with tasks that no worker took in time."""

from typing import Any

from holdfast.coordinator import unplaced
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.ids import JobId
from holdfast.core.job import JobState, job_state
from holdfast.core.spec import JobSpec
from holdfast.testing.clock import ManualClock, SeededDice
from holdfast.testing.post import Post
from holdfast.testing.service import Service


def a_service() -> tuple[Service, ManualClock]:
    clock = ManualClock()
    return Service(clock, SeededDice(1), term_ms=10_000), clock


def submit(service: Service, **wants: Any) -> JobId:
    spec = JobSpec(name="j", kind="k", target="t", schedule_timeout_ms=5_000, **wants)
    decision = service.do(c.SubmitJob(spec=spec, items=(b"",)))
    service.settle()
    return JobId(str(decision.answer))


def recorded(service: Service) -> dict[str, str]:
    return {
        event.job_id: event.reason
        for record in service.records()
        for event in record.events
        if isinstance(event, e.TasksUnschedulable)
    }


def test_resolution_000_13_what_nobody_took_in_time_is_recorded_with_every_reason() -> None:
    service, clock = a_service()
    worker = Post(service)
    first = submit(service, queue="slow")
    service.do(c.PauseQueue(queue="slow", reason="inventory"))
    large = submit(service, cpus_milli=64_000)
    worker.say(slots=1)
    service.settle()
    clock.advance(5_000)
    service.settle()
    assert {job: job_state(service.coordinator.state.jobs[job]) for job in (first, large)} == {
        first: JobState.UNSCHEDULABLE,
        large: JobState.UNSCHEDULABLE,
    }
    told = recorded(service)
    begin = "no worker took it before its scheduling deadline: "
    assert told[first] == f"{begin}Queue slow is paused: inventory."
    assert told[large] == f"{begin}It fits on no worker: it needs 64 cpus, and the most is 1 cpu."
    # What was said stays said: it is read from the log after a crash, and nobody is asked again.
    service.crash()
    assert recorded(service) == told


def test_no_more_is_recorded_than_a_record_should_hold(monkeypatch) -> None:
    monkeypatch.setattr(unplaced, "MOST_LETTERS", 60)
    monkeypatch.setattr(unplaced, "MOST_TOLD", 1)
    service, clock = a_service()
    first, second = submit(service), submit(service)
    clock.advance(5_000)
    service.settle()
    told = recorded(service)
    assert told[first] == "no worker took it before its scheduling deadline: No worker i"[:60]
    assert told[second] == "no worker took it before its scheduling deadline"
