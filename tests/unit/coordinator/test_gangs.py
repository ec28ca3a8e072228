"""Gangs through the coordinator: leased together, committed in one record, fallen together."""

from typing import Any

from holdfast.core import commands as c
from holdfast.core.decision import Accepted
from holdfast.core.ids import Index, JobId, LeaseId
from holdfast.core.placing import Placing
from holdfast.core.spec import JobSpec
from holdfast.core.task import TaskState
from holdfast.testing.clock import ManualClock, SeededDice
from holdfast.testing.post import Post
from holdfast.testing.service import Service
from holdfast.wire.exchange import Done, Failed, Hello

GANG = Placing(gang=True)


def a_service() -> Service:
    return Service(ManualClock(), SeededDice(1), term_ms=10_000)


def submit(service: Service, count: int, placing: Placing = GANG, **wants: Any) -> JobId:
    spec = JobSpec(name="work", kind="function", target="work", placing=placing, **wants)
    items = tuple(b"%d" % n for n in range(count))
    decision = service.do(c.SubmitJob(spec=spec, items=items))
    assert isinstance(decision, Accepted), decision
    service.settle()
    return JobId(str(decision.answer))


def done(job_id: JobId, index: int, lease: int) -> tuple[Done, ...]:
    return (Done(job_id, Index(index), LeaseId(lease), 1, b"r%d" % index),)


def failed(job_id: JobId, index: int, lease: int) -> tuple[Failed, ...]:
    return (Failed(job_id, Index(index), LeaseId(lease), 1, "failed", "no", "", None),)


def leases(worker: Post) -> list[int]:
    return [i.lease_id for reply in worker.replies for run in reply.runs for i in run.items]


def arrive(service: Service, name: str, slots: int = 1) -> Post:
    """A worker that says who it is, and waits."""
    worker = Post(service, name=name)
    worker.say(slots=slots, hello=Hello("host", 1, "1"))
    service.settle()
    return worker


def pair(service: Service) -> tuple[Post, Post]:
    """Two workers of one slot that were given a gang of two."""
    one, two = arrive(service, "one"), arrive(service, "two")
    assert sorted((*leases(one), *leases(two))) == [1, 2]
    return (one, two) if leases(one) == [1] else (two, one)


def states(service: Service, job_id: JobId) -> list[int]:
    return list(service.coordinator.state.jobs[job_id].states)


def test_a_gang_waits_until_all_of_it_fits() -> None:
    service = a_service()
    submit(service, 2)
    one = arrive(service, "one")
    assert leases(one) == []
    two = arrive(service, "two")
    assert sorted((*leases(one), *leases(two))) == [1, 2]


def test_results_are_kept_unanswered_until_the_last_and_become_one_record() -> None:
    service = a_service()
    gang = submit(service, 2)
    one, two = pair(service)
    reply = one.hear(done=done(gang, 0, 1))
    assert (reply.verdicts, reply.kept) == ((), (1,))
    before = service.coordinator.state.position
    one.say(held=(1,))
    service.settle()
    assert service.coordinator.state.position == before, "nothing of it may be recorded yet"
    assert two.hear(done=done(gang, 1, 2)).kept == ()
    assert service.coordinator.state.position == before + 1
    assert states(service, gang) == [TaskState.SUCCEEDED] * 2
    told = [(stop.lease_id, stop.verdict) for reply in one.replies for stop in reply.stops]
    assert told == [(1, "COMMITTED")]


def test_when_a_member_ends_first_every_result_is_dropped_and_all_are_told() -> None:
    service = a_service()
    gang = submit(service, 2, retries=1)
    one, two = pair(service)
    one.hear(done=done(gang, 0, 1))
    one.say(held=(1,))
    two.hear(failed=failed(gang, 1, 2))
    told = [(stop.lease_id, stop.verdict) for reply in one.replies for stop in reply.stops]
    assert told == [(1, "LEASE_LOST")]
    tasks = service.coordinator.state.jobs[gang].tasks or {}
    assert [(task.failures, task.attempt) for task in tasks.values()] == [(0, 1), (1, 1)]
    assert len({task.not_before for task in tasks.values()}) == 1, "they return together"
    # A result that comes late is nobody's: it must not join the next attempt's.
    assert [v.verdict for v in one.hear(done=done(gang, 0, 1)).verdicts] == ["LEASE_LOST"]


def test_leases_are_renewed_while_a_result_is_kept() -> None:
    service = a_service()
    gang = submit(service, 2)
    one, two = pair(service)
    one.hear(done=done(gang, 0, 1))
    for _ in range(6):
        clock = service.clock
        assert isinstance(clock, ManualClock)
        clock.advance(1_000)
        service.coordinator.excuse_absence()
    one.say(held=(1,))
    two.say(held=(2,))
    service.settle()
    tasks = service.coordinator.state.jobs[gang].tasks or {}
    assert all(task.expires_at > service.clock.now() + 9_000 for task in tasks.values())
    two.hear(done=done(gang, 1, 2))
    assert states(service, gang) == [TaskState.SUCCEEDED] * 2


def test_after_a_restart_a_worker_that_tells_again_completes_the_gang() -> None:
    service = a_service()
    gang = submit(service, 2)
    one, two = pair(service)
    one.hear(done=done(gang, 0, 1))
    service.crash(frame_survives=True)
    # Whoever is asked who it is tells what was kept once more.
    again = [Post(service, name=post.name) for post in (one, two)]
    again[0].number, again[1].number = 10, 10
    again[0].hear(held=(1,))
    assert again[0].replies[-1].who
    again[1].hear(held=(2,))
    again[0].hear(done=done(gang, 0, 1))
    again[1].hear(done=done(gang, 1, 2))
    assert states(service, gang) == [TaskState.SUCCEEDED] * 2


def test_a_member_is_never_leased_behind_another_task() -> None:
    service = a_service()
    worker = arrive(service, "one", slots=2)
    submit(service, 1, Placing())
    worker.say(slots=2, held=(1,))
    service.settle()
    submit(service, 2)
    assert leases(worker) == [1]
