"""Whatever follows for other jobs from the end of one is recorded before anything else."""

from typing import Any

from holdfast.core import commands as c
from holdfast.core.ids import Index, JobId, LeaseId, WorkerId
from holdfast.core.job import job_reason, job_state
from holdfast.core.placing import After
from holdfast.core.record import decode_record
from holdfast.core.reports import Done
from holdfast.core.spec import JobSpec
from holdfast.testing.clock import ManualClock, SeededDice
from holdfast.testing.service import Service

SPEC = JobSpec(name="work", kind="function", target="work")
P = JobId("p")


def a_service() -> Service:
    return Service(ManualClock(), SeededDice(1))


def submit(service: Service, job_id: str, **ties: Any) -> None:
    command = c.SubmitJob(job_id=JobId(job_id), spec=SPEC, count=1, **ties)
    service.do(command)


def commit(service: Service, job_id: JobId = P) -> None:
    worker = WorkerId("w")
    lease = LeaseId(service.coordinator.state.next_lease)
    service.do(
        c.GrantLeases(
            job_id=job_id, worker=worker, incarnation=1, slot=0, indices=(Index(0),), term_ms=0
        )
    )
    done = (Done(job_id, Index(0), lease, 0, b"r"),)
    service.do(c.CommitTasks(worker=worker, incarnation=1, done=done))


def commands(service: Service) -> list[str]:
    """What the next frame holds."""
    batch = service.coordinator.take_batch()
    return [] if batch is None else [decode_record(data).command for data in batch.records]


def test_an_end_and_what_follows_from_it_are_in_one_frame() -> None:
    service = a_service()
    submit(service, "p")
    submit(service, "j", after=(After(P),))
    submit(service, "k", after=(After(JobId("j"), condition="finish"),))
    submit(service, "child", parent=P)
    commands(service)
    commit(service)
    assert commands(service) == ["GrantLeases", "CommitTasks", "SettleTies"]
    jobs = service.coordinator.state.jobs
    assert not jobs[JobId("j")].blocked
    assert jobs[JobId("k")].blocked
    assert job_reason(jobs[JobId("child")]) == "parent_ended"


def test_a_line_of_failures_is_settled_to_its_end() -> None:
    service = a_service()
    submit(service, "j0")
    for number in range(1, 5):
        submit(service, f"j{number}", after=(After(JobId(f"j{number - 1}")),))
    commands(service)
    service.do(c.KillJob(job_id=JobId("j0")))
    assert commands(service) == ["KillJob", *["SettleTies"] * 4]
    states = [job_state(job) for job in service.coordinator.state.jobs.values()]
    assert states == ["KILLED", *["FAILED"] * 4]


def test_many_are_settled_in_records_of_a_bounded_size() -> None:
    service = a_service()
    submit(service, "p")
    for number in range(2_500):
        submit(service, f"j{number}", after=(After(P),))
    commands(service)
    commit(service)
    assert commands(service)[2:] == ["SettleTies"] * 3
    assert not any(job.blocked for job in service.coordinator.state.jobs.values())
    service.check()
    assert service.troubles == []


def test_a_job_that_is_not_tied_costs_no_record() -> None:
    service = a_service()
    submit(service, "p")
    submit(service, "q")
    submit(service, "j", after=(After(JobId("q")),))
    commands(service)
    commit(service)
    assert commands(service) == ["GrantLeases", "CommitTasks"]
    assert service.coordinator.state.unsettled == {}


def test_what_a_crash_cut_off_is_settled_when_the_log_is_opened_again() -> None:
    for by_snapshot in (False, True):
        service = a_service()
        submit(service, "p")
        submit(service, "j", after=(After(P),))
        commit(service)
        batch = service.coordinator.take_batch()
        assert batch is not None
        assert decode_record(batch.records[-1]).command == "SettleTies"
        service.log.append(batch.records[:-1], at=batch.at, wall=batch.wall)
        service.log.sync()
        service.crash(by_snapshot=by_snapshot)
        assert not service.coordinator.state.jobs[JobId("j")].blocked
        assert [record.command for record in service.records()][-2:] == ["OpenLog", "SettleTies"]
