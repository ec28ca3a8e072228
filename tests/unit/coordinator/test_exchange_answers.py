"""No word of the coordinator to a worker overtakes the disk."""

from collections.abc import Callable

import pytest

from holdfast.coordinator.portions import COMMIT_BYTES
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.ids import Index, JobId, LeaseId
from holdfast.core.spec import JobSpec
from holdfast.testing.clock import ManualClock, SeededDice
from holdfast.testing.post import Post
from holdfast.testing.service import Service
from holdfast.wire.exchange import Done, Started

Saying = Callable[[Post, JobId], None]


def done(job_id: JobId, index: int, lease: int) -> Done:
    return Done(job_id, Index(index), LeaseId(lease), 1, b"result")


def say_started(worker: Post, job_id: JobId) -> None:
    worker.say(held=(1,), started=(Started(job_id, Index(0), LeaseId(1), 0),))


def say_done(worker: Post, job_id: JobId) -> None:
    worker.say(done=(done(job_id, 0, 1),))


def say_again(worker: Post, job_id: JobId) -> None:
    say_done(worker, job_id)
    worker.service.turn()
    worker.say(number=worker.number, done=(done(job_id, 0, 1),))


def say_as_a_former_self(worker: Post, job_id: JobId) -> None:
    Post(worker.service, incarnation=2).say()
    worker.say(done=(done(job_id, 0, 1),))


@pytest.mark.parametrize("saying", [say_started, say_done, say_again, say_as_a_former_self])
def test_no_answer_leaves_before_all_it_rests_on_is_durable(saying: Saying) -> None:
    service = Service(ManualClock(), SeededDice(1), term_ms=10_000)
    spec = JobSpec(name="work", kind="function", target="work")
    service.do(c.SubmitJob(spec=spec, items=(b"item",)))
    service.settle()
    job_id = JobId("1")
    worker = Post(service)
    worker.hear()
    saying(worker, job_id)
    service.turn()
    assert service.writing
    assert len(worker.replies) == 1
    service.synced()
    assert len(worker.replies) > 1


def test_large_results_are_committed_in_records_of_a_bounded_size() -> None:
    service = Service(ManualClock(), SeededDice(1))
    spec = JobSpec(name="work", kind="function", target="work")
    service.do(c.SubmitJob(spec=spec, items=(b"item",) * 4))
    service.settle()
    worker = Post(service)
    worker.hear(slots=4)
    sizes = [COMMIT_BYTES // 2, COMMIT_BYTES // 2, 1, COMMIT_BYTES + 1]
    reports = tuple(
        Done(JobId("1"), Index(place), LeaseId(place + 1), 1, b"x" * size)
        for place, size in enumerate(sizes)
    )
    worker.hear(slots=4, done=reports)
    assert [
        [commit.index for commit in event.commits]
        for record in service.records()
        for event in record.events
        if isinstance(event, e.TasksCompleted)
    ] == [[0, 1], [2], [3]]
