"""What people ask of jobs that exist, and what they are told."""

import pytest
from msgspec import structs

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decision import Accepted, Reason, Refused
from holdfast.core.ids import Index, Instant
from holdfast.core.job import JobState, job_state
from holdfast.core.spec import JobSpec, RetryPolicy
from holdfast.testing.stages import JOB, stage_of
from holdfast.testing.world import MAIL, World

LARGE = JobSpec(
    name="n", kind="k", target="t", cpus_milli=64_000, schedule_timeout_ms=1_000
)
AGAIN = JobSpec(name="n", kind="k", target="t", retries=1, retry=RetryPolicy(kind="none"))
LARGEST = 10**15


def answer(world: World, command: c.Command) -> object:
    decision = world.do(command)
    assert isinstance(decision, Accepted)
    return decision.answer


def span(first: int, last: int) -> e.Span:
    return e.Span(Index(first), Index(last))


def killed_by(world: World, command: c.Command) -> e.TasksKilled:
    (killed,) = [event for event in world.did(command) if isinstance(event, e.TasksKilled)]
    assert world.troubles() == ()
    return killed


def worn() -> World:
    """Of six tasks, 0 succeeded, 1 is in its second attempt, 2 waits for its second, 3 is in its
    first, and 4 and 5 were never touched."""
    world = World()
    world.submit(JOB, 6, spec=AGAIN)
    leases = world.grant(JOB, 0, 1, 2, 3)
    world.commit(JOB, 0, leases[0])
    world.fail(JOB, 1, leases[1])
    world.fail(JOB, 2, leases[2])
    world.grant(JOB, 1)
    return world


@pytest.mark.parametrize("kind", ["job", "tasks"])
def test_a_kill_names_everyone_once_and_the_past_of_those_that_waited(kind: str) -> None:
    world = worn()
    past = world.task(JOB, 2).previous
    every = tuple(map(Index, range(6)))
    command = c.KillJob(job_id=JOB) if kind == "job" else c.KillTasks(job_id=JOB, indices=every)
    killed = killed_by(world, command)
    assert sorted(end.index for end in killed.ends) == [1, 3]
    assert killed.spans == (span(2, 2), span(4, 5))
    assert killed.stopped == (e.Stopped(Index(2), past),)


def test_a_kill_says_how_many_it_ended() -> None:
    assert answer(worn(), c.KillJob(job_id=JOB)) == 5
    indices = (Index(0), Index(1), Index(1), Index(4))
    world = worn()
    assert answer(world, c.KillTasks(job_id=JOB, indices=indices)) == 2
    assert answer(world, c.KillTasks(job_id=JOB, indices=indices)) == 0
    assert answer(world, c.KillTasks(job_id=JOB, indices=())) == 0
    assert answer(world, c.KillJob(job_id=JOB)) == 3
    assert answer(world, c.KillJob(job_id=JOB)) == 0


def test_one_task_of_several_that_has_committed_keeps_all_of_them() -> None:
    world = World()
    world.submit(JOB, 2)
    (lease_id,) = world.grant(JOB, 1)
    world.commit(JOB, 1, lease_id, owed=(MAIL,))
    before = world.fingerprint()
    decision = world.do(c.KillTasks(job_id=JOB, indices=(Index(0), Index(1))))
    assert isinstance(decision, Refused)
    assert (decision.code, "j/1" in decision.message) == (Reason.INVALID_TRANSITION, True)
    assert world.fingerprint() == before


def test_a_retry_says_how_many_it_sent_back() -> None:
    world = World()
    world.submit(JOB, 5)
    leases = world.grant(JOB, 0, 1, 2, 3, 4)
    for index in (0, 1, 3):
        world.fail(JOB, index, leases[index])
    for index in (2, 4):
        world.commit(JOB, index, leases[index])
    one = c.RetryTasks(job_id=JOB, indices=(Index(1), Index(1)))
    assert answer(world, one) == 1
    decision = world.do(c.RetryTasks(job_id=JOB))
    assert isinstance(decision, Accepted)
    (event,) = decision.events
    assert isinstance(event, e.TasksRetried)
    assert (event.spans, decision.answer) == ((span(0, 0), span(3, 3)), 2)
    assert answer(world, c.RetryTasks(job_id=JOB)) == 0


def test_what_nobody_took_in_time_comes_back_under_other_terms() -> None:
    world = World()
    payloads = [b"one", b"two"]
    world.submit(JOB, 2, spec=LARGE, items=tuple(payloads))
    world.sleep(1_000)
    world.tick()
    job = world.state.jobs[JOB]
    assert job_state(job) is JobState.UNSCHEDULABLE
    less = c.RetryTasks(job_id=JOB, spec=structs.replace(job.spec, cpus_milli=1_000))
    assert answer(world, less) == 2
    assert (job_state(job), job.spec.cpus_milli) == (JobState.PENDING, 1_000)
    assert list(job.payloads_of((Index(0), Index(1)))) == payloads
    # Its deadline was that of the first generation.
    world.sleep(10_000)
    world.tick()
    assert world.leasable() == {JOB: [0, 1]}
    for index, lease in enumerate(world.grant(JOB, 0, 1)):
        world.commit(JOB, index, lease)
    assert job_state(job) is JobState.SUCCEEDED


@pytest.mark.parametrize("field", ["delay_ms", "not_before_wall"])
def test_a_task_can_be_moved_far_but_not_out_of_time(field: str) -> None:
    for amount, taken in ((-1, False), (LARGEST + 1, False), (LARGEST, True), (0, True)):
        moved = c.RescheduleTask(job_id=JOB, index=Index(0), **{field: Instant(amount)})
        decision = stage_of("fresh").world.do(moved)
        assert isinstance(decision, Accepted) is taken, amount
        if isinstance(decision, Refused):
            assert decision.code is Reason.INVALID


def test_a_moved_task_waits_exactly_as_long_as_it_was_told() -> None:
    world = stage_of("fresh").world
    world.did(c.RescheduleTask(job_id=JOB, index=Index(0), delay_ms=100))
    world.sleep(99)
    assert (world.leasable(), world.grant(JOB)) == ({}, ())
    world.sleep(1)
    assert world.leasable() == {JOB: [0]}
    assert world.grant(JOB)
