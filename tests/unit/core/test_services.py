"""Service jobs: replicas that end only when they are told to, begun again out of a budget that
refills with time."""

from random import Random

import msgspec
import pytest

from holdfast.core import commands as c
from holdfast.core import commands_schedules as s
from holdfast.core import events as e
from holdfast.core.commands_operations import RestoreTasks
from holdfast.core.decision import Accepted, Decision, Reason, Refused
from holdfast.core.freeze import fingerprint, freeze, thaw
from holdfast.core.ids import Index, Instant, JobId, Position
from holdfast.core.job import JobState, job_reason, job_state, state_of
from holdfast.core.placing import Placing
from holdfast.core.record import Record
from holdfast.core.schedule import Definition, Timing
from holdfast.core.service import FALLS, FALLS_MS, shunned, used
from holdfast.core.spec import JobSpec, RetryBudget, ServicePolicy
from holdfast.core.task import TaskState
from holdfast.core.transactions import transaction_of
from holdfast.testing.world import World

JOB = JobId("web")
POLICY = ServicePolicy(
    restarts=3, refill_ms=100_000, delay_ms=1_000, max_delay_ms=5_000, steady_ms=60_000
)
SPEC = JobSpec(name="web", kind="service", target="", service=POLICY)


def served(replicas: int = 1, policy: ServicePolicy = POLICY) -> World:
    world = World()
    spec = msgspec.structs.replace(SPEC, service=policy)
    assert isinstance(
        world.submit(JOB, spec=spec, items=(b"plan",) * replicas, sealed=False), Accepted
    )
    return world


def begun(world: World, index: int = 0, worker: str = "w", term_ms: int = 0) -> int:
    """A replica runs; under which lease."""
    (lease_id,) = world.grant(JOB, index, worker=worker, term_ms=term_ms)
    world.start(JOB, index, lease_id, worker=worker)
    return lease_id


def ended(world: World, index: int = 0, ran_ms: int = 100, worker: str = "w") -> e.End:
    """A replica was begun as soon as it could be, ran for a while, and ended by itself."""
    task = (world.state.jobs[JOB].tasks or {}).get(Index(index))
    if task is not None and task.not_before > world.now:
        world.sleep(task.not_before - world.now)
    lease_id = begun(world, index, worker)
    world.sleep(ran_ms)
    decision = world.fail(JOB, index, lease_id, worker=worker)
    assert isinstance(decision, Accepted)
    (event,) = [told for told in decision.events if hasattr(told, "ends")]
    return event.ends[0]


def state(world: World, index: int = 0) -> TaskState:
    return state_of(world.state.jobs[JOB], Index(index))


def refusal(decision: Decision) -> tuple[Reason, str]:
    assert isinstance(decision, Refused), decision
    return decision.code, decision.message


def test_a_replica_that_ends_by_itself_is_begun_again_later_each_time() -> None:
    world = served()
    ends = [ended(world) for _ in range(3)]
    assert [end.restarts for end in ends] == [1, 2, 3]
    delays = [end.not_before for end in ends]
    assert world.now == delays[-1] - 4_000
    assert {end.charged for end in ends} == {"restarts"}
    assert [(end.failures, end.losses) for end in ends] == [(0, 0)] * 3
    assert state(world) is TaskState.WAITING
    assert world.troubles() == ()


def test_the_wait_is_bounded_and_begins_anew_after_a_steady_run() -> None:
    policy = msgspec.structs.replace(POLICY, restarts=100)
    world = served(policy=policy)
    waits = []
    for ran_ms in (1, 1, 1, 1, 60_000, 1):
        end = ended(world, ran_ms=ran_ms)
        waits.append(end.not_before - world.now)
    assert waits == [1_000, 2_000, 4_000, 5_000, 1_000, 2_000]


def test_a_spent_budget_is_quarantine_and_what_has_passed_is_paid_back() -> None:
    world = served()
    for _ in range(3):
        ended(world)
    replica = world.state.jobs[JOB].service.replicas[Index(0)]
    assert used(POLICY, replica, world.now) == 3
    # Ever so slowly one comes back: then it may fall once more, and not twice.
    world.sleep(100_000)
    assert used(POLICY, replica, world.now) == 2
    assert ended(world).restarts == 4
    assert state(world) is TaskState.WAITING
    ended(world)
    assert state(world) is TaskState.QUARANTINED
    assert job_state(world.state.jobs[JOB]) is JobState.RUNNING
    assert world.troubles() == ()


def test_a_service_may_fail_now_and_then_for_ever() -> None:
    world = served()
    for _ in range(50):
        ended(world, ran_ms=100_000)
    assert state(world) is TaskState.WAITING
    assert world.state.jobs[JOB].service.replicas[Index(0)].total == 50


def test_a_manual_retry_begins_afresh() -> None:
    world = served()
    while state(world) is not TaskState.QUARANTINED:
        ended(world)
    world.did(c.RetryTasks(job_id=JOB))
    assert world.state.jobs[JOB].service.replicas == {}
    end = ended(world)
    assert (end.restarts, end.whole_in_ms) == (1, 100_000)
    assert world.troubles() == ()


@pytest.mark.parametrize(
    "stop",
    [c.StopReplicas(job_id=JOB, indices=(Index(0),)), c.EndService(job_id=JOB)],
    ids=lambda stop: type(stop).__name__,
)
def test_a_replica_that_was_stopped_and_is_restored_begins_afresh(stop: c.Command) -> None:
    world = served()
    ended(world)
    world.did(stop)
    killed_at, indices = world.state.position, (Index(0),)
    world.did(RestoreTasks(job_id=JOB, killed_at=killed_at, indices=indices, items=(b"plan",)))
    # What it owed before is not paid back yet, and not owed any more.
    end = ended(world)
    assert (end.restarts, end.whole_in_ms) == (1, 100_000)
    assert world.troubles() == ()


@pytest.mark.parametrize("how", ["lost", "expired", "done", "stalled"])
def test_every_end_that_nobody_asked_for_charges_a_restart(how: str) -> None:
    world = served()
    lease_id = begun(world, term_ms=15_000 if how == "expired" else 0)
    world.sleep(20_000)
    if how == "lost":
        world.did(c.LoseWorker(worker="w", incarnation=1, error="it died"))
    elif how == "expired":
        world.tick()
    elif how == "done":
        world.commit(JOB, 0, lease_id, result=b"a result")
    else:
        world.did(
            c.RecoverStalled(job_id=JOB, index=Index(0), lease_id=lease_id, error="", delay_ms=0)
        )
    assert world.state.jobs[JOB].service.replicas[Index(0)].restarts == 1
    task = world.task(JOB)
    assert (task.failures, task.losses, task.state) == (0, 0, TaskState.WAITING)
    assert task.not_before == world.now + 1_000
    assert world.troubles() == ()


def test_a_replica_that_says_it_is_done_has_exited() -> None:
    world = served(2)
    (first, second) = world.grant(JOB, 0, 1)
    decision = world.commit(JOB, 0, first)
    assert isinstance(decision, Accepted)
    started, returned = decision.events
    assert isinstance(started, e.AttemptsStarted)
    assert isinstance(returned, e.AttemptsReturned)
    assert (returned.ends[0].error, returned.ends[0].exit_code) == ("exited 0", 0)
    assert (state(world, 0), state(world, 1)) == (TaskState.WAITING, TaskState.LEASED)
    assert second


@pytest.mark.parametrize("reason", ["released", "preempted", "undelivered"])
def test_what_somebody_asked_for_charges_nothing(reason: str) -> None:
    world = served()
    (lease_id,) = world.grant(JOB, 0)
    world.release(JOB, 0, lease_id, reason=reason)
    assert world.state.jobs[JOB].service.replicas == {}
    assert state(world) is TaskState.WAITING


def test_one_that_never_gets_to_begin_is_charged_in_the_end() -> None:
    world = served()
    for _ in range(6):
        world.sleep(5_000)
        (lease_id,) = world.grant(JOB, 0)
        world.release(JOB, 0, lease_id, reason="undelivered")
    assert world.state.jobs[JOB].service.replicas[Index(0)].restarts == 1
    assert world.troubles() == ()


def test_replicas_are_added_for_as_long_as_it_lives() -> None:
    world = served()
    begun(world)
    world.did(c.AddTasks(job_id=JOB, first=1, items=(b"plan", b"other")))
    assert world.state.jobs[JOB].count == 3
    assert world.did(c.AddTasks(job_id=JOB, first=1, items=(b"plan", b"other"))) == ()
    world.did(c.StopReplicas(job_id=JOB, indices=(Index(0), Index(1), Index(2))))
    world.did(c.AddTasks(job_id=JOB, first=3, items=(b"plan",)))
    assert state(world, 3) is TaskState.WAITING
    assert world.troubles() == ()


def test_stopped_replicas_end_free_of_charge_and_stay_ended() -> None:
    world = served(4)
    begun(world, 0)
    ended(world, 1)
    while state(world, 2) is not TaskState.QUARANTINED:
        ended(world, 2)
    indices = tuple(map(Index, range(4)))
    events = world.did(c.StopReplicas(job_id=JOB, indices=indices, reason="scaled down"))
    killed, purged = events
    assert isinstance(killed, e.TasksKilled)
    assert [(end.index, end.reason, end.charged) for end in killed.ends] == [(0, "stopped", "")]
    assert killed.cause == "stopped"
    assert isinstance(purged, e.TasksPurged)
    assert [state(world, index) for index in range(4)] == [TaskState.KILLED] * 4
    assert world.state.jobs[JOB].service.replicas == {}
    assert world.did(c.StopReplicas(job_id=JOB, indices=indices)) == ()
    assert world.did(c.RetryTasks(job_id=JOB)) == ()
    # The service goes on without replicas.
    assert job_state(world.state.jobs[JOB]) is JobState.RUNNING
    assert world.troubles() == ()


def test_a_service_that_is_ended_takes_nothing_more() -> None:
    world = served(2)
    begun(world)
    world.did(c.EndService(job_id=JOB, reason="not needed"))
    job = world.state.jobs[JOB]
    assert (job_state(job), job_reason(job)) == (JobState.KILLED, "stopped")
    assert job.quarantined == 0
    assert world.did(c.EndService(job_id=JOB)) == ()
    code, _ = refusal(world.do(c.AddTasks(job_id=JOB, first=2, items=(b"plan",))))
    assert code is Reason.JOB_SEALED
    assert world.troubles() == ()


def test_an_empty_service_can_be_ended() -> None:
    world = World()
    world.submit(JOB, 0, spec=SPEC, sealed=False)
    world.did(c.EndService(job_id=JOB))
    assert job_state(world.state.jobs[JOB]) is JobState.KILLED


def test_only_a_service_has_replicas_to_stop() -> None:
    world = World()
    world.submit("j")
    for command in (
        c.StopReplicas(job_id=JobId("j"), indices=(Index(0),)),
        c.EndService(job_id=JobId("j")),
    ):
        code, told = refusal(world.do(command))
        assert code is Reason.INVALID
        assert "holdfast job cancel j" in told
    assert refusal(world.do(c.EndService(job_id=JobId("nobody"))))[0] is Reason.NOT_FOUND
    world = served()
    code, _ = refusal(world.do(c.StopReplicas(job_id=JOB, indices=(Index(9),))))
    assert code is Reason.NOT_FOUND
    assert refusal(world.do(c.SealJob(job_id=JOB, count=1)))[0] is Reason.INVALID_TRANSITION


def test_nobody_has_to_feed_a_service() -> None:
    world = served()
    world.tick(silent=(JOB,))
    world.crash()
    world.open()
    assert not world.state.jobs[JOB].sealed


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"retries": 1}, "retries"),
        ({"timeout_ms": 1}, "timeout_ms"),
        ({"stall_ms": 1}, "stall_ms"),
        ({"max_failed_tasks": 1}, "max_failed_tasks"),
        ({"retry_budget": RetryBudget(1, 1)}, "retry_budget"),
        ({"placing": Placing(gang=True)}, "gang"),
        ({"service": ServicePolicy(restarts=-1)}, "service"),
        ({"service": ServicePolicy(restarts=1, refill_ms=0)}, "service"),
        ({"service": ServicePolicy(restarts=1, delay_ms=-1)}, "service"),
        ({"service": ServicePolicy(restarts=1, endpoint="\0")}, "service"),
    ],
    ids=str,
)
def test_what_is_for_work_that_ends_is_no_wish_of_a_service(
    wrong: dict[str, object], told: str
) -> None:
    world = World()
    spec = msgspec.structs.replace(SPEC, **wrong)
    code, message = refusal(world.submit(JOB, spec=spec, items=(b"plan",), sealed=False))
    assert code is Reason.INVALID
    assert told in message


def test_a_service_is_neither_sealed_nor_an_array_nor_scheduled() -> None:
    world = World()
    assert refusal(world.submit(JOB, spec=SPEC, items=(b"plan",)))[0] is Reason.INVALID
    assert refusal(world.submit(JOB, 2, spec=SPEC, sealed=False))[0] is Reason.INVALID
    definition = Definition(timing=Timing(every_ms=5_000), spec=SPEC, items=(b"plan",))
    scheduled = s.SetSchedule(
        name="nightly", definition=definition, next_wall=Instant(world.wall + 5_000)
    )
    assert refusal(world.do(scheduled))[0] is Reason.INVALID


def test_a_worker_where_it_fell_too_often_of_late_is_shunned() -> None:
    world = served(2, msgspec.structs.replace(POLICY, restarts=100))
    for number in range(FALLS):
        assert shunned(world.state.falls, "web", world.now) == frozenset()
        ended(world, number % 2, worker="bad")
    ended(world, 0, worker="good")
    assert shunned(world.state.falls, "web", world.now) == {"bad"}
    assert shunned(world.state.falls, "other", world.now) == frozenset()
    world.sleep(FALLS_MS)
    assert shunned(world.state.falls, "web", world.now) == frozenset()
    ended(world, 0, worker="good")
    # What lies that far back is let go of, with the names of workers that are long gone.
    assert list(world.state.falls["web"]) == ["good"]
    assert world.troubles() == ()


def test_what_is_known_of_services_survives_a_snapshot() -> None:
    world = served(2)
    ended(world)
    ended(world, 1, worker="other")
    again = thaw(freeze(world.state))
    assert fingerprint(again) == world.fingerprint() == fingerprint(world.replayed())
    service = again.jobs[JOB].service
    assert service is not None
    assert service.replicas == world.state.jobs[JOB].service.replicas
    assert again.falls == world.state.falls


def test_the_watch_objects_to_a_budget_that_is_told_wrong() -> None:
    world = served()
    lease_id = begun(world)
    decision = world.fail(JOB, 0, lease_id)
    assert isinstance(decision, Accepted)
    (returned,) = decision.events
    assert isinstance(returned, e.AttemptsReturned)
    (end,) = returned.ends
    for wrong, name in (
        ({"whole_in_ms": 1}, "B6"),
        ({"whole_in_ms": 10**9}, "B4"),
        ({"charged": "failures"}, "B2"),
    ):
        lie = e.AttemptsReturned(job_id=JOB, ends=(msgspec.structs.replace(end, **wrong),))
        other = served()
        begun(other)
        record = Record(other.now, "Test", "test", "", "", (lie,))
        told = other.watch.feed(Position(len(other.log) + 1), record)
        assert name in {violation.name for violation in told}


def test_transactions_tell_a_stop_from_a_kill() -> None:
    world = served(2)
    begun(world)
    world.did(c.StopReplicas(job_id=JOB, indices=(Index(0),), reason="scaled down"))
    world.did(c.EndService(job_id=JOB))
    told = [
        (action.action, action.entity)
        for position, record in world.records()[-2:]
        for action in transaction_of(record, position).actions
    ]
    assert told == [
        ("task_stopped", "web/0"),
        ("task_unassigned", "web/0"),
        ("service_ended", "web"),
        ("task_killed", "web/1"),
    ]


def test_a_budget_is_never_overdrawn_whatever_the_schedule(dice: Random) -> None:
    """In any span of time no more restarts than the budget and what came back meanwhile."""
    policy = msgspec.structs.replace(POLICY, delay_ms=0, restarts=dice.choice((1, 2, 5)))
    world = served(policy=policy)
    falls: list[int] = []
    while state(world) is not TaskState.QUARANTINED and len(falls) < 60:
        world.sleep(dice.choice((0, 1_000, 60_000, 150_000)))
        ended(world, ran_ms=0)
        falls.append(world.now)
    kept = falls[:-1] if state(world) is TaskState.QUARANTINED else falls
    for first in range(len(kept)):
        for last in range(first, len(kept)):
            back = (kept[last] - kept[first]) // policy.refill_ms
            assert last - first + 1 <= policy.restarts + back + 1
    assert world.troubles() == ()
