"""FM-001, the late report: a worker that lost its lease comes back and applies its effect too.

One test takes the fence away and sees two effects; the others see that with the fence there is
one, whatever the order of things.
"""

from itertools import permutations

import msgspec
import pytest

from holdfast.core import commands as c
from holdfast.core.apply import replay
from holdfast.core.decide import decide
from holdfast.core.decision import Accepted, Decision
from holdfast.core.events import TaskCommitted, TasksCompleted
from holdfast.core.ids import Index, Instant, JobId, LeaseId, WorkerId
from holdfast.core.invariants import Watch
from holdfast.core.reports import Done
from holdfast.core.state import State
from holdfast.testing.world import World

JOB, TERM_MS = JobId("j"), 1_000
A, B = WorkerId("a"), WorkerId("b")


def late_holder() -> tuple[World, LeaseId, LeaseId]:
    """A leases and goes silent; its lease runs out; B leases the same task."""
    world = World()
    world.submit("j")
    (first,) = world.grant("j", worker="a", term_ms=TERM_MS)
    world.start("j", 0, first, worker="a")
    world.sleep(TERM_MS)
    world.tick()
    (second,) = world.grant("j", worker="b", term_ms=TERM_MS)
    return world, first, second


def commit(worker: WorkerId, lease_id: LeaseId) -> c.CommitTasks:
    done = Done(JOB, Index(0), lease_id, 0, worker.encode())
    return c.CommitTasks(worker=worker, incarnation=1, done=(done,))


def effects(decision: Decision) -> list[bytes]:
    """What the world would see: the results of the commits that were accepted."""
    if not isinstance(decision, Accepted):
        return []
    completed = [event for event in decision.events if isinstance(event, TasksCompleted)]
    return [commit.result for event in completed for commit in event.commits]


def decide_without_the_fence(state: State, command: c.CommitTasks, now: Instant) -> Decision:
    """The rule that seems enough: whoever reports a result for a task under way is believed."""
    job = state.jobs[JOB]
    (done,) = command.done
    task = (job.tasks or {})[Index(0)]
    believed = msgspec.structs.replace(done, lease_id=task.lease_id)
    as_holder = c.CommitTasks(worker=task.worker, incarnation=task.incarnation, done=(believed,))
    return decide(state, as_holder, now)


def test_fm_001_without_the_fence_the_effect_happens_twice() -> None:
    world, first, second = late_holder()
    # The late report is believed though its lease is gone, and the other because it holds the
    # task: both effects are out in the world before the core could compare them.
    late = effects(decide_without_the_fence(world.state, commit(A, first), world.now))
    assert late + effects(world.do(commit(B, second))) == [b"a", b"b"]


def test_fm_001_the_watch_sees_the_double_commit_of_a_core_without_a_fence() -> None:
    world, first, second = late_holder()
    decision = decide_without_the_fence(world.state, commit(A, first), world.now)
    assert isinstance(decision, Accepted)
    world.do(commit(B, second))
    record = msgspec.structs.replace(world.records()[-1][1], events=decision.events)
    violations = world.watch.feed(world.state.position + 1, record)  # type: ignore[arg-type]
    assert "C1" in {violation.name for violation in violations}


def test_fm_001_with_the_fence_the_late_report_changes_nothing() -> None:
    world, first, second = late_holder()
    before = world.fingerprint()
    assert effects(world.do(commit(A, first))) == []
    assert world.fingerprint() == before
    assert effects(world.do(commit(B, second))) == [b"b"]
    assert effects(world.do(commit(A, first))) == []
    assert world.troubles() == ()


def test_fm_001_a_late_report_is_answered_with_the_place_of_the_commit() -> None:
    world, first, second = late_holder()
    world.do(commit(B, second))
    settled = world.state.position
    decision = world.do(commit(A, first))
    assert isinstance(decision, Accepted)
    (lost,) = decision.answer  # type: ignore[misc]
    assert (lost.lease_id, lost.settled) == (first, settled)


ORDERS = list(permutations(("a commits", "b commits", "a again", "b again", "tick")))


@pytest.mark.parametrize("order", ORDERS, ids=", ".join)
def test_fm_001_cannot_happen_in_any_order(order: tuple[str, ...]) -> None:
    world, first, second = late_holder()
    seen: list[bytes] = []
    for move in order:
        if move == "tick":
            world.tick()
        elif move.startswith("a"):
            seen += effects(world.do(commit(A, first)))
        else:
            seen += effects(world.do(commit(B, second)))
    assert seen == [b"b"]
    assert world.troubles() == ()


def test_fm_001_cannot_happen_across_a_crash() -> None:
    world, first, second = late_holder()
    world.do(commit(B, second))
    for crash_after in range(1, len(world.log) + 1):
        again = World(opened=False)
        again.log = list(world.log[:crash_after])
        again.crash()
        again.now = again.wall = world.now
        again.open()
        seen = effects(again.do(commit(A, first))) + effects(again.do(commit(B, second)))
        committed = [
            event
            for _, record in again.records()
            for event in record.events
            if isinstance(event, TasksCompleted | TaskCommitted)
        ]
        assert len(committed) <= 1, (crash_after, seen)
        assert again.troubles() == ()


def test_fm_001_a_commit_survives_replay_and_stays_the_only_one() -> None:
    world, first, second = late_holder()
    world.do(commit(B, second))
    state, watch = State(), Watch()
    replay(state, world.records())
    assert [watch.feed(place, record) for place, record in world.records()] == [()] * len(world.log)
    assert effects(decide(state, commit(A, first), world.now)) == []
