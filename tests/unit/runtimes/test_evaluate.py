"""Stories of whole runtimes: what is said, what is done, and what is left alone."""

import pytest
from msgspec.structs import replace

from holdfast.core.ids import Instant
from holdfast.runtimes import actions as a
from holdfast.runtimes.evaluate import evaluate
from holdfast.runtimes.evaluation import DEFAULT_CONFIG, EvalInput
from holdfast.runtimes.observed import Child, Crash, Known, ManagedKind, Observed
from holdfast.runtimes.reasons import message_of
from holdfast.runtimes.status import ApplyCode, ConditionType, Enforced, Phase
from holdfast.runtimes.templates import TEMPLATES
from holdfast.testing.model_runtime import ModelRuntime, a_resource, declared, function

PENDING, APPLYING, PROGRESSING = Phase.PENDING, Phase.APPLYING, Phase.PROGRESSING
AVAILABLE, DEGRADED, DELETING = Phase.AVAILABLE, Phase.DEGRADED, Phase.DELETING
GRID = {"command": ["grid", "$PORT"]}


def wait(world: ModelRuntime, span_ms: int) -> None:
    world.now = Instant(world.now + span_ms)
    world.look()


def reason(world: ModelRuntime) -> str:
    return world.condition(ConditionType.DEGRADED).reason


def test_002_18_two_functions_and_a_data_grid_come_up_together():
    world = ModelRuntime.up(functions=[function(), function("bye", replicas=3)], odgm=GRID)
    status = world.resource.status
    told = [(each.function_key, each.is_ready, each.ready) for each in status.functions]
    assert told == [("hello", True, 1), ("bye", True, 3)]
    assert status.odgm is not None
    assert status.odgm.is_ready
    assert len(status.resource_refs) == 6


def test_002_18_one_function_that_is_not_ready_keeps_all_of_it_waiting():
    world = ModelRuntime(
        a_resource(declared(functions=[function(), function("slow", "hang")], odgm=GRID))
    )
    for _ in range(10):
        wait(world, 1_000)
    assert world.phase is PROGRESSING
    told = world.condition(ConditionType.PROGRESSING)
    assert told.reason == "AwaitingReadiness"
    assert told.message == "2 of 3 ready; slow: 0 of 1 replicas ready"


def test_002_21_a_new_generation_is_applied_and_rolled_out():
    world = ModelRuntime.up()
    world.declare(functions=[function(env={"A": "1"})])
    world.look()
    assert world.phase is PROGRESSING
    assert world.condition(ConditionType.PROGRESSING).message == "Applying generation 2."
    world.reach(AVAILABLE)
    assert world.resource.status.observed_generation == 2
    assert world.phases.count(AVAILABLE) == 1


def test_a_bad_new_generation_degrades_and_a_good_one_recovers():
    world = ModelRuntime.up()
    world.declare(functions=[function(command="crash")])
    world.reach(DEGRADED)
    assert reason(world) == "CrashLoop"
    world.declare(functions=[function()])
    world.reach(AVAILABLE)
    assert reason(world) == "Available"
    assert not world.condition(ConditionType.STALLED).is_true


@pytest.mark.parametrize("counts", [(2, 5, 1), (1, 3, 3, 2)])
def test_002_155_however_many_functions_there_were_no_orphan_is_left(counts):
    world = ModelRuntime.up()
    for count in counts:
        world.declare(functions=[function(f"f{number}") for number in range(count)])
        world.reach(AVAILABLE)
        world.run(lambda count=count: len(world.children) == 2 * count, rounds=20)
    world.look()
    names = {name for _, name in world.children}
    assert names == {f"greeter--f{number}" for number in range(counts[-1])}
    assert not world.condition(ConditionType.RECONCILING).is_true


def test_002_157_what_timed_out_goes_on_when_something_moves():
    world = ModelRuntime(
        a_resource(declared(functions=[function(command="hang"), function("bye", "hang")]))
    )
    world.reach(DEGRADED, rounds=400)
    assert reason(world) == "Timeout"
    for _ in range(5):
        wait(world, 60_000)
        assert (world.phase, reason(world)) == (DEGRADED, "Timeout")
    world.children[ManagedKind.DEPLOYMENT, "greeter--hello"].command = "serve"
    wait(world, 1_000)
    assert world.phase is PROGRESSING
    began_at = world.condition(ConditionType.PROGRESSING).last_transition_at
    assert began_at == world.now, "its time begins anew"
    wait(world, 299_999)
    assert world.phase is PROGRESSING
    wait(world, 1)
    assert world.phase is DEGRADED


def test_no_time_runs_out_while_part_of_it_is_not_known():
    world = ModelRuntime(a_resource(declared(functions=[function(command="hang")], odgm=GRID)))
    world.reach(PROGRESSING)
    world.unlisted = {ManagedKind.ODGM_DEPLOYMENT}
    wait(world, 1_000_000)
    assert world.phase is PROGRESSING


def test_nothing_recovers_by_not_being_seen():
    world = ModelRuntime(
        a_resource(declared(functions=[function(command="crash")], odgm={"command": ["hang"]}))
    )
    world.reach(DEGRADED)
    world.unlisted = {ManagedKind.DEPLOYMENT}
    wait(world, 1_000)
    assert (world.phase, reason(world)) == (DEGRADED, "CrashLoop")
    world.unlisted = set()
    world.children[ManagedKind.DEPLOYMENT, "greeter--hello"].command = "hang"
    wait(world, 1_000)
    assert world.phase is PROGRESSING


def test_what_was_applied_just_now_may_take_its_time_to_show():
    world = ModelRuntime(a_resource())
    world.look()
    world.children.clear()
    assert not [each for each in world.look().actions if isinstance(each, a.ApplyWorkload)]
    world.now = Instant(world.now + DEFAULT_CONFIG.settle_ms)
    assert [each for each in world.look().actions if isinstance(each, a.ApplyWorkload)]


def test_what_was_told_something_else_is_told_again():
    world = ModelRuntime.up(functions=[function(replicas=3)])
    world.children[ManagedKind.DEPLOYMENT, "greeter--hello"].replicas = 1
    wait(world, 1_000)
    assert world.phase is PROGRESSING
    world.look()
    assert world.phase is AVAILABLE
    assert world.children[ManagedKind.DEPLOYMENT, "greeter--hello"].replicas == 3


def test_resolution_002_4_what_stays_missing_stays_degraded_between_two_tries():
    world = ModelRuntime.up()
    world.phases.clear()
    for _ in range(300):
        world.lose("greeter--hello")
        wait(world, 500)
    first = world.phases.index(DEGRADED)
    assert set(world.phases[first:]) == {DEGRADED}
    assert len(world.taken_of(a.ApplyWorkload)) < 12, "the waits between tries double"
    assert world.events.count("ChildMissing") == 1, "it is told once, not while it lasts"


def test_002_59_targets_of_metrics_are_ensured_once_a_change():
    world = ModelRuntime.up(functions=[function(metrics={"path": "/stats"}), function("bye")])
    for _ in range(5):
        wait(world, 100_000)
    assert not world.taken_of(a.EnsureMetricsTargets), "that was done on the way up"
    assert world.resource.status.metrics_targets == ("greeter--hello /stats",)
    world.declare(functions=[function(), function("bye", metrics={})])
    world.reach(AVAILABLE)
    (ensured,) = world.taken_of(a.EnsureMetricsTargets)
    assert [(each.name, each.path) for each in ensured.targets] == [("greeter--bye", "/metrics")]


def test_a_finalizer_that_somebody_took_off_is_put_on_again():
    world = ModelRuntime.up()
    world.resource = replace(world.resource, finalizers=())
    world.look()
    assert (world.phase, len(world.resource.finalizers)) == (AVAILABLE, 1)


@pytest.mark.parametrize("rounds", range(6))
def test_002_22_23_it_can_be_deleted_at_any_time_and_leaves_nothing(rounds):
    world = ModelRuntime(a_resource(is_held=False))
    for _ in range(rounds):
        wait(world, 700)
    world.plant("greeter--unexpected", ManagedKind.ODGM_SERVICE)
    world.delete()
    if world.resource.finalizers:
        world.end()
        assert not world.children
    else:
        world.look()
        assert world.phase is DELETING
        assert not world.taken_of(a.RemoveFinalizer), "nobody holds it"


def test_002_73_what_is_gone_already_is_no_error():
    world = ModelRuntime.up()
    world.delete()
    world.look()
    world.lose("greeter--hello")
    world.end()
    assert world.is_gone


def test_a_crash_loop_of_the_newest_revision_is_seen_beside_the_older_that_is_up():
    resource = ModelRuntime.up(functions=[function(replicas=2)]).resource
    (workload,) = TEMPLATES["dev"].render(resource)
    child = Child(
        kind=ManagedKind.DEPLOYMENT, name=workload.name, owner="greeter",
        revision=workload.revision, desired=2, current=3, updated=1, ready=2,
        crash=Crash("greeter--hello/2", 4, ("no such file",)),
    )  # fmt: skip
    children = {kind: Known() for kind in ManagedKind}
    children[ManagedKind.DEPLOYMENT] = Known((child,))
    output = evaluate(
        EvalInput(
            resource=resource,
            observed=Observed(children=children),
            now=Instant(50_000),
            descriptor=TEMPLATES["dev"],
        )
    )
    assert output.phase is DEGRADED
    degraded = next(each for each in output.conditions if each.type is ConditionType.DEGRADED)
    assert degraded.message == "Pod greeter--hello/2 restart count=4. no such file"
    assert output.functions[0].ready == 2


def test_no_room_for_what_is_enforced_is_no_trouble():
    resource = ModelRuntime.up(functions=[function(replicas=2)]).resource
    enforced = replace(resource.status, enforced={"replicas/hello": Enforced(target=5)})
    resource = replace(resource, status=enforced)
    (workload,) = TEMPLATES["dev"].render(resource)
    child = Child(
        kind=ManagedKind.DEPLOYMENT, name=workload.name, owner="greeter",
        revision=workload.revision, desired=5, current=5, updated=5, ready=3,
        problems=("no worker has a slot",),
    )  # fmt: skip
    children = {kind: Known() for kind in ManagedKind}
    children[ManagedKind.DEPLOYMENT] = Known((child,))
    output = evaluate(
        EvalInput(
            resource=resource,
            observed=Observed(children=children),
            now=Instant(10_000_000),
            descriptor=TEMPLATES["dev"],
        )
    )
    assert output.phase is AVAILABLE
    assert output.functions[0].is_ready
    assert output.functions[0].message == "3 of 5 replicas ready: no worker has a slot"


def test_events_are_told_when_something_changes():
    world = ModelRuntime(a_resource(is_held=False))
    world.reach(AVAILABLE)
    assert world.events == ["Applying", "Applied", "AwaitingReadiness", "Available"]
    world.taken.clear()
    world.plant("greeter--old")
    world.look()
    world.delete()
    world.end()
    assert world.events == ["Orphaned", "Deleting"]


def test_002_62_how_soon_it_is_looked_at_again_is_bounded_and_grows():
    world = ModelRuntime(a_resource(declared(functions=[function(command="hang")])))
    world.reach(PROGRESSING)
    waits = []
    for _ in range(40):
        output = world.look()
        waits.append(output.requeue_after_ms)
        world.now = Instant(world.now + (output.requeue_after_ms or 0))
    assert waits[0] == DEFAULT_CONFIG.poll_ms
    assert max(waits) == DEFAULT_CONFIG.poll_most_ms
    assert min(waits) > 0


def test_002_62_time_that_is_up_hurries_nobody_while_part_of_it_is_not_known():
    world = ModelRuntime(a_resource(declared(functions=[function(command="hang")])))
    world.reach(PROGRESSING)
    world.unlisted = {ManagedKind.DEPLOYMENT}
    world.now = Instant(world.now + 300_000)
    assert world.look().requeue_after_ms == DEFAULT_CONFIG.unknown_ms
    assert world.phase is PROGRESSING
    world.unlisted = set()
    wait(world, DEFAULT_CONFIG.unknown_ms)
    assert (world.phase, reason(world)) == (DEGRADED, "Timeout"), "it is told once all is seen"


def test_002_62_time_that_is_up_hurries_nobody_while_a_new_generation_is_not_applied():
    world = ModelRuntime(a_resource(declared(functions=[function(command="hang")])))
    world.reach(PROGRESSING)
    world.now = Instant(world.now + 299_900)
    world.declare()
    world.refusals = [ApplyCode.FAILED]
    world.look()
    world.now = Instant(world.now + 100)
    assert world.look().requeue_after_ms == DEFAULT_CONFIG.retry_ms - 100
    assert world.phase is PROGRESSING
    assert len(world.taken_of(a.ApplyWorkload)) == 2, "once for each generation"
    world.reach(AVAILABLE, rounds=10)


@pytest.mark.parametrize(
    ("reason", "parts", "said"),
    [
        ("Conflict", {"child": "Deployment/a"},
         "Field manager ownership conflict applying Deployment/a."),
        ("ApplyInvalid", {"detail": "no such field."}, "Validation failed: no such field."),
        ("CrashLoop", {"pod": "a/0", "restarts": 3}, "Pod a/0 restart count=3."),
        ("Timeout", {"span": "5m"}, "Readiness not achieved within 5m."),
        ("ChildMissing", {"child": "Service/a"}, "Expected Service/a not found."),
        ("Orphaned", {"child": "Hpa/a"}, "Found unmanaged Hpa/a; cleanup scheduled."),
    ],
)
def test_002_77_to_82_each_reason_has_its_message(reason, parts, said):
    assert message_of(reason, **parts) == said


def test_002_78_what_is_invalid_degrades_until_something_valid_is_declared():
    world = ModelRuntime(a_resource())
    world.refusals = [ApplyCode.INVALID] * 20
    world.reach(DEGRADED)
    told = world.condition(ConditionType.DEGRADED)
    assert (told.reason, told.message) == ("ApplyInvalid", "Validation failed: no.")
    wait(world, 30_000)
    assert world.phase is DEGRADED
    world.refusals.clear()
    world.declare(functions=[function(replicas=2)])
    world.reach(AVAILABLE)


def test_002_112_to_115_the_requirements_have_their_conditions():
    nfr = {"mode": "enforce", "maxReplicas": 5, "stability": "10s", "cooldown": "5s"}
    world = ModelRuntime(a_resource(declared(nfr=nfr)))
    world.reach(PROGRESSING)

    def true() -> set[str]:
        told = world.resource.status.conditions
        return {each.type for each in told if each.is_true} - {"Ready", "Reconciling"}

    assert true() == {"Progressing"}
    world.recommend(3)
    world.look()
    assert true() == {"Progressing", "NfrObserved"}
    world.reach(AVAILABLE)
    assert true() == {"Available", "NfrObserved"}
    world.run(lambda: "NfrEnforced" in true(), rounds=60)
    assert true() == {"Available", "NfrObserved", "NfrEnforced"}
    assert world.resource.status.functions[0].desired == 3
