"""What is more urgent takes the place of what is less, free of charge and never in turn."""

from itertools import product
from random import Random

import msgspec
import pytest

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decision import Accepted, Decision, Reason, Refused
from holdfast.core.freeze import fingerprint, freeze, thaw
from holdfast.core.ids import Index, JobId, LeaseId, WorkerId
from holdfast.core.placing import Placing
from holdfast.core.spec import STOP, JobSpec, RetryPolicy
from holdfast.core.task import TaskState
from holdfast.testing.world import World

W = WorkerId("w")
HOUR_MS = 3_600_000
LOW = JobSpec(name="n", kind="k", target="t", max_losses=0)
URGENT = msgspec.structs.replace(LOW, priority=5, placing=Placing(preempts=True))


def code(decision: Decision) -> Reason | None:
    return decision.code if isinstance(decision, Refused) else None


def preempt(world: World, *leases: int, by: str = "") -> Decision:
    named = tuple(map(LeaseId, leases))
    return world.do(c.PreemptAttempts(leases=named, reason="for job u", by=JobId(by)))


@pytest.mark.parametrize("started", [False, True])
def test_resolution_000_25_preempted_attempts_cost_nothing_however_often(started: bool) -> None:
    world = World()
    world.submit("j", spec=LOW)
    for _ in range(20):
        (lease,) = world.grant("j", 0)
        if started:
            world.start("j", 0, lease)
        decision = preempt(world, lease)
        assert isinstance(decision, Accepted)
        assert decision.answer == (lease,)
        task = world.task("j")
        assert (task.state, task.failures, task.losses) == (TaskState.WAITING, 0, 0)
        assert task.avoid == ""
    end = world.records()[-1][1].events[0].ends[0]  # type: ignore[union-attr]
    assert (end.reason, end.error, end.charged) == ("preempted", "for job u", "")
    assert world.troubles() == ()


@pytest.mark.parametrize("started", [False, True])
def test_what_must_not_outlive_its_lease_waits_until_that_is_over_elsewhere(started: bool) -> None:
    """Its worker runs it until it hears of this; or began it, and we have not heard of that."""
    world = World()
    world.submit("j", spec=msgspec.structs.replace(LOW, on_disconnect=STOP))
    world.submit("plain", spec=LOW)
    (lease,) = world.grant("j", 0, term_ms=15_000)
    (plain,) = world.grant("plain", 0, term_ms=15_000)
    until = world.now + 15_000
    if started:
        world.start("j", 0, lease)
    preempt(world, lease, plain)
    assert (world.task("j").not_before, world.task("plain").not_before) == (until, 0)
    assert world.grant("j", 0) == ()
    world.sleep(until - world.now)
    assert world.grant("j", 0) != ()
    assert world.troubles() == ()


@pytest.mark.parametrize("by_snapshot", [False, True])
def test_what_is_left_of_a_lease_is_waited_for_by_a_server_whose_clock_is_ahead(
    by_snapshot: bool,
) -> None:
    """Where it was taken away its worker may run it still, for as long as it was told."""
    world = World()
    bound = msgspec.structs.replace(LOW, on_disconnect=STOP, retries=1)
    slow = msgspec.structs.replace(bound, retry=RetryPolicy(kind="fixed", delay_ms=HOUR_MS))
    for name, spec in (("j", bound), ("slow", slow), ("plain", LOW)):
        world.submit(name, spec=spec)
    leases = {name: world.grant(name, 0, term_ms=15_000)[0] for name in ("j", "slow", "plain")}
    world.fail("slow", 0, leases["slow"])
    preempt(world, leases["plain"])
    world.sleep(5_000)
    preempt(world, leases["j"])
    backoff = world.task("slow").not_before
    world.crash(snapshot=by_snapshot)
    world.sleep(60_000)
    opened = world.open(term_ms=15_000)
    assert [type(event) for event in opened] == [e.LogOpened, e.LeasesRearmed]
    assert world.task("j").not_before == world.now + 10_000
    assert world.task("slow").not_before == backoff, "a wait that is longer than any lease goes on"
    assert world.task("plain").not_before == 0
    world.sleep(9_999)
    assert world.grant("j", 0) == ()
    world.sleep(1)
    assert world.grant("j", 0) != ()
    assert world.grant("plain", 0) != ()
    assert world.troubles() == ()
    assert fingerprint(world.replayed()) == world.fingerprint()


def test_an_opening_moves_nothing_that_waits_for_no_lease() -> None:
    world = World()
    world.submit("j", spec=msgspec.structs.replace(LOW, retries=1))
    (lease,) = world.grant("j", 0)
    world.fail("j", 0, lease)
    world.crash()
    assert [type(event) for event in world.open()] == [e.LogOpened]


def test_a_lease_of_a_longer_term_than_the_next_server_gives_is_kept() -> None:
    """Its worker was told so, and keeps to it while it hears nothing."""
    world = World()
    world.submit("j", spec=msgspec.structs.replace(LOW, on_disconnect=STOP))
    world.grant("j", 0, term_ms=60_000)
    world.crash()
    world.sleep(5_000)
    world.open(term_ms=15_000)
    assert world.task("j").expires_at == world.now + 60_000
    assert world.troubles() == ()


def test_a_late_result_of_what_was_preempted_is_refused() -> None:
    world = World()
    world.submit("j", spec=LOW)
    (lease,) = world.grant("j", 0)
    preempt(world, lease)
    decision = world.commit("j", 0, lease)
    assert isinstance(decision, Accepted)
    assert decision.events == ()


def test_what_has_ended_already_is_passed_over() -> None:
    world = World()
    world.submit("j", 2, spec=LOW)
    one, two = world.grant("j", 0, 1)
    world.commit("j", 0, one)
    decision = preempt(world, one, two, 99)
    assert isinstance(decision, Accepted)
    assert decision.answer == (two,)
    assert isinstance(preempt(world, one, two, 99), Accepted)


@pytest.mark.parametrize(
    ("priority", "rank", "urgency"), list(product((-2, 0, 3), (None, 0, 4), (-2, 0, 3, 4, 5)))
)
def test_only_what_ranks_below_a_jobs_own_priority_makes_room_for_it(
    priority: int, rank: int | None, urgency: int
) -> None:
    world = World()
    world.submit("j", spec=msgspec.structs.replace(LOW, priority=priority))
    world.submit("u", spec=msgspec.structs.replace(URGENT, priority=urgency))
    grant = c.GrantLeases(
        job_id=JobId("j"), worker=W, incarnation=1, slot=0, indices=(Index(0),),
        term_ms=0, rank=rank,
    )  # fmt: skip
    world.did(grant)
    stamped = world.task("j").rank
    assert stamped == max(priority, priority if rank is None else rank)
    refused = code(preempt(world, world.task("j").lease_id, by="u"))
    assert refused is (None if urgency > stamped else Reason.CONFLICT)


def test_only_a_job_that_asks_for_room_is_made_room_for() -> None:
    world = World()
    world.submit("j", spec=LOW)
    world.submit("u", spec=msgspec.structs.replace(LOW, priority=9))
    (lease,) = world.grant("j", 0)
    assert code(preempt(world, lease, by="u")) is Reason.INVALID
    assert code(preempt(world, lease, by="nobody")) is Reason.NOT_FOUND


def test_two_jobs_never_evict_each_other_in_turn(dice: Random) -> None:
    """Whatever they rank by waiting: if one may evict the other, never the other way round."""
    for _ in range(60):
        world = World()
        specs = [msgspec.structs.replace(URGENT, priority=dice.randrange(4)) for _ in range(2)]
        leases = {}
        for name, spec in zip("ab", specs, strict=True):
            world.submit(name, spec=spec)
            rank = spec.priority + dice.randrange(4)
            world.did(
                c.GrantLeases(
                    job_id=JobId(name), worker=W, incarnation=1, slot=0,
                    indices=(Index(0),), term_ms=0, rank=rank,
                )
            )  # fmt: skip
            leases[name] = world.task(name).lease_id
        a_may = code(preempt(copy_of(world), leases["b"], by="a")) is None
        b_may = code(preempt(copy_of(world), leases["a"], by="b")) is None
        assert not (a_may and b_may)


def copy_of(world: World) -> World:
    """A world of its own in the same state."""
    copy = World(opened=False)
    copy.log = list(world.log)
    copy.crash()
    copy.now, copy.wall = world.now, world.wall
    return copy


def test_a_rank_lives_as_long_as_its_lease_and_survives_a_snapshot() -> None:
    world = World()
    world.submit("j", 2, spec=LOW)
    world.did(
        c.GrantLeases(
            job_id=JobId("j"), worker=W, incarnation=1, slot=0,
            indices=(Index(0), Index(1)), term_ms=0, rank=7,
        )
    )  # fmt: skip
    tasks = thaw(freeze(world.state)).jobs[JobId("j")].tasks or {}
    assert [task.rank for task in tasks.values()] == [7, 7]
    preempt(world, world.task("j").lease_id)
    assert world.task("j").rank == 0
    assert world.task("j", 1).rank == 7


@pytest.mark.parametrize("reason", ["failed", "timed_out", "worker_lost"])
def test_resolution_000_25_a_task_knows_the_worker_that_failed_it_last(reason: str) -> None:
    world = World()
    world.submit("j", spec=msgspec.structs.replace(LOW, retries=5, max_losses=5))
    (lease,) = world.grant("j", 0)
    world.fail("j", 0, lease, reason=reason)
    assert world.task("j").avoid == W
    world.sleep(60_000)
    (lease,) = world.grant("j", 0, worker="v")
    world.release("j", 0, lease, worker="v")
    assert world.task("j").avoid == W, "a worker that gave it back has not failed it"
    tasks = thaw(freeze(world.state)).jobs[JobId("j")].tasks or {}
    assert tasks[Index(0)].avoid == W
