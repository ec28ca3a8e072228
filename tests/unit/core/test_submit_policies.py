"""A key with a period, what becomes of a job that has it, and a job sent back under other terms."""

from typing import Any

import msgspec
import pytest

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decision import Accepted, Decision, Reason, Refused
from holdfast.core.freeze import fingerprint, freeze, thaw
from holdfast.core.ids import Index, JobId
from holdfast.core.job import job_reason, job_state
from holdfast.core.placing import After, Constraint, Placing
from holdfast.core.spec import JobSpec, RetryPolicy
from holdfast.testing.world import World

SPEC = JobSpec(name="n", kind="k", target="t")
FIRST, SECOND = JobId("1"), JobId("2")
HOUR_MS = 3_600_000


def ask(world: World, digest: bytes = b"d", **policy: Any) -> Decision:
    command = c.SubmitJob(spec=SPEC, count=1, key="nightly", digest=digest, **policy)
    return world.do(command)


def code(decision: Decision) -> Reason | None:
    return decision.code if isinstance(decision, Refused) else None


def answer(decision: Decision) -> object:
    assert isinstance(decision, Accepted)
    return decision.answer


def test_a_key_with_a_period_is_free_again_after_it() -> None:
    world = World()
    assert answer(ask(world, unique_for_ms=HOUR_MS)) == FIRST
    world.sleep(HOUR_MS - 1)
    assert answer(ask(world, unique_for_ms=HOUR_MS)) == FIRST
    assert code(ask(world, b"other", unique_for_ms=HOUR_MS)) is Reason.KEY_REUSED
    world.sleep(1)
    assert answer(ask(world, b"other", unique_for_ms=HOUR_MS)) == SECOND
    assert answer(ask(world, b"other", unique_for_ms=HOUR_MS)) == SECOND
    assert world.state.jobs[FIRST].unfinished == 1, "the former one goes on"
    assert world.troubles() == ()


def test_a_key_without_a_period_finds_its_job_as_long_as_it_is_known() -> None:
    world = World()
    ask(world, unique_for_ms=HOUR_MS)
    world.sleep(10 * HOUR_MS)
    assert answer(ask(world)) == FIRST


def test_a_key_moves_to_the_younger_job_and_is_forgotten_in_its_turn() -> None:
    world = World()
    ask(world)
    world.submit("k", key="weekly")
    world.sleep(HOUR_MS)
    ask(world, unique_for_ms=HOUR_MS)
    assert list(world.state.keys) == ["weekly", "nightly"]
    assert (world.state.jobs[FIRST].key, world.state.jobs[SECOND].key) == ("", "nightly")
    assert fingerprint(thaw(freeze(world.state))) == world.fingerprint()
    assert world.troubles() == ()


def test_a_replacement_ends_the_former_and_begins_the_next_in_one_record() -> None:
    world = World()
    ask(world)
    world.grant("1", 0)
    decision = ask(world, b"other", existing=c.REPLACE)
    assert answer(decision) == SECOND
    kinds = [type(event) for event in world.records()[-1][1].events]
    assert kinds == [e.JobCancelled, e.TasksKilled, e.JobSubmitted]
    former = world.state.jobs[FIRST]
    assert (job_state(former), job_reason(former)) == ("KILLED", "replaced")
    assert answer(world.do(c.RetryTasks(job_id=FIRST))) == 0, "it does not come back"
    assert answer(ask(world, b"other")) == SECOND
    assert world.troubles() == ()


def test_a_finished_job_is_replaced_without_a_word() -> None:
    world = World()
    ask(world)
    (lease,) = world.grant("1", 0)
    world.commit("1", 0, lease)
    decision = ask(world, existing=c.REPLACE)
    assert isinstance(decision, Accepted)
    assert [type(event) for event in decision.events] == [e.JobSubmitted]
    assert job_state(world.state.jobs[FIRST]) == "SUCCEEDED"


def test_a_replaced_job_takes_its_children_along_and_cannot_be_the_parent() -> None:
    world = World()
    ask(world)
    world.submit("child", parent=FIRST)
    assert code(ask(world, existing=c.REPLACE, parent=FIRST)) is Reason.CONFLICT
    assert answer(ask(world, existing=c.REPLACE, after=(After(FIRST, condition="finish"),)))
    world.settle()
    child = world.state.jobs[JobId("child")]
    assert (job_state(child), job_reason(child)) == ("KILLED", "cancelled")
    assert SECOND in world.leasable()


def test_a_key_that_is_taken_can_be_refused() -> None:
    world = World()
    assert answer(ask(world, existing=c.REFUSE)) == FIRST
    before = world.fingerprint()
    assert code(ask(world, existing=c.REFUSE)) is Reason.CONFLICT
    assert code(ask(world, b"other", existing=c.REFUSE)) is Reason.CONFLICT
    assert world.fingerprint() == before
    world.sleep(HOUR_MS)
    assert answer(ask(world, existing=c.REFUSE, unique_for_ms=HOUR_MS)) == SECOND


@pytest.mark.parametrize(
    "policy", [{"existing": "nonsense"}, {"unique_for_ms": -1}, {"unique_for_ms": 10**16}]
)
def test_a_policy_nobody_knows_is_refused(policy: dict[str, object]) -> None:
    assert code(ask(World(), **policy)) is Reason.INVALID


@pytest.mark.parametrize("policy", [{"existing": c.REPLACE}, {"unique_for_ms": 5}])
def test_a_policy_needs_a_key(policy: dict[str, object]) -> None:
    assert code(World().submit("j", **policy)) is Reason.INVALID


def failed() -> World:
    world = World()
    world.submit("j", 2, spec=SPEC)
    one, two = world.grant("j", 0, 1)
    world.fail("j", 0, one)
    world.commit("j", 1, two)
    return world


EDITS: dict[str, object] = {
    "retries": 3, "max_losses": 0, "retry": RetryPolicy(kind="none"), "timeout_ms": 5,
    "cpus_milli": 4_000, "memory_bytes": 1, "gpus": 1, "priority": 9, "queue": "slow",
    "labels": (("a", "b"),), "max_failed_tasks": 1, "max_parallel": 1,
    "placing": Placing(constraints=(Constraint("zone", "eq", ("eu",)),)),
}  # fmt: skip
FIXED: dict[str, object] = {
    "kind": "other", "target": "other", "name": "other", "namespace": "other", "user": "other",
    "bundle": "other", "on_disconnect": "stop", "placing": Placing(gang=True),
}  # fmt: skip


@pytest.mark.parametrize("field", EDITS)
def test_a_finished_job_is_sent_back_under_other_terms(field: str) -> None:
    world = failed()
    spec = msgspec.structs.replace(SPEC, **{field: EDITS[field]})
    events = world.did(c.RetryTasks(job_id=JobId("j"), spec=spec))
    assert [type(event) for event in events] == [e.JobRespecified, e.TasksRetried]
    assert world.state.jobs[JobId("j")].spec == spec
    assert world.leasable() == {JobId("j"): [0]}
    assert world.troubles() == ()
    assert fingerprint(world.replayed()) == world.fingerprint()
    world.crash(snapshot=True)
    assert world.leasable() == {JobId("j"): [0]}


@pytest.mark.parametrize("field", FIXED)
def test_what_runs_cannot_change(field: str) -> None:
    world = failed()
    spec = msgspec.structs.replace(SPEC, **{field: FIXED[field]})
    before = world.fingerprint()
    decision = world.do(c.RetryTasks(job_id=JobId("j"), spec=spec))
    assert code(decision) is Reason.INVALID
    assert world.fingerprint() == before


def test_other_terms_are_judged_like_those_of_a_submit() -> None:
    world = failed()
    spec = msgspec.structs.replace(SPEC, retries=-1)
    assert code(world.do(c.RetryTasks(job_id=JobId("j"), spec=spec))) is Reason.INVALID


def test_terms_change_only_once_the_job_has_ended() -> None:
    world = World()
    world.submit("j", 2, spec=SPEC)
    (lease,) = world.grant("j", 0)
    world.fail("j", 0, lease)
    spec = msgspec.structs.replace(SPEC, priority=9)
    retry = c.RetryTasks(job_id=JobId("j"), indices=(Index(0),), spec=spec)
    assert code(world.do(retry)) is Reason.INVALID_TRANSITION
    same = msgspec.structs.replace(retry, spec=SPEC)
    assert [type(event) for event in world.did(same)] == [e.TasksRetried]


def test_resolution_000_13_a_scheduling_deadline_is_recorded_with_the_reasons() -> None:
    world = World()
    spec = msgspec.structs.replace(SPEC, schedule_timeout_ms=1_000)
    for job_id in "jk":
        world.submit(job_id, spec=spec)
    world.sleep(1_000)
    told = world.tick(reasons=((JobId("j"), "no worker has 8 gpus"),))
    assert {event.job_id: event.reason for event in told} == {  # type: ignore[union-attr]
        "j": "no worker has 8 gpus",
        "k": "no worker took it before its scheduling deadline",
    }
