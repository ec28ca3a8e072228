"""The attempts of a task, walked back through the log."""

from collections.abc import Iterator

import pytest

from holdfast.coordinator.history import attempts_of, task_detail
from holdfast.coordinator.inspect import HistoryGone, Told
from holdfast.core import commands as c
from holdfast.core.ids import Index, JobId, Position
from holdfast.core.record import decode_record
from holdfast.core.spec import JobSpec, RetryPolicy
from holdfast.core.state import State
from holdfast.testing.world import MAIL, World

SPEC = JobSpec(
    name="n", kind="function", target="t", retries=1, max_losses=1,
    retry=RetryPolicy(kind="none"),
)  # fmt: skip


class Remembered:
    """A world with its records, as far as they are kept; it counts how many are read."""

    def __init__(self, world: World, oldest: int = 1) -> None:
        self._world = world
        self._oldest = oldest
        self.read = 0

    @property
    def state(self) -> State:
        return self._world.state

    def told(self, position: int) -> Told:
        self.read += 1
        if position < self._oldest:
            raise HistoryGone(self._oldest)
        return Told(Position(position), 1, 0, decode_record(self._world.log[position - 1]))

    def records(self, first: int, last: int) -> Iterator[Told]:
        return (self.told(position) for position in range(first, last + 1))

    def wall(self, instant: int) -> int:
        return instant


def fates(past: Remembered, index: int = 0) -> list[tuple[int, str, str | None]]:
    attempts = attempts_of(past, JobId("1"), Index(index))
    return [(each["attempt"], each["status"], each["reason"]) for each in attempts]


def fail(world: World, index: int = 0) -> None:
    (lease,) = world.grant("1", index)
    world.start("1", index, lease)
    world.fail("1", index, lease)


def begun(count: int = 1) -> World:
    world = World()
    world.submit("", count, spec=SPEC)
    return world


def test_failures_a_release_and_a_commit_are_told_in_order() -> None:
    world = begun()
    fail(world)
    (lease,) = world.grant("1", 0)
    world.release("1", 0, lease)
    (lease,) = world.grant("1", 0)
    world.start("1", 0, lease)
    world.commit("1", 0, lease)
    assert fates(Remembered(world)) == [
        (1, "ABORTED", "failed"),
        (2, "ABORTED", "released"),
        (3, "DONE", None),
    ]


def test_the_walk_reads_a_few_records_however_long_the_log_is() -> None:
    world = begun(count=200)
    fail(world, 0)
    for index in range(1, 200):
        (lease,) = world.grant("1", index)
        world.start("1", index, lease)
        world.commit("1", index, lease)
    fail(world, 0)
    past = Remembered(world)
    assert [attempt for attempt, _, _ in fates(past)] == [1, 2]
    assert past.read == 4


def test_an_attempt_that_a_restart_ended_tells_who_was_lost() -> None:
    world = begun()
    (lease,) = world.grant("1", 0)
    world.start("1", 0, lease)
    world.open()
    (attempt,) = attempts_of(Remembered(world), JobId("1"), Index(0))
    assert (attempt["status"], attempt["reason"]) == ("ABORTED", "worker_lost")
    assert (attempt["worker"], attempt["charged"]) == ("w", "losses")


def test_a_lease_that_ends_by_time_tells_when() -> None:
    world = begun()
    (lease,) = world.grant("1", 0, term_ms=15_000)
    (live,) = attempts_of(Remembered(world), JobId("1"), Index(0))
    assert (live["status"], live["started_at"]) == ("LEASED", None)
    assert live["lease_expires_at"] == "1970-01-01T00:16:55.000Z"
    world.sleep(20_000)
    world.tick()
    (ended,) = attempts_of(Remembered(world), JobId("1"), Index(0))
    assert (ended["lease_id"], ended["reason"]) == (lease, "lease_expired")
    assert ended["lease_expires_at"] == "1970-01-01T00:16:55.000Z"
    assert ended["finished_at"] == "1970-01-01T00:17:00.000Z"


def test_a_commit_that_owes_is_committed_until_its_delivery_is_confirmed() -> None:
    world = begun()
    (lease,) = world.grant("1", 0)
    world.start("1", 0, lease)
    world.commit("1", 0, lease, owed=(MAIL,))
    assert fates(Remembered(world)) == [(1, "COMMITTED", None)]
    world.confirm("1", 0, 0)
    assert fates(Remembered(world)) == [(1, "DONE", None)]


def test_a_task_killed_while_it_waits_keeps_the_attempts_it_had() -> None:
    world = begun(count=2)
    fail(world)
    world.did(c.KillJob(job_id=JobId("1"), reason="enough"))
    past = Remembered(world)
    assert fates(past) == [(1, "ABORTED", "failed")]
    job = world.state.jobs[JobId("1")]
    killed = task_detail(past, job, Index(0))
    assert (killed["state"], killed["reason"]) == ("KILLED", "cancelled")
    assert killed["failures"] == {"used": 1, "allowed": 1}
    assert fates(past, 1) == []
    assert task_detail(past, job, Index(1))["reason"] == "cancelled"


def test_a_retry_by_hand_has_fresh_budgets_and_the_old_attempts() -> None:
    world = begun()
    fail(world)
    fail(world)
    past = Remembered(world)
    job = world.state.jobs[JobId("1")]
    spent = task_detail(past, job, Index(0))
    assert (spent["state"], spent["failures"]["used"]) == ("QUARANTINED", 2)
    world.did(c.RetryTasks(job_id=JobId("1")))
    again = task_detail(past, job, Index(0))
    assert (again["state"], again["failures"]["used"]) == ("WAITING", 0)
    assert [attempt["attempt"] for attempt in again["attempts"]] == [1, 2]
    fail(world)
    assert [attempt for attempt, _, _ in fates(past)] == [1, 2, 3]


def test_a_retry_of_a_task_that_a_limit_stopped_while_it_waited_keeps_its_attempts() -> None:
    spec = JobSpec(
        name="n", kind="function", target="t", retries=1, max_failed_tasks=0,
        retry=RetryPolicy(kind="none"),
    )  # fmt: skip
    world = World()
    world.submit("", 2, spec=spec)
    fail(world, 1)
    fail(world, 0)
    fail(world, 0)
    job = world.state.jobs[JobId("1")]
    past = Remembered(world)
    assert task_detail(past, job, Index(1))["reason"] == "too_many_failed"
    world.did(c.RetryTasks(job_id=JobId("1")))
    fail(world, 1)
    assert [attempt for attempt, _, _ in fates(past, 1)] == [1, 2]


@pytest.mark.parametrize("oldest", [1, 4, 6, 9])
def test_what_was_dropped_is_not_told_and_what_is_left_is_true(oldest: int) -> None:
    world = begun()
    fail(world)
    world.sleep(5)
    fail(world)
    whole = fates(Remembered(world))
    told = fates(Remembered(world, oldest))
    assert told == whole[len(whole) - len(told) :]
    expected = {1: 2, 4: 2, 6: 1, 9: 0}
    assert len(told) == expected[oldest]
