"""The rulings on status, names, observation and deletion, each shown on a whole runtime."""

import pytest

from holdfast.core.ids import Instant
from holdfast.runtimes import actions as a
from holdfast.runtimes.documents import encode_status
from holdfast.runtimes.observed import ManagedKind
from holdfast.runtimes.reduce import apply_enforcement
from holdfast.runtimes.status import (
    AUDIT_MOST,
    ApplyCode,
    ConditionType,
    Phase,
    Recommendation,
)
from holdfast.runtimes.templates import TEMPLATES
from holdfast.testing.model_runtime import ModelRuntime, a_resource, declared, function

PENDING, APPLYING, PROGRESSING = Phase.PENDING, Phase.APPLYING, Phase.PROGRESSING
AVAILABLE, DEGRADED, DELETING = Phase.AVAILABLE, Phase.DEGRADED, Phase.DELETING

NFR = {"mode": "enforce", "maxReplicas": 5, "stability": "10s", "cooldown": "5s"}


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
    status = ModelRuntime.up().resource.status
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
    world = ModelRuntime.up(functions=[function(), function("bye")])
    world.declare(functions=[function(), function("slow")])
    world.look()
    while world.phase is not AVAILABLE:
        assert not world.taken_of(a.DeleteOrphans)
        world.now = Instant(world.now + 500)
        world.look()
    gone = [ref.name for action in world.taken_of(a.DeleteOrphans) for ref in action.children]
    assert set(gone) == {"greeter--bye"}


def test_resolution_002_16_a_removed_function_leaves_the_status():
    world = ModelRuntime.up(functions=[function(), function("bye")])
    world.declare(functions=[function("bye")])
    world.reach(AVAILABLE)
    assert [each.function_key for each in world.resource.status.functions] == ["bye"]


@pytest.mark.parametrize("kind", list(TEMPLATES["dev"].managed))
def test_resolution_002_17_a_listing_that_failed_deletes_and_degrades_nothing(kind):
    world = ModelRuntime.up(odgm={"command": ["grid"]})
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
    told = world.condition(ConditionType.RECONCILING)
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
    assert world.condition(ConditionType.DEGRADED).reason == "Timeout"


def test_resolution_002_18_a_conflict_is_told_and_tried_again():
    world = ModelRuntime(a_resource())
    world.refusals = [ApplyCode.CONFLICT]
    world.reach(DEGRADED)
    told = world.condition(ConditionType.DEGRADED)
    assert (told.reason, told.message) == (
        "Conflict", "Field manager ownership conflict applying no.",
    )  # fmt: skip
    world.reach(AVAILABLE)


def test_resolution_002_19_the_finalizer_goes_when_every_listing_came_and_came_empty():
    world = ModelRuntime.up()
    world.delete()
    world.is_undeletable = True
    world.unlisted = {ManagedKind.ODGM_SERVICE}
    for _ in range(60):
        output = world.look()
        assert output.requeue_after_ms is not None
        world.now = Instant(world.now + output.requeue_after_ms)
    stalled = world.condition(ConditionType.STALLED)
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
        world = ModelRuntime.up()
        world.delete()
    world.look()
    assert world.phase is phase
    assert not world.condition(ConditionType.PROGRESSING).is_true


def test_resolution_002_21_deletion_and_cooldown_have_their_timers():
    world = ModelRuntime.up(nfr=NFR)
    assert world.look().requeue_after_ms is None, "nothing to wait for but events"
    world.recommend(3)
    output = world.look()
    assert output.requeue_after_ms == 10_000, "the window of stability"
    world.delete()
    output = world.look()
    assert output.requeue_after_ms is not None


def test_a_steady_runtime_is_looked_at_without_a_write():
    functions = [function(), function("bye")]
    world = ModelRuntime.up(functions=functions, odgm={"command": ["grid"]}, nfr=NFR)
    before, stored = world.writes, encode_status(world.resource.status)
    for _ in range(20):
        world.now = Instant(world.now + 60_000)
        assert world.look().actions == ()
    assert world.writes == before
    assert encode_status(world.resource.status) == stored
