"""The rulings on what the design left open, each shown on a whole runtime."""

from holdfast.core.ids import Instant
from holdfast.runtimes import actions as a
from holdfast.runtimes.observed import Crash, Known, ManagedKind
from holdfast.runtimes.resource import FINALIZER
from holdfast.runtimes.status import ApplyCode, ConditionType, Phase
from holdfast.testing.model_runtime import ModelRuntime, a_resource, declared, function

PENDING, APPLYING, PROGRESSING = Phase.PENDING, Phase.APPLYING, Phase.PROGRESSING
AVAILABLE, DEGRADED, DELETING = Phase.AVAILABLE, Phase.DEGRADED, Phase.DELETING


def test_resolution_002_1_finalizer_generation_and_apply_lead_through_pending_and_applying():
    world = ModelRuntime(a_resource(is_held=False))
    world.reach(AVAILABLE)
    assert list(dict.fromkeys(world.phases)) == [PENDING, APPLYING, PROGRESSING, AVAILABLE]
    assert world.resource.finalizers == (FINALIZER,)
    assert world.resource.status.apply.generation == 1


def test_resolution_002_1_what_is_applying_waits_for_the_answer_and_asks_again():
    world = ModelRuntime(a_resource())
    world.refusals = [ApplyCode.FAILED]
    world.look()
    assert world.phase is APPLYING
    assert world.look().actions == (), "it waits before it asks again"
    world.now = Instant(world.now + 1_000)
    assert [type(each) for each in world.look().actions] == [a.ApplyWorkload]
    world.look()
    assert world.phase is PROGRESSING


def test_resolution_002_2_lost_readiness_is_progressing_and_back_is_available():
    world = ModelRuntime.up()
    world.lose("greeter--hello")
    world.reach(PROGRESSING)
    world.reach(AVAILABLE)
    assert DEGRADED not in world.phases


def test_resolution_002_2_available_degrades_and_recovers_directly():
    world = ModelRuntime.up()
    world.refusals = [ApplyCode.CONFLICT]
    world.lose("greeter--hello")
    world.reach(DEGRADED)
    assert world.condition(ConditionType.DEGRADED).reason == "Conflict"
    world.taken.clear()
    world.start_ms = 0
    world.reach(AVAILABLE)
    assert world.phases[-2:] == [DEGRADED, AVAILABLE]


def test_resolution_002_3_a_crash_loop_degrades_long_before_the_time_is_over():
    world = ModelRuntime(a_resource(declared(functions=[function(command="crash")])))
    started_at = world.now
    world.reach(DEGRADED)
    told = world.condition(ConditionType.DEGRADED)
    assert told.reason == "CrashLoop"
    assert told.message.startswith("Pod greeter--hello/0 restart count=")
    assert told.message.endswith("boom"), "the last lines are told"
    assert world.now - started_at < 60_000


def test_resolution_002_3_fewer_restarts_than_the_threshold_are_no_loop():
    world = ModelRuntime(a_resource(declared(functions=[function(command="crash")])))
    for wait_ms in (0, 1_000, 1_500):
        world.now = Instant(world.now + wait_ms)
        world.look()
    listing = world.observe().children[ManagedKind.DEPLOYMENT]
    assert isinstance(listing, Known)
    assert listing.children[0].crash == Crash("greeter--hello/0", 2, ("boom",))
    assert world.phase is PROGRESSING


def test_resolution_002_4_a_missing_child_is_brought_back_before_anything_is_said_of_it():
    world = ModelRuntime.up(functions=[function(), function("bye")])
    world.lose("greeter--bye")
    world.look()
    applied = world.taken_of(a.ApplyWorkload)
    assert [[each.name for each in one.workloads] for one in applied] == [["greeter--bye"]]
    assert world.phase is PROGRESSING


def test_resolution_002_4_it_degrades_only_when_three_tries_did_not_help():
    world = ModelRuntime.up()

    def lose_again() -> bool:
        world.lose("greeter--hello")
        return world.phase is DEGRADED

    world.lose("greeter--hello")
    world.run(lose_again, rounds=50)
    assert len(world.taken_of(a.ApplyWorkload)) >= 3
    told = world.condition(ConditionType.DEGRADED)
    assert told.reason == "ChildMissing"
    assert told.message == "Expected Deployment/greeter--hello not found."
    tries = len(world.taken_of(a.ApplyWorkload))
    world.run(lambda: lose_again() and len(world.taken_of(a.ApplyWorkload)) > tries + 1, rounds=90)
    assert world.phase is DEGRADED, "it is tried on, and stays what it is meanwhile"
    world.reach(AVAILABLE)


def test_resolution_002_4_an_orphan_alone_never_degrades():
    world = ModelRuntime.up()
    world.plant("greeter--left-over")
    world.is_undeletable = True
    for _ in range(50):
        output = world.look()
        world.now = Instant(world.now + (output.requeue_after_ms or 1_000))
        assert world.phase is AVAILABLE
    assert world.condition(ConditionType.RECONCILING).reason == "Orphaned"
    assert len(world.taken_of(a.DeleteOrphans)) > 3
    world.is_undeletable = False
    world.run(lambda: len(world.children) == 2, rounds=50)
    world.look()
    assert not world.condition(ConditionType.RECONCILING).is_true


def test_resolution_002_5_the_time_runs_from_a_start_that_is_stored():
    world = ModelRuntime(
        a_resource(declared(functions=[function(command="hang")], timeouts={"progress": "300s"}))
    )
    world.reach(PROGRESSING)
    began_at = world.now
    # A storm of looks neither moves the start nor ends the time sooner.
    while world.now - began_at < 299_000:
        world.look()
        assert world.phase is PROGRESSING
        world.now = Instant(world.now + 7_000)
    world.reach(DEGRADED)
    told = world.condition(ConditionType.DEGRADED)
    assert told.reason == "Timeout"
    assert told.message.startswith("Readiness not achieved within 5m. ")
    assert 300_000 <= world.now - began_at <= 310_000


def test_resolution_002_5_a_new_generation_has_the_whole_time_again():
    world = ModelRuntime(a_resource(declared(functions=[function(command="hang")])))
    world.reach(PROGRESSING)
    world.now = Instant(world.now + 299_000)
    world.declare(functions=[function(command="hang", env={"A": "1"})])
    world.reach(PROGRESSING)
    world.now = Instant(world.now + 200_000)
    world.look()
    assert world.phase is PROGRESSING


def test_resolution_002_5_the_pauses_of_a_rollout_in_steps_are_no_delay():
    rollout = {"steps": ["10%", "100%"], "pause": "10m"}
    world = ModelRuntime(
        a_resource(declared(functions=[function(command="hang", rollout=rollout)]))
    )
    world.reach(PROGRESSING)
    world.now = Instant(world.now + 301_000)
    world.look()
    assert world.phase is PROGRESSING
    world.now = Instant(world.now + 1_200_000)
    world.look()
    assert world.phase is DEGRADED


def test_resolution_002_6_there_is_one_action_for_each_thing_to_do():
    world = ModelRuntime(a_resource(declared(functions=[function(metrics={})]), is_held=False))
    world.reach(AVAILABLE)
    world.plant("greeter--left-over")
    world.look()
    world.delete()
    world.end()
    assert {type(each) for each in world.taken} == {
        a.EnsureFinalizer,
        a.ApplyWorkload,
        a.EnsureMetricsTargets,
        a.DeleteOrphans,
        a.DeleteChildren,
        a.RemoveFinalizer,
        a.EmitEvent,
    }


NFR = {"mode": "enforce", "maxReplicas": 5, "stability": "10s", "cooldown": "5s"}


def test_resolution_002_7_a_failed_enforcement_keeps_the_phase_until_the_third():
    world = ModelRuntime.up(nfr=NFR)
    world.enforcement_refusals = ["EnforceConflict"] * 3
    world.recommend(3)
    seen: list[tuple[int, Phase]] = []

    def note() -> bool:
        failures = world.resource.status.enforced.get("replicas/hello")
        seen.append((failures.failures if failures else 0, world.phase))
        world.recommend(3)
        return world.phase is DEGRADED

    world.run(note, rounds=100)
    assert {phase for failures, phase in seen[:-1]} == {AVAILABLE}
    assert seen[-1] == (3, DEGRADED)
    told = world.condition(ConditionType.DEGRADED)
    assert told.reason == "EnforceConflict", "the specific one, as resolution 8 asks"
    assert not world.condition(ConditionType.NFR_ENFORCED).is_true
    # What degraded it may be tried again, and its success is the way out.
    world.run(lambda: world.recommend(3) or world.phase is AVAILABLE, rounds=100)
    assert world.resource.status.enforced["replicas/hello"].target == 3
