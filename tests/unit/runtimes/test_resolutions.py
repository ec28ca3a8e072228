"""The rulings on what the design left open, each shown on a whole runtime."""

import pytest
from msgspec.structs import replace

from holdfast.core.ids import Instant
from holdfast.runtimes import actions as a
from holdfast.runtimes.documents import encode_status
from holdfast.runtimes.observed import ManagedKind
from holdfast.runtimes.reduce import apply_enforcement
from holdfast.runtimes.resource import FINALIZER
from holdfast.runtimes.status import (
    AUDIT_MOST,
    ApplyCode,
    Condition,
    ConditionType,
    Phase,
    Recommendation,
    condition_of,
)
from holdfast.runtimes.templates import TEMPLATES
from holdfast.testing.model_runtime import ModelRuntime, a_resource, declared, function

PENDING, APPLYING, PROGRESSING = Phase.PENDING, Phase.APPLYING, Phase.PROGRESSING
AVAILABLE, DEGRADED, DELETING = Phase.AVAILABLE, Phase.DEGRADED, Phase.DELETING


def condition(world: ModelRuntime, kind: ConditionType) -> Condition:
    found = condition_of(world.resource.status, kind)
    assert found is not None
    return found


def up(**spec: object) -> ModelRuntime:
    """A runtime that is available."""
    world = ModelRuntime(a_resource(declared(**spec)))
    world.reach(AVAILABLE)
    world.taken.clear()
    world.phases.clear()
    return world


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
    assert world.look().actions == (), "its patience is not over"
    world.now = Instant(world.now + 1_000)
    assert [type(each) for each in world.look().actions] == [a.ApplyWorkload]
    world.look()
    assert world.phase is PROGRESSING


def test_resolution_002_2_lost_readiness_is_progressing_and_back_is_available():
    world = up()
    world.lose("greeter--hello")
    world.reach(PROGRESSING)
    world.reach(AVAILABLE)
    assert DEGRADED not in world.phases


def test_resolution_002_2_available_degrades_and_recovers_directly():
    world = up()
    world.refusals = [ApplyCode.CONFLICT]
    world.lose("greeter--hello")
    world.reach(DEGRADED)
    assert condition(world, ConditionType.DEGRADED).reason == "Conflict"
    world.taken.clear()
    world.start_ms = 0
    world.reach(AVAILABLE)
    assert world.phases[-2:] == [DEGRADED, AVAILABLE]


def test_resolution_002_3_a_crash_loop_degrades_long_before_the_time_is_over():
    world = ModelRuntime(a_resource(declared(functions=[function(command="crash")])))
    started_at = world.now
    world.reach(DEGRADED)
    told = condition(world, ConditionType.DEGRADED)
    assert told.reason == "CrashLoop"
    assert told.message.startswith("Pod greeter--hello/0 restart count=")
    assert told.message.endswith("boom"), "the last lines are told"
    assert world.now - started_at < 60_000


def test_resolution_002_3_fewer_restarts_than_the_threshold_are_no_loop():
    world = ModelRuntime(a_resource(declared(functions=[function(command="crash")])))
    for wait_ms in (0, 1_000, 1_500):
        world.now = Instant(world.now + wait_ms)
        world.look()
    restarts = [listed.children for listed in world.observe().children.values()]  # type: ignore[union-attr]
    assert restarts[0][0].crash is not None
    assert restarts[0][0].crash.restarts == 2
    assert world.phase is PROGRESSING


def test_resolution_002_4_a_missing_child_is_brought_back_before_anything_is_said_of_it():
    world = up(functions=[function(), function("bye")])
    world.lose("greeter--bye")
    world.look()
    applied = world.taken_of(a.ApplyWorkload)
    assert [[each.name for each in one.workloads] for one in applied] == [["greeter--bye"]]
    assert world.phase is PROGRESSING


def test_resolution_002_4_it_degrades_only_when_three_tries_did_not_help():
    world = up()

    def lose_again() -> bool:
        world.lose("greeter--hello")
        return world.phase is DEGRADED

    world.lose("greeter--hello")
    world.run(lose_again, rounds=50)
    assert len(world.taken_of(a.ApplyWorkload)) >= 3
    told = condition(world, ConditionType.DEGRADED)
    assert told.reason == "ChildMissing"
    assert told.message == "Expected Deployment/greeter--hello not found."
    tries = len(world.taken_of(a.ApplyWorkload))
    world.run(lambda: lose_again() and len(world.taken_of(a.ApplyWorkload)) > tries + 1, rounds=90)
    assert world.phase is DEGRADED, "it is tried on, and stays what it is meanwhile"
    world.reach(AVAILABLE)


def test_resolution_002_4_an_orphan_alone_never_degrades():
    world = up()
    world.plant("greeter--left-over")
    world.is_undeletable = True
    for _ in range(50):
        output = world.look()
        world.now = Instant(world.now + (output.requeue_after_ms or 1_000))
        assert world.phase is AVAILABLE
    assert condition(world, ConditionType.RECONCILING).reason == "Orphaned"
    assert len(world.taken_of(a.DeleteOrphans)) > 3
    world.is_undeletable = False
    world.run(lambda: len(world.children) == 2, rounds=50)
    world.look()
    assert not condition(world, ConditionType.RECONCILING).is_true


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
    told = condition(world, ConditionType.DEGRADED)
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


def recommend(world: ModelRuntime, value: int) -> None:
    status = replace(
        world.resource.status,
        nfr_recommendations={
            "replicas": Recommendation(
                value=value, observed_at=world.now, generation=world.resource.generation
            )
        },
    )
    world.resource = replace(world.resource, status=status)


NFR = {"mode": "enforce", "maxReplicas": 5, "stability": "10s", "cooldown": "5s"}


def test_resolution_002_7_a_failed_enforcement_keeps_the_phase_until_the_third():
    world = up(nfr=NFR)
    world.enforcement_refusals = ["EnforceConflict"] * 3
    recommend(world, 3)
    seen: list[tuple[int, Phase]] = []

    def note() -> bool:
        failures = world.resource.status.enforced.get("replicas/hello")
        seen.append((failures.failures if failures else 0, world.phase))
        recommend(world, 3)
        return world.phase is DEGRADED

    world.run(note, rounds=100)
    assert {phase for failures, phase in seen[:-1]} == {AVAILABLE}
    assert seen[-1] == (3, DEGRADED)
    told = condition(world, ConditionType.DEGRADED)
    assert told.reason == "EnforceConflict", "the specific one, as resolution 8 asks"
    assert not condition(world, ConditionType.NFR_ENFORCED).is_true
    # What degraded it may be tried again, and its success is the way out.
    world.run(lambda: recommend(world, 3) or world.phase is AVAILABLE, rounds=100)
    assert world.resource.status.enforced["replicas/hello"].target == 3


def test_resolution_002_11_all_eight_conditions_are_told_in_every_phase():
    world = ModelRuntime(a_resource(is_held=False))
    for _ in range(6):
        world.look()
        told = [each.type for each in world.resource.status.conditions]
        assert told == list(ConditionType)
        world.now = Instant(world.now + 1_000)
    world.delete()
    world.look()
    assert [each.type for each in world.resource.status.conditions] == list(ConditionType)
    is_true = {each.type for each in world.resource.status.conditions if each.is_true}
    assert is_true == {ConditionType.RECONCILING}, "nothing stays true by being forgotten"


def test_resolution_002_12_the_trail_of_what_was_applied_is_capped():
    status = up().resource.status
    for number in range(AUDIT_MOST + 5):
        outcome = a.EnforcementOutcome(
            key="replicas/hello", component="function", dimension="replicas",
            function_key="hello", target=number, basis="enforcer", confidence=1.0,
            cooldown_until=Instant(0), at=Instant(1 + number),
        )  # fmt: skip
        status = apply_enforcement(status, outcome, now=Instant(1 + number))
    trail = [each.target for each in status.last_applied_recommendations]
    assert trail == list(range(5, AUDIT_MOST + 5))


def test_resolution_002_13_a_recommendation_carries_when_and_for_what_it_was_made():
    assert Recommendation.__struct_fields__[:3] == ("value", "observed_at", "generation")


def test_resolution_002_14_what_is_recommended_is_a_whole_number():
    assert Recommendation.__annotations__["value"] is int


@pytest.mark.parametrize("template", sorted(TEMPLATES))
def test_resolution_002_15_names_stay_while_other_functions_come_and_go(template):
    descriptor = TEMPLATES[template]
    alone = descriptor.render(a_resource(declared(template=template)))
    among = descriptor.render(
        a_resource(
            declared(template=template, functions=[function("a"), function(), function("z")])
        )
    )
    assert alone[0].name == among[1].name == descriptor.function_namer("greeter", "hello")
    assert alone[0].revision == among[1].revision, "nor are they replaced"


def test_resolution_002_15_orphans_go_only_when_all_else_is_up():
    world = up(functions=[function(), function("bye")])
    world.declare(functions=[function(), function("slow")])
    world.look()
    while world.phase is not AVAILABLE:
        assert not world.taken_of(a.DeleteOrphans)
        world.now = Instant(world.now + 500)
        world.look()
    gone = [ref.name for action in world.taken_of(a.DeleteOrphans) for ref in action.children]
    assert set(gone) == {"greeter--bye"}


def test_resolution_002_16_a_removed_function_leaves_the_status():
    world = up(functions=[function(), function("bye")])
    world.declare(functions=[function("bye")])
    world.reach(AVAILABLE)
    assert [each.function_key for each in world.resource.status.functions] == ["bye"]


@pytest.mark.parametrize("kind", list(TEMPLATES["dev"].managed))
def test_resolution_002_17_a_listing_that_failed_deletes_and_degrades_nothing(kind):
    world = up(odgm={"command": ["grid"]})
    before = world.resource.status
    world.unlisted = {kind}
    for _ in range(200):
        output = world.look()
        assert world.phase is AVAILABLE
        assert not [each for each in output.actions if not isinstance(each, a.EmitEvent)]
        assert output.requeue_after_ms is not None
        world.now = Instant(world.now + output.requeue_after_ms)
    assert world.resource.status.functions == before.functions
    assert world.resource.status.resource_refs == before.resource_refs
    told = condition(world, ConditionType.RECONCILING)
    assert told.reason == "ObservationFailed"
    assert told.message == f"Listing {kind} failed: the server is away."


def test_resolution_002_17_no_time_runs_out_and_no_trouble_passes_unseen():
    world = ModelRuntime(a_resource(declared(functions=[function(command="hang")])))
    world.reach(PROGRESSING)
    world.unlisted = set(ManagedKind)
    world.now = Instant(world.now + 10_000_000)
    world.look()
    assert world.phase is PROGRESSING
    world.unlisted = set()
    world.look()
    assert world.phase is DEGRADED
    world.unlisted = set(ManagedKind)
    world.look()
    assert world.phase is DEGRADED
    assert condition(world, ConditionType.DEGRADED).reason == "Timeout"


def test_resolution_002_18_a_conflict_is_told_and_tried_again():
    world = ModelRuntime(a_resource())
    world.refusals = [ApplyCode.CONFLICT]
    world.reach(DEGRADED)
    told = condition(world, ConditionType.DEGRADED)
    assert (told.reason, told.message) == (
        "Conflict", "Field manager ownership conflict applying no.",
    )  # fmt: skip
    world.reach(AVAILABLE)


def test_resolution_002_19_the_finalizer_goes_when_every_listing_came_and_came_empty():
    world = up()
    world.delete()
    world.is_undeletable = True
    world.unlisted = {ManagedKind.ODGM_SERVICE}
    for _ in range(60):
        output = world.look()
        assert output.requeue_after_ms is not None
        world.now = Instant(world.now + output.requeue_after_ms)
    stalled = condition(world, ConditionType.STALLED)
    assert (stalled.is_true, stalled.reason) == (True, "DeletionStuck")
    assert "greeter--hello" in stalled.message
    assert world.events.count("DeletionStuck") == 1
    world.is_undeletable = False
    world.run(lambda: not world.children, rounds=20)
    world.look()
    assert not world.is_gone, "one kind could not be listed"
    world.unlisted = set()
    world.end()
    assert isinstance(world.taken[-1], a.RemoveFinalizer)


@pytest.mark.parametrize("phase", [PENDING, DELETING])
def test_resolution_002_20_progressing_is_false_in_pending_and_deleting(phase):
    world = ModelRuntime(a_resource(is_held=False))
    if phase is DELETING:
        world = up()
        world.delete()
    world.look()
    assert world.phase is phase
    assert not condition(world, ConditionType.PROGRESSING).is_true


def test_resolution_002_21_deletion_and_cooldown_have_their_timers():
    world = up(nfr=NFR)
    assert world.look().requeue_after_ms is None, "nothing to wait for but events"
    recommend(world, 3)
    output = world.look()
    assert output.requeue_after_ms == 10_000, "the window of stability"
    world.delete()
    output = world.look()
    assert output.requeue_after_ms is not None


def test_a_steady_runtime_is_looked_at_without_a_write():
    world = up(functions=[function(), function("bye")], odgm={"command": ["grid"]}, nfr=NFR)
    before, stored = world.writes, encode_status(world.resource.status)
    for _ in range(20):
        world.now = Instant(world.now + 60_000)
        assert world.look().actions == ()
    assert world.writes == before
    assert encode_status(world.resource.status) == stored
