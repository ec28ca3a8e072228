"""What an operator may force: every state against every target, and what is recorded."""

from itertools import product

import pytest

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decide.forced import (
    COMMITTED_STAYS,
    ENDED_STAYS,
    FORCED,
    HOLDERS_COMMIT,
    LEASES_ARE_GRANTED,
    MOVES,
    PERSON_SAID_NO,
    SOMEBODY_TOOK_IT,
    SUCCEEDED_STAYS,
)
from holdfast.core.decision import Accepted, Reason, Refused
from holdfast.core.ids import Index, JobId
from holdfast.core.job import job_state, state_of
from holdfast.core.placing import Placing
from holdfast.core.spec import JobSpec
from holdfast.core.task import TaskState
from holdfast.core.transactions import transaction_of
from holdfast.testing.stages import JOB, STAGES, Stage, stage_of
from holdfast.testing.world import World

GANG = JobSpec(name="n", kind="k", target="t", placing=Placing(gang=True))
SAID_NO = ("killed by a person", "given up", "given up, never placed")
IN_A_GANG = ("fresh in a gang", "leased in a gang", "running in a gang")
W, L, R, C, S, Q, K, U = TaskState

# Written down a second time, by hand: the fourteen pairs that may be forced, and why not the rest.
ALLOWED = {
    (L, W), (R, W), (Q, W), (U, W), (K, W), (W, Q), (L, Q), (R, Q), (W, K), (L, K), (R, K), (Q, K),
    (U, K), (W, U),
}  # fmt: skip
WHY_NOT = {
    **dict.fromkeys(product((W, L, R, Q, K, U), (L, R)), LEASES_ARE_GRANTED),
    **dict.fromkeys(product((W, L, R, Q, K, U), (C, S)), HOLDERS_COMMIT),
    **dict.fromkeys(product((C,), TaskState), COMMITTED_STAYS),
    **dict.fromkeys(product((S,), TaskState), SUCCEEDED_STAYS),
    (L, U): SOMEBODY_TOOK_IT,
    (R, U): SOMEBODY_TOOK_IT,
    (Q, U): ENDED_STAYS,
    (K, Q): ENDED_STAYS,
    (K, U): ENDED_STAYS,
    (U, Q): ENDED_STAYS,
}


def force(stage: Stage, target: str, reason: str = "by hand") -> Accepted | Refused:
    return stage.world.do(
        c.ForceTask(job_id=JOB, index=Index(0), target=target, reason=reason)
    )


def test_every_pair_is_a_move_or_has_its_sentence() -> None:
    assert set(MOVES) == ALLOWED
    assert set(FORCED) == {(a, b) for a, b in product(TaskState, TaskState) if a is not b}
    told = {pair: row for pair, row in FORCED.items() if isinstance(row, str)}
    assert told == {pair: WHY_NOT[pair] for pair in set(FORCED) - ALLOWED}


@pytest.mark.parametrize(("name", "target"), list(product(STAGES, TaskState)))
def test_every_state_is_forced_to_every_other_or_the_refusal_says_why(
    name: str, target: TaskState
) -> None:
    stage = stage_of(name)
    before, source = stage.world.fingerprint(), stage.state
    how_it_ended = job_state(stage.world.state.jobs[JOB])
    decision = force(stage, target.name)
    after = state_of(stage.world.state.jobs[JOB], Index(0))
    if source is target:
        assert decision == Accepted((), 0)
    elif (source, target) not in ALLOWED:
        assert isinstance(decision, Refused)
        assert decision.code is Reason.INVALID_TRANSITION
        assert WHY_NOT[source, target] in decision.message
    elif name in SAID_NO and target is W:
        assert isinstance(decision, Refused)
        assert PERSON_SAID_NO in decision.message
    elif name in IN_A_GANG and target is K:
        assert isinstance(decision, Refused)
        assert "cancel the job" in decision.message
    elif name == "killed by its dependency" and target is W:
        # It comes back blocked; what it came after has not been sent back.
        assert after is W
        return
    else:
        assert after is target
        assert stage.world.troubles() == ()
        assert isinstance(decision, Accepted)
        assert decision.events[0] == e.TaskForced(
            job_id=JOB, index=Index(0), source=source.name, target=target.name, reason="by hand"
        )
        if (source, target) in ((Q, K), (U, K)):
            assert job_state(stage.world.state.jobs[JOB]) is how_it_ended
        return
    assert stage.world.fingerprint() == before


@pytest.mark.parametrize("name", ["leased", "running", "running by time"])
def test_whoever_had_it_is_fenced_and_charged_nothing(name: str) -> None:
    stage = stage_of(name)
    force(stage, "WAITING")
    task = stage.world.task(JOB)
    assert (task.failures, task.losses, task.attempt) == (0, 0, 1)
    late = stage.world.commit(JOB, 0, stage.lease_id)
    assert isinstance(late, Accepted)
    assert late.events == ()
    (again,) = stage.world.grant(JOB, 0)
    assert again > stage.lease_id
    assert stage.world.task(JOB).attempt == 2
    assert stage.world.troubles() == ()


@pytest.mark.parametrize("target", ["WAITING", "QUARANTINED"])
def test_a_gang_moves_whole(target: str) -> None:
    world = World()
    world.submit(JOB, 2, spec=GANG)
    world.grant_gang(JOB, "v", "w")
    world.did(c.ForceTask(job_id=JOB, index=Index(0), target=target, reason="by hand"))
    job = world.state.jobs[JOB]
    assert {state_of(job, Index(i)).name for i in (0, 1)} == {target}
    assert world.troubles() == ()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"reason": " "}, Reason.INVALID),
        ({"target": "nowhere"}, Reason.INVALID),
        ({"index": Index(9)}, Reason.NOT_FOUND),
        ({"job_id": JobId("nobody")}, Reason.NOT_FOUND),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict[str, object], code: Reason) -> None:
    stage = stage_of("running")
    given = {"job_id": JOB, "index": Index(0), "target": "WAITING", "reason": "by hand"}
    decision = stage.world.do(c.ForceTask(**{**given, **changes}))  # type: ignore[arg-type]
    assert isinstance(decision, Refused)
    assert decision.code is code


def test_001_94_it_is_recorded_as_what_it_is() -> None:
    stage = stage_of("running")
    force(stage, "QUARANTINED")
    position, record = stage.world.records()[-1]
    actions = {a.action: a.details for a in transaction_of(record, position).actions}
    assert actions["task_forced"] == {"from": "RUNNING", "to": "QUARANTINED", "reason": "by hand"}
    assert actions["task_set_aside"]["cause"] == "operator"


def test_a_task_with_a_past_keeps_it_when_nobody_is_to_take_it() -> None:
    stage = stage_of("backing off")
    past = stage.world.task(JOB).previous
    decision = force(stage, "UNSCHEDULABLE")
    assert isinstance(decision, Accepted)
    event = decision.events[1]
    assert isinstance(event, e.TasksUnschedulable)
    assert event.stopped == (e.Stopped(Index(0), past),)
