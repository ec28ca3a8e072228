"""The merge rules: each field by its own, and nothing lost between two who write at once."""

from msgspec.structs import replace

from holdfast.core.ids import NEVER, Instant
from holdfast.runtimes.actions import ApplyOutcome, EnforcementOutcome
from holdfast.runtimes.evaluation import EvalOutput
from holdfast.runtimes.reduce import (
    apply_enforcement,
    merge_conditions,
    record_apply,
    record_recommendations,
    reduce,
    refresh_routers,
    same,
)
from holdfast.runtimes.status import (
    ApplyCode,
    Condition,
    ConditionType,
    Enforced,
    FunctionStatus,
    Phase,
    Recommendation,
    ResourceRef,
    Router,
    Status,
)

EARLY, LATE = Instant(1_000), Instant(9_000)

OUTPUT = EvalOutput(
    phase=Phase.AVAILABLE,
    generation=2,
    template="dev",
    function_keys=("hello",),
    conditions=(Condition(type=ConditionType.READY, is_true=True, reason="Available"),),
    functions=(FunctionStatus(function_key="hello", service="greeter--hello", is_ready=True),),
    odgm=None,
    resource_refs=(ResourceRef("Service", "b"), ResourceRef("Deployment", "a")),
    tries={},
    stability={},
    actions=(),
    requeue_after_ms=None,
)
ENFORCEMENT = EnforcementOutcome(
    key="replicas/hello", component="function", dimension="replicas", function_key="hello",
    target=4, basis="throughput", confidence=0.9, cooldown_until=Instant(20_000), at=LATE,
)  # fmt: skip


def a_recommendation(value: int = 4, observed_at: Instant = EARLY) -> Recommendation:
    return Recommendation(value=value, observed_at=observed_at, generation=1, confidence=0.9)


def test_002_63_the_phase_is_overwritten():
    assert reduce(Status(), OUTPUT, now=EARLY).phase is Phase.AVAILABLE


def test_002_64_conditions_are_updated_by_type_and_others_stay():
    stays = Condition(type=ConditionType.DEGRADED, is_true=False, reason="Fine")
    before = (stays, Condition(type=ConditionType.READY, is_true=False, reason="Pending"))
    merged = {each.type: each for each in merge_conditions(before, OUTPUT.conditions, now=LATE)}
    assert merged[ConditionType.DEGRADED] == stays
    assert merged[ConditionType.READY].reason == "Available"
    assert merged[ConditionType.READY].last_transition_at == LATE


def test_a_new_reason_is_no_transition():
    once = merge_conditions((), OUTPUT.conditions, now=EARLY)
    told = [replace(each, reason="Other", message="said anew") for each in OUTPUT.conditions]
    (merged,) = merge_conditions(once, told, now=LATE)
    assert (merged.reason, merged.last_transition_at) == ("Other", EARLY)


def test_002_65_predicted_names_stay_until_the_template_changes():
    known = FunctionStatus(function_key="hello", service="found", url="http://found")
    before = Status(template="dev", functions=(known,))
    (kept,) = reduce(before, OUTPUT, now=EARLY).functions
    assert (kept.service, kept.url, kept.is_ready) == ("found", "http://found", True)
    changed = replace(before, template="edge")
    assert reduce(changed, OUTPUT, now=EARLY).functions == OUTPUT.functions


def test_what_belongs_to_a_function_goes_with_it():
    before = Status(
        nfr_recommendations={
            key: a_recommendation() for key in ("replicas", "replicas/hello", "replicas/gone")
        },
        enforced={"replicas/hello": Enforced(target=3), "replicas/gone": Enforced(target=3)},
    )
    after = reduce(before, OUTPUT, now=EARLY)
    assert set(after.nfr_recommendations) == {"replicas", "replicas/hello"}
    assert set(after.enforced) == {"replicas/hello"}


def test_002_66_routers_are_refreshed_when_discovery_changed():
    routers = [Router("b", ("h:2", "h:1")), Router("a", ("h:3",))]
    once = refresh_routers(Status(), routers, now=EARLY)
    assert once.routers == (Router("a", ("h:3",)), Router("b", ("h:1", "h:2")))
    assert refresh_routers(once, list(reversed(routers)), now=LATE) is once
    assert reduce(once, OUTPUT, now=LATE).routers == once.routers


def test_a_status_keeps_no_more_addresses_than_it_has_room_for():
    routers = [Router(name, tuple(f"h:{n:05}" for n in range(5_000))) for name in ("a", "b")]
    kept = refresh_routers(Status(), routers, now=EARLY).routers
    assert [(len(each.addresses), each.left_off) for each in kept] == [(1_000, 4_000)] * 2


def test_002_67_references_are_sorted_and_without_doubles():
    twice = replace(OUTPUT, resource_refs=OUTPUT.resource_refs * 2)
    assert reduce(Status(), twice, now=EARLY).resource_refs == (
        ResourceRef("Deployment", "a"), ResourceRef("Service", "b"),
    )  # fmt: skip


def test_002_68_69_70_an_evaluation_keeps_what_others_wrote():
    before = apply_enforcement(
        Status(nfr_recommendations={"replicas": a_recommendation()}), ENFORCEMENT, now=LATE
    )
    after = reduce(before, OUTPUT, now=Instant(9_500))
    assert after.nfr_recommendations == before.nfr_recommendations
    assert after.last_applied_recommendations == before.last_applied_recommendations
    assert (after.last_applied_at, after.enforced) == (LATE, before.enforced)


def test_002_71_times_are_no_difference():
    once = reduce(Status(), OUTPUT, now=EARLY)
    assert reduce(once, OUTPUT, now=LATE) is once
    moved = tuple(replace(each, last_transition_at=LATE) for each in once.conditions)
    assert same(once, replace(once, conditions=moved, last_updated_at=LATE))
    assert not same(once, replace(once, phase=Phase.DEGRADED))


def test_002_89_90_118_an_enforcement_is_appended_with_its_time():
    status = apply_enforcement(Status(), ENFORCEMENT, now=LATE)
    (record,) = status.last_applied_recommendations
    assert (record.component, record.dimension, record.target) == ("function", "replicas", 4)
    assert (record.basis, record.confidence) == ("throughput", 0.9)
    assert status.last_applied_at == LATE
    assert status.enforced["replicas/hello"].cooldown_until == 20_000
    assert apply_enforcement(status, ENFORCEMENT, now=LATE) is status


def test_002_105_a_failure_is_counted_and_takes_nothing_away():
    failed = replace(ENFORCEMENT, reason="EnforceConflict", message="no")
    before = Status(nfr_recommendations={"replicas": a_recommendation()})
    status = apply_enforcement(before, failed, now=LATE)
    again = apply_enforcement(status, replace(failed, at=Instant(9_001)), now=LATE)
    assert apply_enforcement(again, failed, now=LATE) is again, "that one was counted"
    enforced = again.enforced["replicas/hello"]
    assert (enforced.failures, enforced.reason, enforced.target) == (2, "EnforceConflict", None)
    assert again.nfr_recommendations == before.nfr_recommendations
    assert (again.last_applied_recommendations, again.last_applied_at) == ((), NEVER)
    well = apply_enforcement(again, replace(ENFORCEMENT, at=Instant(9_002)), now=LATE)
    assert well.enforced["replicas/hello"].failures == 0


def test_a_reset_is_no_recommendation_that_was_applied():
    status = apply_enforcement(Status(), ENFORCEMENT, now=LATE)
    reset = replace(ENFORCEMENT, target=None, at=Instant(9_001))
    after = apply_enforcement(status, reset, now=LATE)
    assert after.enforced["replicas/hello"].target is None
    assert after.last_applied_recommendations == status.last_applied_recommendations


def test_002_134_recommendations_stay_until_an_analyzer_says_otherwise():
    before = Status(nfr_recommendations={"cpu": a_recommendation(), "memory": a_recommendation()})
    told = {"cpu": a_recommendation(500, LATE)}
    after = record_recommendations(before, told, stale_after_ms=300_000, now=LATE)
    assert after.nfr_recommendations["cpu"].value == 500
    assert after.nfr_recommendations["memory"] == a_recommendation()


def test_the_same_recommendation_is_written_again_at_half_its_age_only():
    before = Status(nfr_recommendations={"replicas": a_recommendation()})
    for age_ms, is_written in ((149_999, False), (150_000, True)):
        told = {"replicas": a_recommendation(observed_at=Instant(EARLY + age_ms))}
        after = record_recommendations(before, told, stale_after_ms=300_000, now=LATE)
        assert (after is not before) is is_written
    older = {"replicas": a_recommendation(9, Instant(1))}
    assert record_recommendations(before, older, stale_after_ms=1, now=LATE) is before


def test_an_apply_is_remembered_with_its_first_success():
    once = record_apply(Status(), ApplyOutcome(generation=1, code=ApplyCode.OK), now=EARLY)
    again = record_apply(once, ApplyOutcome(generation=1, code=ApplyCode.OK), now=LATE)
    assert again is once
    failed = ApplyOutcome(generation=1, code=ApplyCode.CONFLICT, message="Deployment/a")
    broken = record_apply(once, failed, now=LATE)
    assert (broken.apply.code, broken.apply.since) == (ApplyCode.CONFLICT, EARLY)
    newer = record_apply(broken, ApplyOutcome(generation=2, code=ApplyCode.OK), now=LATE)
    assert (newer.apply.generation, newer.apply.since) == (2, LATE)
    assert record_apply(newer, failed, now=LATE) is newer, "an older answer comes too late"
