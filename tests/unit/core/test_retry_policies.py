"""How long a failed task waits: by its policy, under its cap, with chance recorded and not asked
again."""

import math

import pytest

from holdfast.core import events as e
from holdfast.core.decision import Accepted, Reason, Refused
from holdfast.core.freeze import fingerprint
from holdfast.core.spec import JobSpec, RetryPolicy, loss_delay_ms, retry_delay_ms, retry_problem
from holdfast.testing.world import World

STEADY = {"delay_ms": 100, "factor": 2.0, "max_delay_ms": 1_000, "jitter": 0.0}


def delays(kind: str, count: int = 6) -> list[int]:
    policy = RetryPolicy(kind=kind, **STEADY)  # type: ignore[arg-type]
    return [retry_delay_ms(policy, failures, 0.0) for failures in range(1, count + 1)]


def test_none_tries_again_at_once() -> None:
    assert delays("none") == [0] * 6


def test_fixed_waits_the_same_each_time() -> None:
    assert delays("fixed") == [100] * 6


def test_linear_waits_one_step_more_each_time() -> None:
    assert delays("linear") == [100, 200, 300, 400, 500, 600]


def test_exponential_doubles_up_to_its_cap() -> None:
    assert delays("exponential") == [100, 200, 400, 800, 1_000, 1_000]


@pytest.mark.parametrize("kind", ["fixed", "linear", "exponential"])
@pytest.mark.parametrize("failures", [1, 2, 64, 65, 1_000, 10**6])
def test_no_delay_is_above_its_cap_or_below_zero(kind: str, failures: int) -> None:
    policy = RetryPolicy(kind=kind, **STEADY)  # type: ignore[arg-type]
    assert 0 <= retry_delay_ms(policy, failures, 0.0) <= 1_000


@pytest.mark.parametrize("kind", ["fixed", "linear", "exponential"])
@pytest.mark.parametrize("failures", [1, 2, 7])
def test_a_delay_that_was_asked_for_is_not_cut_by_a_cap_that_was_not(
    kind: str, failures: int
) -> None:
    five_minutes = RetryPolicy(kind=kind, delay_ms=300_000, jitter=0.0)
    assert retry_delay_ms(five_minutes, failures, 0.0) == 300_000


@pytest.mark.parametrize("roll", [0.0, 0.25, 0.5, 0.999])
def test_jitter_takes_away_its_share_and_no_more(roll: float) -> None:
    policy = RetryPolicy(kind="fixed", delay_ms=1_000, jitter=0.5)
    assert retry_delay_ms(policy, 1, roll) == int(1_000 * (1 - 0.5 * roll))


def waits(roll: float) -> tuple[World, int]:
    world = World()
    policy = RetryPolicy(kind="fixed", delay_ms=1_000, jitter=1.0)
    world.submit("j", spec=JobSpec(name="n", kind="k", target="t", retries=3, retry=policy))
    (lease_id,) = world.grant("j")
    decision = world.fail("j", 0, lease_id, roll=roll)
    assert isinstance(decision, Accepted)
    (end,) = [end for event in decision.events if isinstance(event, e.AttemptsReturned)
              for end in event.ends]  # fmt: skip
    return world, end.not_before - world.now


def test_chance_decides_once_and_the_outcome_is_in_the_record() -> None:
    assert waits(0.25)[1] == 750
    assert waits(0.75)[1] == 250


def test_replay_throws_no_dice() -> None:
    world, wait_ms = waits(0.4)
    replayed = world.replayed()
    assert fingerprint(replayed) == world.fingerprint()
    task = (replayed.jobs["j"].tasks or {})[0]  # type: ignore[index]
    assert task.not_before == world.now + wait_ms


def test_a_task_that_backs_off_is_not_leased_before_its_time() -> None:
    world, wait_ms = waits(0.4)
    world.sleep(wait_ms - 1)
    assert world.leasable() == {}
    assert world.grant("j") == ()
    world.sleep(1)
    assert world.leasable() == {"j": [0]}
    assert world.grant("j")


def test_a_first_loss_costs_no_time_and_further_ones_cost_more() -> None:
    assert [loss_delay_ms(losses) for losses in range(6)] == [0, 0, 100, 200, 400, 800]
    assert loss_delay_ms(10**6) == 30_000


@pytest.mark.parametrize(
    "policy",
    [
        RetryPolicy(kind="sometimes"),
        RetryPolicy(delay_ms=-1),
        RetryPolicy(delay_ms=10**400),
        RetryPolicy(max_delay_ms=-1),
        RetryPolicy(factor=math.nan),
        RetryPolicy(factor=math.inf),
        RetryPolicy(factor=1e300),
        RetryPolicy(factor=-2.0),
        RetryPolicy(jitter=1.5),
        RetryPolicy(jitter=-0.1),
        RetryPolicy(jitter=math.nan),
    ],
    ids=str,
)
def test_a_policy_that_cannot_be_computed_is_refused_when_it_is_submitted(
    policy: RetryPolicy,
) -> None:
    assert retry_problem(policy)
    world = World()
    decision = world.submit("j", spec=JobSpec(name="n", kind="k", target="t", retry=policy))
    assert isinstance(decision, Refused)
    assert decision.code is Reason.INVALID
    assert world.state.jobs == {}


@pytest.mark.parametrize("roll", [-0.1, 1.0, 2.0, math.nan, math.inf])
def test_a_throw_that_is_none_is_refused(roll: float) -> None:
    world = World()
    world.submit("j", spec=JobSpec(name="n", kind="k", target="t", retries=3))
    (lease_id,) = world.grant("j")
    decision = world.fail("j", 0, lease_id, roll=roll)
    assert isinstance(decision, Refused)
    assert decision.code is Reason.INVALID


def test_every_good_policy_passes() -> None:
    for kind in ("none", "fixed", "linear", "exponential"):
        assert retry_problem(RetryPolicy(kind=kind)) == ""
