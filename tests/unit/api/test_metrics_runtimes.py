"""Numbers about class runtimes in the text that Prometheus reads."""

from msgspec.structs import replace

from holdfast.api.metrics_runtimes import runtimes_told
from holdfast.core.ids import Instant
from holdfast.runtimes.actions import EnforcementOutcome
from holdfast.runtimes.status import NEW, Condition, ConditionType, Phase, Recommendation
from holdfast.runtimes.tally import Tally

OUTCOME = EnforcementOutcome(
    key="replicas/hello", component="function", dimension="replicas", function_key="hello",
    target=4, basis="throughput", confidence=1.0, cooldown_until=Instant(9), at=Instant(5),
)  # fmt: skip


def test_what_is_enforced_is_told_in_numbers() -> None:
    tally = Tally()
    told = {
        "replicas/hello": Recommendation(value=4, observed_at=Instant(7), generation=1),
        "replicas/bye": Recommendation(value=2, observed_at=Instant(6), generation=1),
    }
    up = replace(NEW, phase=Phase.AVAILABLE, nfr_recommendations=told)
    tally.moved("greeter", Phase.PROGRESSING, up)
    tally.moved("greeter", Phase.AVAILABLE, up)
    tally.enforced(OUTCOME, 3)
    tally.enforced(replace(OUTCOME, reason="EnforceConflict"), 700)
    lines = "".join(runtimes_told(tally)).splitlines()
    assert 'crm_nfr_recommendation{dimension="replicas"} 4' in lines
    assert 'crm_nfr_enforcement_apply_total{dimension="replicas"} 1' in lines
    assert 'crm_nfr_enforcement_fail_total{reason="EnforceConflict"} 1' in lines
    assert 'crm_nfr_enforcement_latency_seconds_bucket{le="0.005"} 1' in lines
    assert "crm_nfr_enforcement_latency_seconds_sum 0.703" in lines
    assert "crm_nfr_enforcement_latency_seconds_count 2" in lines
    move = '{source="progressing",target="available"}'
    assert f"holdfast_runtime_transitions_total{move} 1" in lines
    assert 'holdfast_runtimes{phase="available"} 1' in lines
    tally.forget("greeter")
    assert not any(line.startswith("holdfast_runtimes{") for line in "".join(
        runtimes_told(tally)
    ).splitlines())


def test_002_168_degraded_runtimes_are_counted_by_reason() -> None:
    tally = Tally()
    for name, reason, is_true in (
        ("one", "CrashLoop", True), ("two", "CrashLoop", True), ("three", "Timeout", True),
        ("well", "Available", False),
    ):  # fmt: skip
        degraded = Condition(
            type=ConditionType.DEGRADED, is_true=is_true, reason=reason, message="",
            observed_generation=1,
        )  # fmt: skip
        tally.seen(name, replace(NEW, conditions=(degraded,)))
    lines = "".join(runtimes_told(tally)).splitlines()
    assert [line for line in lines if line.startswith("holdfast_runtimes_degraded{")] == [
        'holdfast_runtimes_degraded{reason="CrashLoop"} 2',
        'holdfast_runtimes_degraded{reason="Timeout"} 1',
    ]
