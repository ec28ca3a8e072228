"""A block is run by whoever committed. Progress is kept while its attempt is held."""

import pytest

from holdfast.coordinator.carriers import PATIENCE_MS
from holdfast.core import commands as c
from holdfast.core.ids import Index, LeaseId
from holdfast.core.owed import DebtName
from holdfast.core.task import TaskState
from holdfast.testing.owing import (
    COURIER,
    HELPER,
    IN_BLOCK,
    RUNNER,
    SPEC,
    TERM_MS,
    Runner,
    a_service,
    pass_time,
    say,
    state_of,
)
from holdfast.testing.post import Post
from holdfast.testing.service import Service
from holdfast.wire.delivery import Bounced
from holdfast.wire.exchange import COMMITTED, Done, Hello, Progress


def parked(service: Service, name: DebtName) -> str:
    owing = service.coordinator.state.debts.find(name)
    assert owing is not None
    return owing.debt.error if owing.debt.parked else ""


def test_a_block_belongs_to_whoever_committed_and_is_dealt_to_nobody() -> None:
    service = a_service()
    runner = Runner(service)
    name = runner.enter_block()
    assert say(Post(service, name="c"), hello=HELPER) == []
    runner.post.say(slots=0, carrying=(name,))
    service.settle()
    assert not parked(service, name)
    say(runner.post, delivered=(name,))
    assert state_of(service, name.job_id) is TaskState.SUCCEEDED


def test_a_block_that_raised_is_parked_with_its_error() -> None:
    service = a_service()
    runner = Runner(service)
    name = runner.enter_block()
    runner.post.hear(slots=0, bounced=(Bounced(name, "ValueError: no", is_final=True),))
    assert parked(service, name) == "ValueError: no"


def test_a_block_that_its_worker_does_not_name_any_more_is_parked() -> None:
    service = a_service()
    runner = Runner(service)
    name = runner.enter_block()
    runner.post.say(slots=0, seen=runner.post.number - 1)
    service.settle()
    assert not parked(service, name)
    runner.post.say(slots=0)
    service.settle()
    assert parked(service, name) == "worker runner does not run the block any more"


@pytest.mark.parametrize("how", ["silent", "left", "started again", "restart"])
def test_a_block_of_a_worker_that_is_gone_is_parked(how: str) -> None:
    service = a_service()
    runner = Runner(service)
    name = runner.enter_block()
    if how == "left":
        runner.post.hear(slots=0, carrying=(name,), leaving=True)
    elif how == "started again":
        pass_time(service, TERM_MS)
        say(Post(service, name="runner", incarnation=2), hello=Hello("runs", 4, "1"))
    else:
        if how == "restart":
            service.crash()
        pass_time(service, PATIENCE_MS - 2_000)
        assert not parked(service, name)
        pass_time(service, 2_000)
    assert parked(service, name)
    # It came late, and it is true.
    if how == "silent":
        runner.post.hear(slots=0, delivered=(name,))
        assert state_of(service, name.job_id) is TaskState.SUCCEEDED


def test_a_block_survives_a_restart_of_the_coordinator() -> None:
    service = a_service()
    runner = Runner(service)
    name = runner.enter_block()
    service.crash()
    say(runner.post, carrying=(name,), hello=RUNNER)
    pass_time(service, PATIENCE_MS - 5_000)
    runner.post.say(slots=0, carrying=(name,))
    pass_time(service, PATIENCE_MS)
    assert not parked(service, name)


def test_what_was_said_before_a_restart_and_comes_late_parks_no_block() -> None:
    service = a_service()
    runner = Runner(service)
    late = runner.post.number + 1
    # Said when it had nothing, overtaken by the commit, and on its way ever since.
    runner.post.number = late
    name = runner.enter_block()
    before, after = service.coordinator.state.epoch, runner.post.number
    service.crash()
    runner.post.hear(slots=0, number=late, epoch=before)
    assert not parked(service, name)
    # Whoever has heard from this coordinator and still does not name it has lost it.
    say(runner.post, number=after + 1, seen=late)
    assert parked(service, name) == "worker runner does not run the block any more"


def test_a_commit_whose_answer_was_lost_in_a_restart_begins_its_block_when_it_is_told_again() -> (
    None
):
    service = a_service()
    runner = Runner(service)
    name = runner.enter_block()
    service.crash()
    done = Done(name.job_id, name.index, LeaseId(1), 1, b"result", (IN_BLOCK,))
    (verdict,) = runner.post.hear(slots=0, done=(done,), hello=RUNNER).verdicts
    assert verdict.verdict == COMMITTED
    assert not parked(service, name)
    runner.post.say(slots=0, carrying=(name,))
    service.settle()
    assert not parked(service, name)


def test_progress_is_kept_for_as_long_as_its_attempt_is_held() -> None:
    service = a_service()
    service.do(c.SubmitJob(spec=SPEC, count=1))
    post = Post(service)
    (run,) = post.hear(hello=COURIER).runs
    lease = run.items[0].lease_id
    post.hear(held=(lease,), progress=(Progress(lease, 3, 10, "third"),))
    known = service.exchanges.workers[post.name].progress
    assert known[lease][0] == Progress(lease, 3, 10, "third")
    say(post, slots=1, held=(lease,))
    assert service.exchanges.workers[post.name].progress[lease][0].done == 3
    say(post, slots=1, done=(Done(run.job_id, Index(0), lease, 1, b""),))
    assert service.exchanges.workers[post.name].progress == {}
