"""A runtime under random advice, by a simulated clock: it never thrashes, it arrives, it rests."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.ids import Instant
from holdfast.runtimes.actions import EmitEvent, Enforce, EnforcementOutcome
from holdfast.runtimes.judgement import FAILURES_MOST
from holdfast.runtimes.nfr import judge
from holdfast.runtimes.reduce import apply_enforcement
from holdfast.runtimes.resource import Resource
from holdfast.runtimes.spec import Function, Nfr
from holdfast.runtimes.status import Enforced, Phase, Recommendation, Status
from holdfast.runtimes.written import Span
from holdfast.testing.enforced_runtimes import a_runtime, observed_at, workloads_of

KEY = "replicas/hello"
BEGIN = 1_000_000
LOOKS_MOST = 5_000


@dataclass
class World:
    """One function, what it runs, and everything that was ever done to it."""

    resource: Resource
    now: int = BEGIN
    phase: Phase = Phase.AVAILABLE
    is_broken: bool = False
    changes: list[tuple[int, int, int]] = field(default_factory=list)
    tries: list[int] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    is_degraded: bool = False
    requeue_after_ms: int | None = None

    @property
    def enforced(self) -> Enforced:
        return self.resource.status.enforced.get(KEY, Enforced())

    @property
    def actual(self) -> int:
        return workloads_of(self.resource)[0].replicas

    def advise(self, value: int | None) -> None:
        """Without advice what was said before goes away; an analyzer alone would let it age."""
        status = replace(self.resource.status, nfr_recommendations={})
        if value is not None:
            made = Recommendation(value=value, observed_at=Instant(self.now), generation=1)
            status = replace(status, nfr_recommendations={"replicas": made})
        self.write(status)

    def write(self, status: Status) -> None:
        self.resource = replace(self.resource, status=status)

    def look(self) -> None:
        now, observed = Instant(self.now), observed_at(self.resource)
        found = judge(self.resource, self.phase, observed, workloads_of(self.resource), now=now)
        self.write(replace(self.resource.status, stability=found.stability))
        self.is_degraded = bool(found.degraded_reason)
        self.requeue_after_ms = found.requeue_after_ms
        for action in found.actions:
            if isinstance(action, EmitEvent):
                self.told.append(action.reason)
            else:
                self.carry_out(action)

    def carry_out(self, action: Enforce) -> None:
        self.tries.append(self.now)
        before = self.actual
        trouble = {"reason": "EnforceConflict", "message": "no"} if self.is_broken else {}
        outcome = EnforcementOutcome(
            key=action.key, component=action.component, dimension=action.dimension,
            function_key=action.function_key, target=action.target, basis=action.basis,
            confidence=action.confidence, cooldown_until=action.cooldown_until,
            at=Instant(self.now), **trouble,
        )  # fmt: skip
        status = apply_enforcement(self.resource.status, outcome, now=Instant(self.now))
        self.write(status)
        if before != self.actual:
            self.changes.append((self.now, before, self.actual))

    def pass_time(self, span_ms: int) -> None:
        self.now += span_ms

    def go_on(self, value: int | None) -> int:
        """Looked at whenever it asks to be, under the same advice, until it rests; how often."""
        for looks in range(LOOKS_MOST):
            self.advise(value)
            self.look()
            stability = self.resource.status.stability.get(KEY)
            if stability is None or stability.decision.startswith("NoChange"):
                return looks
            self.pass_time(self.requeue_after_ms or 1)
        raise AssertionError("it never rests")


def a_world(
    declared: int = 2, *, stability: int = 180, cooldown: int = 120, stale_after: int = 300,
    **changes: Any,
) -> World:  # fmt: skip
    nfr = Nfr(
        mode="enforce", max_replicas=changes.pop("most", 5), min_replicas=changes.pop("least", 1),
        stability=Span(stability * 1_000), cooldown=Span(cooldown * 1_000),
        stale_after=Span(stale_after * 1_000), max_step_down=changes.pop("step", 1),
    )  # fmt: skip
    resource = a_runtime(nfr, Function(key="hello", replicas=declared))
    return World(resource)


worlds = st.builds(
    a_world,
    declared=st.integers(1, 8),
    stability=st.sampled_from((0, 1, 30, 180)),
    cooldown=st.sampled_from((0, 1, 20, 120)),
    stale_after=st.sampled_from((1, 30, 300)),
    most=st.integers(3, 12),
    least=st.integers(1, 3),
    step=st.integers(0, 3),
)
advices = st.none() | st.integers(0, 20)
# The advice, its age's growth before the next look, whether the substrate refuses.
histories = st.lists(
    st.tuples(st.just("keep") | advices, st.integers(1, 200_000), st.booleans()), max_size=40
)


def run(world: World, history: list[tuple[Any, int, bool]]) -> None:
    for value, span_ms, is_broken in history:
        if value != "keep":
            world.advise(value)
        world.is_broken = is_broken
        world.look()
        world.pass_time(span_ms)


def check_the_changes(world: World) -> None:
    nfr = world.resource.spec.nfr
    declared = world.resource.spec.functions[0].replicas
    for (first, _, _), (second, _, _) in zip(world.changes, world.changes[1:], strict=False):
        assert second - first >= nfr.cooldown
    for first_try, second_try in zip(world.tries, world.tries[1:], strict=False):
        assert second_try - first_try >= nfr.cooldown
    highest = max(nfr.max_replicas or 0, declared)
    for _, before, after in world.changes:
        assert min(nfr.min_replicas, declared, before) <= after <= max(highest, before)
        assert not nfr.max_step_down or after >= before - nfr.max_step_down


@settings(max_examples=15)
@given(worlds, histories)
def test_002_146_whatever_is_advised_there_is_at_most_one_change_a_cooldown(
    world: World, history: list[tuple[Any, int, bool]]
) -> None:
    run(world, history)
    check_the_changes(world)


@settings(max_examples=15)
@given(worlds, histories, advices)
def test_resolution_002_9_it_arrives_in_bounded_time_and_then_nothing_changes_for_ever(
    world: World, history: list[tuple[Any, int, bool]], value: int | None
) -> None:
    run(world, history)
    world.is_broken = False
    was_enforced = world.enforced.target is not None
    begun, distance = world.now, world.actual + 20
    looks = world.go_on(value)
    nfr = world.resource.spec.nfr
    assert looks <= 3 * distance + 3
    assert world.now - begun <= nfr.stability + (distance + 1) * nfr.cooldown + looks
    if value is not None:
        assert world.actual == max(nfr.min_replicas, min(value, nfr.max_replicas or 0))
    elif was_enforced:
        assert world.actual == world.resource.spec.functions[0].replicas
        assert world.enforced.target is None
    else:
        assert world.changes == []
    # At rest nothing is decided, told or remembered anew, however often it is looked at.
    before = (world.actual, list(world.tries), world.resource.status.stability, len(world.told))
    for _ in range(5):
        world.pass_time(nfr.cooldown + nfr.stability)
        world.advise(value)
        world.look()
    after = (world.actual, list(world.tries), world.resource.status.stability, len(world.told))
    assert before == after
    assert not world.is_degraded
    check_the_changes(world)


@settings(max_examples=15)
@given(worlds, st.integers(3, 12), st.integers(0, 400_000))
def test_resolution_002_10_advice_that_grows_stale_is_taken_back_step_by_step(
    world: World, value: int, silence_ms: int
) -> None:
    world.go_on(value)
    world.changes.clear()
    assume(world.enforced.target is not None)
    nfr, declared = world.resource.spec.nfr, world.resource.spec.functions[0].replicas
    world.pass_time(silence_ms)
    for _ in range(LOOKS_MOST):
        world.look()
        if world.enforced.target is None:
            break
        world.pass_time(world.requeue_after_ms or 1)
    assert world.actual == declared
    steps = [before - after for _, before, after in world.changes if after < before]
    assert not nfr.max_step_down or all(step <= nfr.max_step_down for step in steps)
    check_the_changes(world)


@settings(max_examples=10)
@given(worlds, histories)
def test_a_decision_follows_from_the_look_alone(
    world: World, history: list[tuple[Any, int, bool]]
) -> None:
    run(world, history)
    observed = observed_at(world.resource)
    workloads, now = workloads_of(world.resource), Instant(world.now)
    first, second = (
        judge(world.resource, world.phase, observed, workloads, now=now) for _ in range(2)
    )
    assert first == second


@pytest.mark.parametrize("failures", range(1, 6))
@pytest.mark.parametrize("spare", [0, 7])
def test_resolution_002_7_147_three_failures_degrade_and_one_success_recovers(
    failures: int, spare: int
) -> None:
    world = a_world()
    world.advise(4)
    world.look()
    world.pass_time(180_000)
    world.is_broken = True
    for count in range(failures):
        world.advise(4)
        world.look()
        assert world.enforced.failures == count + 1
        # The look that fails does not know it yet; the next one does.
        world.pass_time(1)
        world.look()
        assert world.is_degraded is (count + 1 >= FAILURES_MOST)
        assert world.enforced.reason == "EnforceConflict"
        world.pass_time(120_000 + spare)
    world.is_broken = False
    world.advise(4)
    world.look()
    world.look()
    assert (world.actual, world.is_degraded, world.enforced.failures) == (4, False, 0)
    assert world.enforced.target == 4


# --- one story, by the clock --------------------------------------------------------------------


def test_002_99_a_load_is_followed_once_after_its_window_and_held() -> None:
    world = a_world()
    seen: list[tuple[int, int]] = []
    for second in range(0, 1_200, 10):
        world.now = BEGIN + second * 1_000
        world.advise(2 if second < 100 else 4)
        world.look()
        seen.append((second, world.actual))
    # Recommended at 100 s, stable for 180 s, and then as it is.
    assert world.changes == [(BEGIN + 280_000, 2, 4)]
    assert seen[-1] == (1_190, 4)
    assert world.told == ["NFRSkippedStability"]


def test_resolution_002_10_14_the_way_down_takes_a_cooldown_a_step() -> None:
    world = a_world()
    world.go_on(5)
    up_at = world.changes[-1][0]
    world.now = up_at
    for _ in range(100):
        world.advise(1)
        world.look()
        world.pass_time(10_000)
    assert [(at - up_at, after) for at, _, after in world.changes[1:]] == [
        (180_000, 4),
        (300_000, 3),
        (420_000, 2),
        (540_000, 1),
    ]


def test_advice_that_flutters_changes_nothing() -> None:
    world = a_world()
    for turn in range(200):
        world.advise(3 + turn % 2)
        world.look()
        world.pass_time(60_000)
    assert world.changes == []


def test_a_restart_of_the_whole_controller_forgets_nothing() -> None:
    """What decisions remember is in the status; a new process reads it and goes on."""
    world = a_world()
    world.advise(4)
    world.look()
    world.pass_time(100_000)
    anew = World(world.resource, world.now)
    anew.pass_time(80_000)
    anew.advise(4)
    anew.look()
    assert anew.changes == [(BEGIN + 180_000, 2, 4)]


@pytest.mark.slow
@settings(max_examples=2_000)
@given(worlds, histories)
def test_no_history_thrashes(world: World, history: list[tuple[Any, int, bool]]) -> None:
    run(world, history)
    check_the_changes(world)
