"""One dimension of one component: when a recommendation becomes a target, and when it is over."""

from itertools import product
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ids import Instant
from holdfast.runtimes.enforcing import (
    Apply,
    Decision,
    Held,
    NfrInput,
    NoChange,
    ResetTarget,
    Rules,
    SkipMode,
    WaitCooldown,
    WaitStability,
    decide,
    is_fresh,
)
from holdfast.runtimes.gates import Situation
from holdfast.runtimes.observed import Partition
from holdfast.runtimes.spec import MEMORY, ODGM_REPLICAS, REPLICAS
from holdfast.runtimes.status import Enforced, Phase, Recommendation, Stability

NOW = Instant(10_000_000)
STABILITY_MS, COOLDOWN_MS, STALE_MS = 180_000, 120_000, 300_000
RULES = Rules(
    mode="enforce",
    low=1,
    high=5,
    stability_ms=STABILITY_MS,
    cooldown_ms=COOLDOWN_MS,
    stale_after_ms=STALE_MS,
    step_down=1,
    enforce_in=("available",),
)
HEALTHY = Partition(name="p1", members=3, ready=3, leader="a", leader_since=Instant(1))
SITUATION = Situation(now=NOW, partitions=(HEALTHY,))


def advice(value: int, *, age_ms: int = 0, generation: int = 1) -> Recommendation:
    return Recommendation(value=value, observed_at=Instant(NOW - age_ms), generation=generation)


def held(target: int, for_ms: int) -> Stability:
    return Stability(target=target, last_change_at=Instant(NOW - for_ms))


def a_look(**changes: Any) -> NfrInput:
    """Four replicas recommended and stable for long, two running as declared."""
    rules = {key: changes.pop(key) for key in list(changes) if key in Rules.__struct_fields__}
    fields: dict[str, Any] = {
        "dimension": REPLICAS, "rules": replace(RULES, **rules), "phase": Phase.AVAILABLE,
        "recommendation": advice(4), "generation": 1, "declared": 2, "actual": 2,
        "stability": held(4, STABILITY_MS), "enforced": Enforced(), "situation": SITUATION,
        "now": NOW, **changes,
    }
    return NfrInput(**fields)


def decision(**changes: Any) -> Decision:
    return decide(a_look(**changes)).decision


def test_002_92_95_any_mode_but_enforce_skips() -> None:
    assert decision(mode="off") == SkipMode("off")
    assert decision(mode="observe") == SkipMode("observe")
    assert decision(mode="enforce") == Apply(4)


@pytest.mark.parametrize(
    ("value", "target", "clamped"),
    [(0, 1, True), (1, 1, False), (3, 3, False), (5, 5, False), (6, 5, True), (900, 5, True)],
)
def test_002_96_a_target_is_kept_within_its_bounds_and_that_is_noted(
    value: int, target: int, clamped: bool
) -> None:
    found = decision(recommendation=advice(value), stability=held(target, STABILITY_MS), actual=6)
    assert found == Apply(max(target, 5), clamped)
    waiting = decision(recommendation=advice(value), stability=None, actual=6)
    assert waiting == WaitStability(target, Instant(NOW + STABILITY_MS), clamped)


def test_002_97_a_changed_target_waits_for_stability_and_begins_its_window_anew() -> None:
    decided = decide(a_look(stability=held(3, 10**6)))
    assert decided.decision == WaitStability(4, Instant(NOW + STABILITY_MS))
    assert decided.stability is not None
    assert (decided.stability.target, decided.stability.last_change_at) == (4, NOW)


def test_002_97_a_changed_target_waits_also_without_a_window_and_within_a_cooldown() -> None:
    assert decision(stability=None, stability_ms=0) == WaitStability(4, NOW)
    cooling = Enforced(cooldown_until=Instant(NOW + 1))
    assert isinstance(decision(stability=None, enforced=cooling), WaitStability)


def test_002_98_a_cooldown_waits_however_stable_the_target_is() -> None:
    until = Instant(NOW + 1)
    assert decision(enforced=Enforced(cooldown_until=until)) == WaitCooldown(4, until)
    assert decision(enforced=Enforced(cooldown_until=NOW)) == Apply(4)


@pytest.mark.parametrize("for_ms", [STABILITY_MS, STABILITY_MS + 1, 10**7])
def test_002_99_a_target_that_held_long_enough_is_applied(for_ms: int) -> None:
    assert decision(stability=held(4, for_ms)) == Apply(4)


@pytest.mark.parametrize("for_ms", [0, 1, STABILITY_MS - 1])
def test_002_100_one_that_did_not_waits(for_ms: int) -> None:
    until = Instant(NOW - for_ms + STABILITY_MS)
    assert decision(stability=held(4, for_ms)) == WaitStability(4, until)


def test_resolution_002_9_what_is_as_recommended_is_left_alone_for_ever() -> None:
    look = a_look(actual=4, enforced=Enforced(target=4, cooldown_until=NOW))
    for _ in range(20):
        decided = decide(look)
        assert decided.decision == NoChange()
        later = Instant(look.now + COOLDOWN_MS)
        fresh = replace(advice(4), observed_at=later)
        look = replace(look, now=later, recommendation=fresh, stability=decided.stability)


def test_resolution_002_10_a_recommendation_that_goes_away_resets_the_target() -> None:
    enforced = Enforced(target=4)
    gone: dict[str, Any] = {"recommendation": None, "enforced": enforced, "actual": 4}
    assert decision(**gone) == WaitStability(2, Instant(NOW + STABILITY_MS))
    # Down by one a cooldown, like every other way down.
    assert decision(**gone, stability=held(2, STABILITY_MS)) == ResetTarget(3)
    assert decision(**gone, stability=held(2, STABILITY_MS), step_down=2) == ResetTarget(2)


def test_resolution_002_10_a_reset_goes_on_until_nothing_is_enforced() -> None:
    gone: dict[str, Any] = {"recommendation": None, "stability": held(2, STABILITY_MS)}
    # The child is where it was declared to be, and the status still says it was enforced.
    assert decision(**gone, actual=2, enforced=Enforced(target=2)) == ResetTarget(2)
    assert decision(**gone, actual=2, enforced=Enforced()) == NoChange()


def test_resolution_002_10_a_wait_does_not_lose_that_the_target_was_clamped() -> None:
    more = {"recommendation": advice(9), "stability": held(5, 0)}
    assert decision(**more) == WaitStability(5, Instant(NOW + STABILITY_MS), clamped=True)
    cooling = Enforced(cooldown_until=Instant(NOW + 5))
    assert decision(**more, enforced=cooling) == WaitCooldown(5, Instant(NOW + 5), clamped=True)
    decided = decide(a_look(**more))
    assert decided.stability is not None
    assert decided.stability.decision == "WaitStability clamped"


@pytest.mark.parametrize(
    ("age_ms", "generation", "is_good"),
    [(0, 1, True), (STALE_MS, 1, True), (STALE_MS + 1, 1, False), (0, 0, False), (0, 2, False)],
)
def test_resolution_002_13_a_recommendation_has_an_age_and_a_generation(
    age_ms: int, generation: int, is_good: bool
) -> None:
    found = advice(4, age_ms=age_ms, generation=generation)
    assert is_fresh(found, generation=1, stale_after_ms=STALE_MS, now=NOW) is is_good
    assert decision(recommendation=found) == (Apply(4) if is_good else NoChange())


def test_002_148_a_stale_recommendation_is_ignored_and_then_reset() -> None:
    stale: dict[str, Any] = {"recommendation": advice(5, age_ms=STALE_MS + 1), "actual": 4}
    assert decision(**stale) == NoChange()
    enforced = Enforced(target=4)
    assert decision(**stale, enforced=enforced, stability=held(2, STABILITY_MS)) == ResetTarget(3)


def test_resolution_002_14_replicas_are_whole_numbers() -> None:
    decided = decision(recommendation=advice(3), stability=held(3, STABILITY_MS))
    assert isinstance(decided, Apply)
    assert type(decided.target) is int


@pytest.mark.parametrize(("actual", "step_down"), list(product(range(1, 9), range(4))))
def test_002_146_the_way_down_is_stepwise_and_the_way_up_is_not(
    actual: int, step_down: int
) -> None:
    found = decision(actual=actual, step_down=step_down)
    if actual == 4:
        assert found == NoChange()
    elif actual < 4 or not step_down:
        assert found == Apply(4)
    else:
        assert found == Apply(max(4, actual - step_down))


@pytest.mark.parametrize("phase", list(Phase))
def test_a_phase_in_which_nothing_is_followed_forgets_the_target(phase: Phase) -> None:
    decided = decide(a_look(phase=phase))
    if phase is Phase.AVAILABLE:
        assert decided.decision == Apply(4)
    elif phase is Phase.PROGRESSING:
        assert decided.decision == Held("nothing is enforced while progressing", 4)
        assert decided.stability is not None
        assert decided.stability.last_change_at == NOW - STABILITY_MS
    else:
        assert isinstance(decided.decision, Held)
        assert decided.stability is None


def test_002_144_progressing_enforces_by_choice() -> None:
    chosen = ("available", "progressing")
    assert decision(phase=Phase.PROGRESSING, enforce_in=chosen) == Apply(4)


def test_degraded_by_a_failed_enforcement_tries_again() -> None:
    failed = Enforced(failures=3, reason="EnforceConflict", cooldown_until=NOW)
    look: dict[str, Any] = {"phase": Phase.DEGRADED, "enforced": failed}
    assert decision(**look, troubles=("EnforceConflict",)) == Apply(4)
    assert isinstance(decision(**look, troubles=("EnforceConflict", "CrashLoop")), Held)


def test_what_is_not_known_changes_nothing() -> None:
    decided = decide(a_look(actual=None))
    assert decided.decision == Held("what runs is not known")
    assert decided.stability == held(4, STABILITY_MS)


def test_what_is_declared_off_stays_off() -> None:
    assert decision(declared=0, actual=0) == NoChange()


def test_a_gate_of_the_dimension_holds_what_is_otherwise_due() -> None:
    strict = replace(SITUATION, confidence_min=0.8, memory_used_percent=1)
    unsure = replace(advice(4), confidence=0.2)
    look: dict[str, Any] = {"dimension": MEMORY, "situation": strict, "recommendation": unsure}
    assert decision(**look) == Held("a confidence of 0.20 is below 0.80", 4)
    assert decision(**look, stability=None) == WaitStability(4, Instant(NOW + STABILITY_MS))


def test_a_data_grid_moves_one_member_at_a_time_both_ways() -> None:
    assert decision(dimension=ODGM_REPLICAS) == Apply(3)
    assert decision(dimension=ODGM_REPLICAS, actual=5, step_down=3) != Apply(2)
    small = {"recommendation": advice(1), "stability": held(1, STABILITY_MS)}
    assert decision(dimension=ODGM_REPLICAS, actual=5, **small) == Apply(4)
    assert decision(dimension=ODGM_REPLICAS, actual=2, **small) == Held(
        "1 of 2 replicas are no majority", 1
    )


def test_002_93_94_138_every_look_has_one_decision() -> None:
    """Exhaustive over what a decision depends on: total, and nothing but the seven."""
    kinds: set[type] = set()
    looks = product(
        ("off", "observe", "enforce"),
        Phase,
        (None, advice(4), advice(9), advice(4, age_ms=STALE_MS + 1), advice(2, generation=0)),
        (None, 2, 4, 7),
        (None, held(4, 0), held(4, STABILITY_MS), held(2, STABILITY_MS)),
        (Enforced(), Enforced(target=4), Enforced(target=4, cooldown_until=Instant(NOW + 1))),
        (0, 2),
    )
    for mode, phase, found, actual, stability, enforced, declared in looks:
        look = a_look(
            mode=mode, phase=phase, recommendation=found, actual=actual,
            stability=stability, enforced=enforced, declared=declared,
        )  # fmt: skip
        decided = decide(look)
        kinds.add(type(decided.decision))
        if isinstance(decided.decision, Apply | ResetTarget):
            assert mode == "enforce"
            assert phase is Phase.AVAILABLE
            assert enforced.cooldown_until <= NOW
            assert actual is not None
            assert decided.decision.target >= actual - 1
    assert kinds == {Apply, ResetTarget, NoChange, WaitStability, WaitCooldown, SkipMode, Held}
