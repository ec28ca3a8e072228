"""A gang is leased whole, falls whole, comes back whole and commits whole."""

from collections.abc import Callable

import msgspec
import pytest

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decision import Accepted, Decision, Lost, Reason, Refused
from holdfast.core.ids import Index, JobId, LeaseId, WorkerId
from holdfast.core.job import job_reason, job_state, state_of
from holdfast.core.placing import After, Placing
from holdfast.core.reports import Done
from holdfast.core.spec import STOP, JobSpec, RetryPolicy
from holdfast.core.task import TaskState
from holdfast.testing.world import World

J = JobId("j")
GANG = JobSpec(
    name="n", kind="k", target="t", retries=1, max_losses=1,
    retry=RetryPolicy(kind="fixed", delay_ms=700, jitter=0.0), placing=Placing(gang=True),
)  # fmt: skip
A, B = WorkerId("a"), WorkerId("b")


def code(decision: Decision) -> Reason | None:
    return decision.code if isinstance(decision, Refused) else None


def a_gang(*, term_ms: int = 0, spec: JobSpec = GANG) -> tuple[World, tuple[LeaseId, ...]]:
    """Three tasks, two with one worker and one with another, the last of them begun."""
    world = World()
    world.submit(J, 3, spec=spec)
    leases = world.grant_gang(J, "a", "b", "b", term_ms=term_ms)
    world.start(J, 2, leases[2], worker="b")
    return world, leases


def states(world: World) -> list[TaskState]:
    job = world.state.jobs[J]
    return [state_of(job, Index(index)) for index in range(job.count)]


def ends(world: World) -> dict[int, e.End]:
    """The ends of the last record, by task."""
    record = world.records()[-1][1]
    found = [end for event in record.events for end in getattr(event, "ends", ())]
    assert len({end.index for end in found}) == len(found)
    return {end.index: end for end in found}


def test_all_of_a_gang_is_granted_in_one_record_each_to_a_slot_of_its_own() -> None:
    world, leases = a_gang()
    record = world.records()[-2][1]
    assert [type(event) for event in record.events] == [e.LeasesGranted] * 3
    assert len(set(leases)) == 3
    assert world.state.holders[(B, 1)].load == {1: 1, 2: 1}
    assert world.troubles() == ()


def seats(*workers: str) -> tuple[c.Member, ...]:
    return tuple(
        c.Member(Index(i), WorkerId(worker), 1, i, 0) for i, worker in enumerate(workers)
    )


WRONG: dict[str, tuple[c.Member, ...]] = {
    "not all": seats("a", "b"),
    "more than all": seats("a", "b", "b", "a"),
    "one twice": (*seats("a", "b"), c.Member(Index(1), A, 1, 9, 0)),
    "two in one slot": (*seats("a", "b"), c.Member(Index(2), B, 1, 1, 0)),
    "behind another task": (*seats("a", "b"), c.Member(Index(2), WorkerId("busy"), 1, 0, 0)),
    "before it begins": (*seats("a", "b"), c.Member(Index(2), B, 1, 2, -1)),
    "nobody": (),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_gang_that_cannot_be_granted_whole_is_not_granted_at_all(wrong: str) -> None:
    world = World()
    world.submit("other")
    world.grant("other", 0, worker="busy")
    world.submit(J, 3, spec=GANG)
    before = world.fingerprint()
    assert code(world.do(c.GrantGang(job_id=J, members=WRONG[wrong]))) is not None
    assert world.fingerprint() == before


def test_a_gang_is_granted_only_as_one_and_only_a_gang_is() -> None:
    world = World()
    world.submit(J, 2, spec=GANG)
    world.submit("lone", 2)
    grant = c.GrantLeases(
        job_id=J, worker=A, incarnation=1, slot=0, indices=(Index(0), Index(1)), term_ms=0
    )
    assert code(world.do(grant)) is Reason.INVALID_TRANSITION
    assert code(world.do(c.GrantGang(job_id=JobId("lone"), members=seats("a", "b"))))
    assert code(world.do(c.GrantGang(job_id=JobId("nobody"), members=()))) is Reason.NOT_FOUND


def test_a_blocked_or_delayed_gang_is_not_granted() -> None:
    world = World()
    world.submit("p")
    world.submit(J, 1, spec=GANG, after=(After(JobId("p")),))
    world.submit("later", 1, spec=GANG, delay_ms=1_000)
    assert world.grant_gang(J, "a") == ()
    assert world.grant_gang("later", "a") == ()
    world.sleep(1_000)
    assert world.grant_gang("later", "a") != ()


def test_a_gang_that_must_not_outlive_its_leases_waits_until_those_it_drags_down_are_over() -> None:
    world, leases = a_gang(term_ms=15_000, spec=msgspec.structs.replace(GANG, on_disconnect=STOP))
    until = world.now + 15_000
    fail_one(world, leases)
    assert {end.not_before for end in ends(world).values()} == {until}
    assert world.grant_gang(J, "a", "a", "a") == ()
    world.sleep(until - world.now)
    assert world.grant_gang(J, "a", "a", "a") != ()


def fail_one(world: World, leases: tuple[LeaseId, ...]) -> None:
    world.fail(J, 2, leases[2], worker="b")


def lose_one(world: World, leases: tuple[LeaseId, ...]) -> None:
    world.did(c.LoseWorker(worker=A, incarnation=1, error="gone"))


def release_one(world: World, leases: tuple[LeaseId, ...]) -> None:
    world.release(J, 0, leases[0], worker="a")


def preempt_one(world: World, leases: tuple[LeaseId, ...]) -> None:
    world.did(c.PreemptAttempts(leases=(leases[1],), reason="more urgent work"))


def let_one_expire(world: World, leases: tuple[LeaseId, ...]) -> None:
    world.sleep(14_000)
    world.did(c.ExtendLeases(worker=B, incarnation=1, term_ms=15_000))
    world.sleep(1_000)
    world.tick()


FALLS: dict[str, tuple[Callable[[World, tuple[LeaseId, ...]], None], dict[int, str]]] = {
    "fail": (fail_one, {2: "failed"}),
    "lose": (lose_one, {0: "undelivered"}),
    "release": (release_one, {0: "released"}),
    "preempt": (preempt_one, {1: "preempted"}),
    "expire": (let_one_expire, {0: "lease_expired"}),
}


@pytest.mark.parametrize("fall", FALLS)
def test_who_falls_takes_the_others_along_in_the_same_record(fall: str) -> None:
    world, leases = a_gang(term_ms=15_000)
    act, own = FALLS[fall]
    act(world, leases)
    fell = ends(world)
    assert {index: end.reason for index, end in fell.items()} == {
        index: own.get(index, "sibling_failed") for index in range(3)
    }
    assert [end.charged for index, end in fell.items() if index not in own] == ["", ""]
    assert len({end.not_before for end in fell.values()}) == 1
    assert states(world) == [TaskState.WAITING] * 3
    assert world.state.holders == {}
    assert world.troubles() == ()


def test_a_gang_comes_back_together_when_the_slowest_may() -> None:
    world, leases = a_gang()
    fail_one(world, leases)
    assert world.grant_gang(J, "a", "b", "b") == ()
    world.sleep(700)
    assert len(world.grant_gang(J, "a", "b", "b")) == 3
    assert [world.task(J, index).attempt for index in range(3)] == [2, 2, 2]
    assert [world.task(J, index).failures for index in range(3)] == [0, 0, 1]


def test_a_member_in_quarantine_is_the_end_of_the_gang() -> None:
    world, leases = a_gang()
    fail_one(world, leases)
    world.sleep(700)
    fail_one(world, world.grant_gang(J, "a", "b", "b"))
    assert states(world) == [TaskState.KILLED, TaskState.KILLED, TaskState.QUARANTINED]
    job = world.state.jobs[J]
    assert (job_state(job), job_reason(job)) == ("FAILED", "gang_failed")
    kinds = [type(event) for event in world.records()[-1][1].events]
    assert kinds == [e.AttemptsStarted, e.TasksQuarantined, e.JobCancelled, e.TasksKilled]
    assert {i: end.reason for i, end in ends(world).items()} == {
        0: "sibling_failed", 1: "sibling_failed", 2: "failed"
    }  # fmt: skip
    assert world.troubles() == ()


@pytest.mark.parametrize("indices", [(), (2,), (0,)])
def test_a_retry_sends_the_whole_gang_back(indices: tuple[int, ...]) -> None:
    world, leases = a_gang(spec=msgspec.structs.replace(GANG, retries=0))
    fail_one(world, leases)
    world.did(c.RetryTasks(job_id=J, indices=tuple(map(Index, indices))))
    assert states(world) == [TaskState.WAITING] * 3
    assert len(world.grant_gang(J, "a", "b", "b")) == 3
    assert world.troubles() == ()


@pytest.mark.parametrize("indices", [(), (0,)])
def test_a_gang_of_which_one_was_given_up_does_not_come_back(indices: tuple[int, ...]) -> None:
    """It could never start again, and would wait for ever."""
    world, leases = a_gang(spec=msgspec.structs.replace(GANG, retries=0))
    fail_one(world, leases)
    world.did(c.PurgeTasks(job_id=J, indices=(Index(2),), reason="given up"))
    before = states(world)
    decision = world.do(c.RetryTasks(job_id=J, indices=tuple(map(Index, indices))))
    assert isinstance(decision, Refused)
    assert decision.code is Reason.INVALID_TRANSITION
    assert "a gang, which comes back whole; j/2 cannot, which is KILLED" in decision.message
    assert states(world) == before


def test_a_gang_of_one_is_a_task_like_any_other() -> None:
    world = World()
    world.submit(J, 1, spec=msgspec.structs.replace(GANG, retries=0))
    (lease,) = world.grant_gang(J, "w")
    world.fail(J, 0, lease)
    assert (job_state(world.state.jobs[J]), states(world)) == ("FAILED", [TaskState.QUARANTINED])
    assert job_reason(world.state.jobs[J]) == "quarantined"


def test_the_results_of_a_gang_are_one_record() -> None:
    world, _ = a_gang()
    decision = world.commit_gang(J)
    assert isinstance(decision, Accepted)
    assert decision.answer == ()
    assert states(world) == [TaskState.SUCCEEDED] * 3
    assert job_state(world.state.jobs[J]) == "SUCCEEDED"
    assert world.troubles() == ()


def test_a_gang_commits_whole_or_not_at_all() -> None:
    world, leases = a_gang()
    before = world.fingerprint()
    assert code(world.commit(J, 0, leases[0], worker="a")) is Reason.INVALID_TRANSITION
    lone = c.Finished(A, 1, Done(J, Index(0), leases[0], 0, b"r"))
    assert code(world.do(c.CommitGang(job_id=J, members=(lone, lone)))) is Reason.INVALID_TRANSITION
    strange = c.Finished(A, 1, Done(JobId("x"), Index(0), leases[0], 0, b"r"))
    assert code(world.do(c.CommitGang(job_id=J, members=(strange,)))) is Reason.INVALID
    assert world.fingerprint() == before


def test_one_lost_lease_keeps_the_whole_gang_from_committing() -> None:
    world, leases = a_gang()
    told = [c.Finished(WorkerId(w), 1, Done(J, Index(i), leases[i], 0, b"r"))
            for i, w in enumerate(("a", "b", "b"))]  # fmt: skip
    stale = msgspec.structs.replace(told[1], incarnation=2)
    before = world.fingerprint()
    decision = world.do(c.CommitGang(job_id=J, members=(told[0], stale, told[2])))
    assert isinstance(decision, Accepted)
    assert decision.events == ()
    (lost,) = decision.answer  # type: ignore[misc]
    assert isinstance(lost, Lost)
    assert lost.index == 1
    assert world.fingerprint() == before


def test_a_repeated_commit_finds_the_record_that_holds_it() -> None:
    world, leases = a_gang()
    world.commit_gang(J)
    position = world.state.position
    decision = world.commit(J, 0, leases[0], worker="a")
    assert isinstance(decision, Accepted)
    (lost,) = decision.answer  # type: ignore[misc]
    assert lost.settled == position


def test_tasks_of_a_gang_are_not_killed_one_by_one() -> None:
    world, _ = a_gang()
    kill = c.KillTasks(job_id=J, indices=(Index(0),))
    assert code(world.do(kill)) is Reason.INVALID_TRANSITION
    world.did(c.KillJob(job_id=J))
    assert states(world) == [TaskState.KILLED] * 3


def test_a_gang_is_whole_from_the_start_and_not_too_large() -> None:
    world = World()
    assert code(world.submit(J, items=(b"a",), spec=GANG, sealed=False)) is Reason.INVALID
    assert code(world.submit(J, 10_001, spec=GANG)) is Reason.TOO_LARGE
    bounded = msgspec.structs.replace(GANG, max_parallel=1)
    assert code(world.submit(J, 2, spec=bounded)) is Reason.INVALID
    by = JobSpec(name="n", kind="k", target="t", placing=Placing(gang_by="zone"))
    assert code(world.submit(J, 2, spec=by)) is Reason.INVALID
    assert isinstance(world.submit(J, 10_000, spec=GANG), Accepted)


def test_a_gang_with_members_here_and_elsewhere_falls_whole_when_the_program_dies() -> None:
    world = World()
    world.submit(J, 2, spec=GANG)
    members = (c.Member(Index(0), A, 1, 0, 0), c.Member(Index(1), B, 1, 0, 15_000))
    world.did(c.GrantGang(job_id=J, members=members))
    world.crash()
    world.open()
    assert {i: end.reason for i, end in ends(world).items()} == {
        0: "undelivered", 1: "sibling_failed"
    }  # fmt: skip
    assert states(world) == [TaskState.WAITING] * 2
    assert world.troubles() == ()
