"""The history of a task: what touched it and nothing else, and whether that is all."""

from collections.abc import Iterator

import pytest

from holdfast.coordinator import trail as trail_module
from holdfast.coordinator.inspect import HistoryGone, Told
from holdfast.coordinator.trail import Trail, trail_of
from holdfast.core import commands as c
from holdfast.core.ids import Index, JobId, Position, WorkerId
from holdfast.core.record import decode_record
from holdfast.core.spec import JobSpec, RetryPolicy
from holdfast.core.state import State
from holdfast.testing.world import MAIL, POST, World

SPEC = JobSpec(name="n", kind="function", target="t", retry=RetryPolicy(kind="none"))


class Remembered:
    """A world with its records, as far as they are kept; it counts how many are read."""

    def __init__(self, world: World, oldest: int = 1) -> None:
        self.state: State = world.state
        self._log = world.log
        self._oldest = oldest
        self.read = 0

    def told(self, position: int) -> Told:
        self.read += 1
        if position < self._oldest:
            raise HistoryGone(self._oldest)
        return Told(Position(position), 1, 0, decode_record(self._log[position - 1]))

    def records(self, first: int, last: int) -> Iterator[Told]:
        return (self.told(position) for position in range(first, last + 1))

    def wall(self, instant: int) -> int:
        return instant


def trail(past: Remembered, index: int = 0) -> Trail:
    job = past.state.jobs[JobId("1")]
    return trail_of(past, job, Index(index), past.state.position)


def commands(told: Trail) -> list[str]:
    positions = [view["position"] for view in told.transactions]
    assert positions == sorted(positions)
    return [view["command"] for view in told.transactions]


def begun(count: int = 2) -> World:
    world = World()
    world.submit("", count, spec=SPEC)
    return world


def run(world: World, index: int, *, fails: bool = False) -> None:
    (lease,) = world.grant("1", index)
    world.start("1", index, lease)
    if fails:
        world.fail("1", index, lease)
    else:
        world.commit("1", index, lease)


def test_a_life_is_told_from_the_submit_to_the_result_without_those_of_others() -> None:
    world = begun()
    run(world, 1)
    (lease,) = world.grant("1", 0)
    world.release("1", 0, lease)
    run(world, 0, fails=True)
    world.do(c.RetryTasks(job_id=JobId("1"), indices=(Index(0),)), reason="fixed")
    (lease,) = world.grant("1", 0)
    world.start("1", 0, lease)
    where = {"worker": WorkerId("w"), "incarnation": 1, "job_id": JobId("1"), "index": Index(0)}
    world.do(c.RegisterEndpoint(**where, lease_id=lease, name="e", address="a:1", metadata=()))
    world.commit("1", 0, lease)
    told = trail(Remembered(world))
    assert commands(told) == [
        "SubmitJob", "GrantLeases", "ReleaseAttempts", "GrantLeases", "StartAttempts",
        "FailAttempt", "RetryTasks", "GrantLeases", "StartAttempts", "RegisterEndpoint",
        "CommitTasks",
    ]  # fmt: skip
    assert told.is_complete
    retried = told.transactions[6]
    assert (retried["reason"], retried["actor"]) == ("fixed", "test")
    entities = {act["entity"] for view in told.transactions for act in view["actions"]}
    assert entities == {"1", "1/0", "1/0-1"}


def test_a_task_that_only_waits_has_its_birth_and_what_was_done_to_it() -> None:
    world = World()
    world.submit("", spec=SPEC, sealed=False, items=(b"a",))
    add = c.AddTasks(job_id=JobId("1"), first=Index(1), items=(b"b", b"c"), digest=b"")
    world.do(add)
    world.do(c.RescheduleTask(job_id=JobId("1"), index=Index(2), delay_ms=50))
    assert commands(trail(Remembered(world), 0)) == ["SubmitJob"]
    assert commands(trail(Remembered(world), 1)) == ["AddTasks"]
    assert commands(trail(Remembered(world), 2)) == ["AddTasks", "RescheduleTask"]
    world.do(c.KillJob(job_id=JobId("1"), reason="enough"))
    told = trail(Remembered(world), 1)
    assert commands(told) == ["AddTasks", "KillJob"]
    actions = [(act["action"], act["entity"]) for act in told.transactions[1]["actions"]]
    assert ("task_killed", "1/0-2") in actions


def test_the_calendar_that_a_job_waited_for_touches_its_tasks() -> None:
    world = World()
    world.submit("", 2, spec=SPEC, not_before_wall=world.wall + 10)
    world.sleep(20)
    world.tick()
    assert commands(trail(Remembered(world))) == ["SubmitJob", "Tick"]


def test_what_a_commit_owed_is_told_after_it() -> None:
    world = begun()
    (lease,) = world.grant("1", 0)
    world.start("1", 0, lease)
    world.commit("1", 0, lease, owed=(MAIL, POST))
    for entry in (0, 1):
        world.confirm("1", 0, entry)
    assert commands(trail(Remembered(world)))[-3:] == [
        "CommitTasks", "ConfirmDeliveries", "ConfirmDeliveries",
    ]  # fmt: skip


def test_a_finished_task_is_told_from_a_few_records_however_long_the_log_is() -> None:
    world = begun(60)
    for index in range(60):
        run(world, index)
    past = Remembered(world)
    assert len(commands(trail(past, 0))) == 4
    assert past.read < 10


def test_what_lies_too_far_apart_is_left_out_and_that_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trail_module, "MOST_READ", 10)
    world = begun(20)
    (lease,) = world.grant("1", 0)
    world.start("1", 0, lease)
    for index in range(1, 20):
        run(world, index)
    world.commit("1", 0, lease)
    told = trail(Remembered(world), 0)
    assert (commands(told), told.is_complete) == (
        ["SubmitJob", "GrantLeases", "CommitTasks"], False,
    )  # fmt: skip


def test_where_history_was_dropped_the_rest_is_told() -> None:
    world = begun()
    run(world, 0)
    last = len(world.log)
    told = trail(Remembered(world, oldest=last))
    assert (commands(told), told.is_complete) == (["CommitTasks"], False)
