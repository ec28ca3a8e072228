"""The retry budget of a job: no span of time has more retries, and none is given up for it."""

from random import Random

import msgspec
import pytest

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decide import decide
from holdfast.core.decision import Accepted, Refused
from holdfast.core.freeze import freeze, thaw
from holdfast.core.ids import NEVER, Index, Instant, JobId, Position, WorkerId
from holdfast.core.record import Record
from holdfast.core.reports import Failed
from holdfast.core.retrying import earliest, spend
from holdfast.core.spec import CircuitPolicy, JobSpec, RetryBudget, RetryPolicy
from holdfast.testing.world import World

MINUTE_MS = 60_000
SPEC = JobSpec(
    name="work", kind="function", target="m:f", retries=5, retry=RetryPolicy(kind="none"),
    retry_budget=RetryBudget(2, MINUTE_MS),
)  # fmt: skip


def fail(world: World, index: int, **said: str) -> e.End:
    (lease,) = world.grant("j", index)
    decision = world.fail("j", index, lease, **said)
    assert isinstance(decision, Accepted)
    (end,) = [
        end
        for event in decision.events
        if isinstance(event, e.AttemptsReturned | e.TasksQuarantined)
        for end in event.ends
    ]
    return end


def test_what_has_no_room_waits_until_it_has_and_says_so() -> None:
    world = World()
    world.submit("j", 9, spec=SPEC)
    begin = world.now
    assert [fail(world, i).not_before for i in range(2)] == [NEVER, NEVER]
    ends = [fail(world, i) for i in range(2, 6)]
    assert [end.not_before for end in ends] == [
        begin + MINUTE_MS, begin + MINUTE_MS, begin + 2 * MINUTE_MS, begin + 2 * MINUTE_MS,
    ]  # fmt: skip
    assert {end.wanted for end in ends} == {begin}
    assert world.task("j", 2).wanted == begin
    assert world.troubles() == ()


def test_its_own_pause_comes_first_where_that_is_longer() -> None:
    slow = msgspec.structs.replace(SPEC, retry=RetryPolicy("fixed", 3 * MINUTE_MS, jitter=0.0))
    world = World()
    world.submit("j", 9, spec=slow)
    ends = [fail(world, i) for i in range(3)]
    due = world.now + 3 * MINUTE_MS
    assert [end.not_before for end in ends] == [due, due, due + MINUTE_MS]
    assert [end.wanted for end in ends] == [NEVER, NEVER, due]
    assert world.troubles() == ()


def test_losses_and_last_failures_take_nothing_of_it() -> None:
    world = World()
    world.submit("j", 9, spec=msgspec.structs.replace(SPEC, retries=0))
    fail(world, 0, reason="worker_lost")
    assert fail(world, 1).not_before == NEVER
    assert world.state.retries_away == {}


def test_a_person_may_pass_it_by() -> None:
    world = World()
    world.submit("j", 9, spec=SPEC)
    for index in range(3):
        fail(world, index)
    assert world.grant("j", 2) == ()
    world.did(c.RescheduleTask(job_id=JobId("j"), index=Index(2)))
    assert world.task("j", 2).wanted == NEVER
    assert world.grant("j", 2) != ()


def test_it_goes_with_the_job_and_survives_a_snapshot() -> None:
    world = World()
    world.submit("j", 1, spec=SPEC)
    fail(world, 0)
    assert thaw(freeze(world.state)).retries_away == world.state.retries_away != {}
    (lease,) = world.grant("j", 0)
    world.commit("j", 0, lease)
    assert world.state.retries_away == {}
    assert world.troubles() == ()


@pytest.mark.parametrize(
    "guard",
    [
        {"retry_budget": RetryBudget(-1, 5)}, {"retry_budget": RetryBudget(5, 0)},
        {"retry_budget": RetryBudget(10**6, 5)}, {"circuit": CircuitPolicy(0, 5)},
        {"circuit": CircuitPolicy(5, 10**14)}, {"circuit": CircuitPolicy(-1, -1)},
    ],
)  # fmt: skip
def test_a_guard_that_makes_no_sense_is_refused(guard: dict[str, object]) -> None:
    world = World()
    refused = world.submit("j", 1, spec=msgspec.structs.replace(SPEC, **guard))
    assert isinstance(refused, Refused)
    assert next(iter(guard)) in refused.message


@pytest.mark.parametrize("seed", range(40))
def test_no_span_wherever_it_begins_has_more_retries_than_the_budget(seed: int) -> None:
    dice = Random(seed)
    budget = RetryBudget(dice.choice((1, 2, 5)), 1_000)
    away: list[Instant] = []
    dues: list[int] = []
    now = 1_000
    for _ in range(200):
        now += dice.choice((0, 0, 1, 50, 700, 3_000))
        wanted = Instant(now + dice.choice((0, 10, 999, 1_000, 5_000)))
        due = earliest(away, budget, wanted)
        assert due >= wanted
        spend(away, budget, due, Instant(now))
        assert len(away) <= budget.retries
        dues.append(due)
    dues.sort()
    spans = zip(dues, dues[budget.retries :], strict=False)
    assert all(last - first >= budget.per_ms for first, last in spans)


def test_the_watch_objects_to_more_retries_than_the_budget() -> None:
    world = World()
    world.submit("j", 9, spec=SPEC)
    fail(world, 0)
    fail(world, 1)
    (lease,) = world.grant("j", 2)
    decision = decide(
        world.state,
        c.FailAttempt(
            worker=WorkerId("w"), incarnation=1, roll=0.0,
            failed=Failed(JobId("j"), Index(2), lease, 0, "failed", "boom", "", 1),
        ),
        world.now,
    )  # fmt: skip
    assert isinstance(decision, Accepted)
    started, returned = decision.events
    assert isinstance(returned, e.AttemptsReturned)
    at_once = msgspec.structs.replace(returned.ends[0], not_before=NEVER, wanted=NEVER)
    lie = msgspec.structs.replace(returned, ends=(at_once,))
    record = Record(world.now, "Test", "test", "", "", (started, lie))
    names = {v.name for v in world.watch.feed(Position(len(world.log) + 1), record)}
    assert names == {"B5"}


def test_a_job_that_is_sent_back_on_other_terms_is_judged_by_those() -> None:
    strict = msgspec.structs.replace(
        SPEC, kind="command", retries=0, retry_budget=RetryBudget(1, MINUTE_MS),
        circuit=CircuitPolicy(1, MINUTE_MS),
    )  # fmt: skip
    world = World()
    world.submit("j", 2, spec=strict)
    leases = [world.grant("j", index)[0] for index in (0, 1)]
    for index, lease in enumerate(leases):
        world.fail("j", index, lease)
    lenient = msgspec.structs.replace(
        strict, retries=1, retry_budget=RetryBudget(5, 1_000), circuit=CircuitPolicy()
    )
    world.did(c.RetryTasks(job_id=JobId("j"), spec=lenient))
    assert [fail(world, index).not_before for index in (0, 1)] == [NEVER, NEVER]
    assert world.troubles() == ()
