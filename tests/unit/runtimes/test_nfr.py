"""A whole runtime at one look: what is enforced, what is told, and how `NfrEnforced` stands."""

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ids import Instant
from holdfast.runtimes.actions import EmitEvent, Enforce, EnforcementOutcome, NfrJudgement
from holdfast.runtimes.judgement import FAILURES_MOST, HELD_RECHECK_MS, event_of
from holdfast.runtimes.nfr import declared_of, judge, rules_of
from holdfast.runtimes.observed import ManagedKind, Observed, Unknown
from holdfast.runtimes.resource import Resource
from holdfast.runtimes.spec import (
    CPU,
    MEMORY,
    ODGM_REPLICAS,
    REPLICAS,
    Function,
    Nfr,
    Odgm,
    Resources,
)
from holdfast.runtimes.status import Enforced, Phase, Recommendation, Stability
from holdfast.runtimes.written import Cpu, Size
from holdfast.testing.enforced_runtimes import a_runtime, observed_at, workloads_of

NOW = Instant(10_000_000)
MINUTE = 60_000
KEY = "replicas/hello"
ENFORCE = Nfr(mode="enforce", max_replicas=5)
HELLO, BYE = Function(key="hello", replicas=2), Function(key="bye", replicas=1)


def advice(value: int, **changes: Any) -> Recommendation:
    made = Recommendation(value=value, observed_at=NOW, generation=1, basis="throughput")
    return replace(made, **changes)


def stable(target: int, label: str = "WaitStability", for_ms: int = 10 * MINUTE) -> Stability:
    return Stability(target=target, last_change_at=Instant(NOW - for_ms), decision=label)


def failed(times: int, cooldown_until: int = NOW, target: int | None = None) -> Enforced:
    return Enforced(
        target=target, failures=times, reason="EnforceConflict", message="who owns it?",
        cooldown_until=Instant(cooldown_until),
    )  # fmt: skip


def judged(
    resource: Resource, *, phase: Phase = Phase.AVAILABLE, observed: Observed | None = None,
    troubles: tuple[str, ...] = (),
) -> NfrJudgement:  # fmt: skip
    found = observed if observed is not None else observed_at(resource)
    return judge(resource, phase, found, workloads_of(resource), now=NOW, troubles=troubles)


def enforces(judgement: NfrJudgement) -> list[Enforce]:
    return [action for action in judgement.actions if isinstance(action, Enforce)]


def reasons(judgement: NfrJudgement) -> list[str]:
    return [action.reason for action in judgement.actions if isinstance(action, EmitEvent)]


def due(value: int = 4, nfr: Nfr = ENFORCE, **status: Any) -> Resource:
    """Recommended, and long stable."""
    target = min(value, 5)
    fields: dict[str, Any] = {
        "nfr_recommendations": {"replicas": advice(value)},
        "stability": {KEY: stable(target)},
    }
    return a_runtime(nfr, **(fields | status))


# --- what is enforced ---------------------------------------------------------------------------


def test_002_89_137_an_enforcement_carries_all_that_the_reducer_records() -> None:
    (found,) = enforces(judged(due()))
    assert found == Enforce(
        key=KEY, component="function", dimension="replicas", function_key="hello", target=4,
        basis="throughput", confidence=1.0, cooldown_until=Instant(NOW + ENFORCE.cooldown),
    )  # fmt: skip


def test_002_91_what_was_enforced_is_not_looked_into_but_compared_with_what_runs() -> None:
    resource = due(enforced={KEY: Enforced(target=4)})
    assert enforces(judged(resource)) == []
    # Somebody scaled the child by hand: applying the workload brings it back, nothing else.
    listing = observed_at(a_runtime(ENFORCE, HELLO))
    assert enforces(judged(resource, observed=listing)) == []


def test_each_function_follows_its_own_recommendation_else_that_of_all() -> None:
    given = {"replicas": advice(3), "replicas/bye": advice(2)}
    held = {KEY: stable(3), "replicas/bye": stable(2)}
    resource = a_runtime(ENFORCE, HELLO, BYE, nfr_recommendations=given, stability=held)
    targets = {found.function_key: found.target for found in enforces(judged(resource))}
    assert targets == {"hello": 3, "bye": 2}


@pytest.mark.parametrize("mode", ["off", "observe"])
def test_002_95_nothing_is_enforced_in_another_mode(mode: Any) -> None:
    found = judged(due(nfr=replace(ENFORCE, mode=mode)))
    assert enforces(found) == []
    assert not found.is_enforced
    assert found.reason == {"off": "ModeOff", "observe": "ModeObserve"}[mode]
    assert found.stability == {}
    assert found.requeue_after_ms is None


@pytest.mark.parametrize("mode", ["off", "observe"])
def test_a_mode_that_is_taken_back_gives_back_what_was_declared_at_once(mode: Any) -> None:
    enforced = {KEY: Enforced(target=4, cooldown_until=Instant(NOW + MINUTE))}
    resource = due(nfr=replace(ENFORCE, mode=mode), enforced=enforced)
    (found,) = enforces(judged(resource))
    assert (found.target, found.basis) == (None, "reset")
    assert enforces(judged(resource, phase=Phase.DELETING)) == []


def test_what_cannot_be_given_back_is_not_tried_at_every_look() -> None:
    enforced = {KEY: replace(failed(1, NOW + MINUTE), target=4)}
    found = judged(due(nfr=replace(ENFORCE, mode="off"), enforced=enforced))
    assert enforces(found) == []
    assert found.requeue_after_ms == HELD_RECHECK_MS


def test_a_function_declared_off_is_let_go() -> None:
    off = replace(HELLO, replicas=0)
    given = {"replicas": advice(4, observed_at=Instant(1))}
    enforced = {KEY: Enforced(target=4)}
    resource = a_runtime(ENFORCE, off, nfr_recommendations=given, enforced=enforced)
    assert [found.target for found in enforces(judged(resource))] == [None]


def test_the_last_step_of_a_reset_ends_the_enforcement() -> None:
    def silent(target: int) -> Resource:
        enforced = {KEY: Enforced(target=target)}
        return a_runtime(ENFORCE, enforced=enforced, stability={KEY: stable(2)})

    assert [found.target for found in enforces(judged(silent(4)))] == [3]
    (last,) = enforces(judged(silent(3)))
    assert (last.target, last.basis, last.confidence) == (None, "reset", 1.0)


def test_a_listing_that_failed_enforces_nothing_and_keeps_the_window() -> None:
    observed = Observed(children={ManagedKind.DEPLOYMENT: Unknown("timed out")})
    found = judged(due(), observed=observed)
    assert enforces(found) == []
    assert found.stability == {KEY: stable(4)}
    assert found.message == f"{KEY}: what runs is not known"


def test_only_listed_dimensions_are_enforced() -> None:
    hello = replace(HELLO, resources=Resources(cpu=Cpu(500), memory=Size(100)))
    given = {"memory": advice(200, confidence=0.9), "cpu": advice(900)}
    held = {"memory/hello": stable(200), "cpu/hello": stable(900)}
    status: dict[str, Any] = {"nfr_recommendations": given, "stability": held}
    assert enforces(judged(a_runtime(ENFORCE, hello, **status))) == []
    nfr = replace(ENFORCE, dimensions=("memory", "cpu"))
    targets = {f.dimension: f.target for f in enforces(judged(a_runtime(nfr, hello, **status)))}
    assert targets == {"memory": 200, "cpu": 900}
    # Without a declared request, or in a template that asks for none, there is nothing to tune.
    assert enforces(judged(a_runtime(nfr, HELLO, **status))) == []
    resource = a_runtime(nfr, hello, **status)
    dev = replace(resource, spec=replace(resource.spec, template="dev"))
    assert enforces(judged(dev)) == []


def test_the_data_grid_is_a_component_of_its_own_with_a_quorum() -> None:
    nfr = replace(ENFORCE, dimensions=("odgm_replicas",))
    status: dict[str, Any] = {
        "nfr_recommendations": {"odgm_replicas": advice(5)},
        "stability": {"odgm_replicas": stable(5)},
    }
    resource = a_runtime(nfr, HELLO, odgm=Odgm(replicas=3), **status)
    (found,) = enforces(judged(resource))
    assert (found.component, found.key, found.target) == ("odgm", "odgm_replicas", 4)
    unknown = replace(observed_at(resource), partitions=None)
    closed = judged(resource, observed=unknown)
    assert enforces(closed) == []
    assert closed.reason == "Held"
    assert closed.requeue_after_ms == HELD_RECHECK_MS


def test_bounds_of_replicas_bound_replicas_alone() -> None:
    for dimension in (REPLICAS, ODGM_REPLICAS):
        assert rules_of(ENFORCE, dimension, 2).high == 5
        assert rules_of(replace(ENFORCE, max_replicas=None), dimension, 2).high == 2
    for dimension in (MEMORY, CPU):
        assert rules_of(ENFORCE, dimension, 2).high is None


def test_what_is_not_declared_is_zero() -> None:
    resource = a_runtime(ENFORCE, odgm=Odgm(enabled=False, replicas=3))
    assert declared_of(resource, ODGM_REPLICAS, "") == 0
    assert declared_of(resource, REPLICAS, "no such") == 0
    assert declared_of(resource, REPLICAS, "hello") == 2


# --- failures -----------------------------------------------------------------------------------


@pytest.mark.parametrize("times", range(1, 6))
def test_resolution_002_7_failures_keep_the_phase_until_the_third(times: int) -> None:
    found = judged(due(enforced={KEY: failed(times, NOW + MINUTE)}))
    assert (found.is_enforced, found.reason) == (False, "EnforceConflict")
    assert found.message == f"{KEY}: who owns it?"
    is_degraded = times >= FAILURES_MOST
    assert found.degraded_reason == ("EnforceConflict" if is_degraded else "")
    assert found.degraded_message == ("who owns it?" if is_degraded else "")


def test_resolution_002_7_what_is_degraded_by_enforcement_is_tried_again() -> None:
    resource = due(enforced={KEY: failed(3)})
    for phase, troubles in ((Phase.AVAILABLE, ()), (Phase.DEGRADED, ("EnforceConflict",))):
        assert [f.target for f in enforces(judged(resource, phase=phase, troubles=troubles))] == [4]
    assert enforces(judged(resource, phase=Phase.DEGRADED, troubles=("CrashLoop",))) == []


def test_002_88_a_failure_is_over_when_nothing_is_left_to_enforce() -> None:
    found = judged(due(enforced={KEY: failed(3, target=4)}))
    assert (found.is_enforced, found.degraded_reason) == (True, "")
    off = judged(due(nfr=replace(ENFORCE, mode="observe"), enforced={KEY: failed(3)}))
    assert off.degraded_reason == ""


def test_002_105_a_failure_leaves_the_recommendation_to_be_tried_again_after_a_cooldown() -> None:
    waiting = judged(due(enforced={KEY: failed(1, NOW + MINUTE)}))
    assert enforces(waiting) == []
    assert waiting.requeue_after_ms == MINUTE
    assert enforces(judged(due(enforced={KEY: failed(1)})))


# --- what is told -------------------------------------------------------------------------------


def test_002_120_121_122_waits_and_clamps_are_told_once_a_change() -> None:
    told: list[list[str]] = []
    status: dict[str, Any] = {"nfr_recommendations": {"replicas": advice(9)}}
    cooling = {KEY: Enforced(cooldown_until=Instant(NOW + MINUTE))}
    for enforced in ({}, {}, cooling, cooling):
        found = judged(a_runtime(ENFORCE, enforced=enforced, **status))
        told.append(reasons(found))
        status["stability"] = found.stability
    assert told == [["NFRClampedMax", "NFRSkippedStability"], [], ["NFRSkippedCooldown"], []]


def test_what_is_told_says_what_was_asked_and_what_is_allowed() -> None:
    found = judged(a_runtime(ENFORCE, nfr_recommendations={"replicas": advice(9)}))
    assert [a.message for a in found.actions if isinstance(a, EmitEvent)] == [
        "replicas/hello: 9 recommended, 5 is the most allowed",
        "replicas/hello=5 waits until it has held for 3m",
    ]


def outcome(**changes: Any) -> EnforcementOutcome:
    made = EnforcementOutcome(
        key=KEY, component="function", dimension="replicas", function_key="hello", target=4,
        basis="throughput", confidence=1.0, cooldown_until=NOW, at=NOW,
    )  # fmt: skip
    return replace(made, **changes)


def test_002_119_123_an_outcome_is_told() -> None:
    assert event_of(outcome()) == EmitEvent(
        reason="NFRApplied", message="replicas/hello is 4 (throughput)"
    )
    assert event_of(outcome(target=None, basis="reset")).message == (
        "replicas/hello is what is declared (reset)"
    )
    assert event_of(outcome(reason="EnforceConflict", message="no")) == EmitEvent(
        reason="NFRApplyFailed",
        message="replicas/hello: EnforceConflict: no",
        is_warning=True,
    )


# --- how NfrEnforced stands ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resource", "phase", "is_enforced", "reason"),
    [
        (due(), Phase.PROGRESSING, False, "Held"),
        (due(stability={}), Phase.AVAILABLE, False, "WaitStability"),
        (due(), Phase.AVAILABLE, False, "Applying"),
        (due(enforced={KEY: failed(0, NOW + 1)}), Phase.AVAILABLE, False, "WaitCooldown"),
        (due(enforced={KEY: Enforced(target=4)}), Phase.AVAILABLE, True, "Enforced"),
        (due(enforced={KEY: failed(1)}), Phase.AVAILABLE, False, "EnforceConflict"),
        (a_runtime(ENFORCE), Phase.AVAILABLE, False, "NoRecommendation"),
    ],
)
def test_002_112_to_115_nfr_enforced_says_whether_the_latest_is_applied(
    resource: Resource, phase: Phase, is_enforced: bool, reason: str
) -> None:
    found = judged(resource, phase=phase)
    assert (found.is_enforced, found.reason) == (is_enforced, reason)
    assert found.message


def test_one_function_that_waits_makes_the_whole_wait() -> None:
    given = {"replicas": advice(2)}
    resource = a_runtime(ENFORCE, HELLO, BYE, nfr_recommendations=given)
    found = judged(resource)
    assert (found.is_enforced, found.reason) == (False, "WaitStability")
    assert found.message.startswith("replicas/bye=2")


# --- when to look again -------------------------------------------------------------------------


def test_resolution_002_21_waits_and_the_end_of_a_recommendation_have_their_timers() -> None:
    waiting = judged(due(stability={KEY: stable(4, for_ms=MINUTE)}))
    assert waiting.requeue_after_ms == ENFORCE.stability - MINUTE
    cooling = judged(due(enforced={KEY: Enforced(cooldown_until=Instant(NOW + 7))}))
    assert cooling.requeue_after_ms == 7
    settled = judged(due(enforced={KEY: Enforced(target=4)}))
    assert settled.requeue_after_ms == ENFORCE.stale_after + 1
    assert judged(a_runtime(ENFORCE)).requeue_after_ms is None


def test_a_look_that_changes_nothing_asks_for_nothing_to_be_written() -> None:
    resource = due(enforced={KEY: Enforced(target=4)})
    first = judged(resource)
    second = judged(due(stability=first.stability, enforced={KEY: Enforced(target=4)}))
    assert first == second
    assert second.actions == ()
