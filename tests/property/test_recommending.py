"""The whole of it by a simulated clock: a load, the replicas that bear it, what is measured of
them, what is recommended and what is enforced. Whatever the load, it comes to rest."""

from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.ids import Instant
from holdfast.runtimes.actions import EmitEvent, Enforce, EnforcementOutcome
from holdfast.runtimes.nfr import judge
from holdfast.runtimes.recommend import Component, Measured, recommend
from holdfast.runtimes.reduce import apply_enforcement, record_recommendations
from holdfast.runtimes.resource import Resource
from holdfast.runtimes.spec import Function, Nfr
from holdfast.runtimes.status import Phase
from holdfast.runtimes.workload import Workload
from holdfast.testing.enforced_runtimes import a_runtime, observed_at, workloads_of

LOOK_MS = 15_000
SAMPLE_MS = 5_000
WINDOW_MS = 60_000
HOUR = 3_600_000


@dataclass
class Plant:
    """A function whose requests each take a little of a processor and wait for the others."""

    resource: Resource
    rate: float
    cost_ms: float
    sway: float = 0.0
    now: int = 10_000_000
    dice: Random = field(default_factory=lambda: Random(0))
    samples: list[Measured] = field(default_factory=list)
    changes: list[tuple[int, int, int]] = field(default_factory=list)
    writes: int = 0

    @property
    def replicas(self) -> int:
        return workloads_of(self.resource)[0].replicas

    def measure(self) -> None:
        count = self.replicas
        swayed = self.rate * (1 + self.dice.uniform(-self.sway, self.sway))
        load = swayed * self.cost_ms / 1_000 / count
        busy = min(0.99, load)
        latency_ms = self.cost_ms / (1 - busy)
        for number in range(count):
            self.samples.append(
                Measured(
                    replica=f"{number}", at=Instant(self.now), cpu_milli=round(busy * 1_000),
                    memory_bytes=2**26, latency_micros=round(latency_ms * 1_000),
                    rate_milli=round(min(swayed / count, 990 / self.cost_ms) * 1_000),
                )
            )  # fmt: skip

    def look(self) -> None:
        now, workloads = Instant(self.now), workloads_of(self.resource)
        self.advise(workloads[0])
        observed = observed_at(self.resource)
        found = judge(self.resource, Phase.AVAILABLE, observed, workloads, now=now)
        status = replace(self.resource.status, stability=found.stability)
        self.resource = replace(self.resource, status=status)
        for action in found.actions:
            if not isinstance(action, EmitEvent):
                self.enforce(action)

    def advise(self, workload: Workload) -> None:
        nfr, before, now = self.resource.spec.nfr, self.resource.status, Instant(self.now)
        self.samples = [each for each in self.samples if self.now - each.at <= WINDOW_MS]
        component = Component(
            component=workload.component, function_key=workload.function_key,
            declared=self.resource.spec.functions[0].replicas, told=workload.replicas,
            samples=tuple(self.samples),
        )  # fmt: skip
        found = recommend(
            nfr, component, window_ms=WINDOW_MS, previous=before.nfr_recommendations,
            generation=1, now=now,
        )  # fmt: skip
        status = record_recommendations(before, found, stale_after_ms=nfr.stale_after, now=now)
        self.writes += status is not before
        self.resource = replace(self.resource, status=status)

    def enforce(self, action: Enforce) -> None:
        before = self.replicas
        outcome = EnforcementOutcome(
            key=action.key, component=action.component, dimension=action.dimension,
            function_key=action.function_key, target=action.target, basis=action.basis,
            confidence=action.confidence, cooldown_until=action.cooldown_until,
            at=Instant(self.now),
        )  # fmt: skip
        status = apply_enforcement(self.resource.status, outcome, now=Instant(self.now))
        self.resource = replace(self.resource, status=status)
        self.changes.append((self.now, before, self.replicas))

    def run(self, span_ms: int) -> None:
        until = self.now + span_ms
        while self.now < until:
            self.now += SAMPLE_MS
            self.measure()
            if self.now % LOOK_MS == 0:
                self.look()


def a_plant(
    rate: float, cost_ms: float = 5.0, *, declared: int = 2, sway: float = 0.0,
    rps: float | None = 50.0, latency_ms: int | None = 100,
) -> Plant:  # fmt: skip
    nfr = Nfr(
        mode="enforce", max_replicas=8, min_throughput_rps=rps, max_latency_ms=latency_ms
    )
    return Plant(a_runtime(nfr, Function(key="hello", replicas=declared)), rate, cost_ms, sway)


def test_a_load_makes_it_grow_once_and_hold() -> None:
    plant = a_plant(120.0)
    plant.run(HOUR // 2)
    assert [(before, after) for _, before, after in plant.changes] == [(2, 5)]


def test_a_load_that_goes_is_followed_down_to_what_was_declared() -> None:
    plant = a_plant(200.0)
    plant.run(HOUR // 4)
    assert plant.replicas == 8
    plant.changes.clear()
    plant.rate = 0.0
    plant.run(HOUR // 2)
    assert [after for _, _, after in plant.changes] == [7, 6, 5, 4, 3, 2]
    spans = [b - a for (a, _, _), (b, _, _) in zip(plant.changes, plant.changes[1:], strict=False)]
    assert min(spans) >= 120_000


def test_a_load_that_sways_a_little_changes_no_more_than_a_steady_one() -> None:
    plant = a_plant(120.0, sway=0.08)
    plant.run(HOUR)
    ((_, before, after),) = plant.changes
    assert before == 2
    assert after in {5, 6}


def test_a_steady_load_is_no_stream_of_writes() -> None:
    plant = a_plant(120.0)
    plant.run(HOUR // 4)
    plant.writes = 0
    plant.run(HOUR // 2)
    # Once in half the time until a recommendation would be stale.
    assert plant.writes <= HOUR // 2 // 150_000 + 1


loads = st.builds(
    a_plant,
    st.floats(0, 1_500),
    st.floats(0.5, 40),
    declared=st.integers(1, 6),
    rps=st.none() | st.floats(1, 500),
    latency_ms=st.none() | st.integers(1, 500),
)


@pytest.mark.slow
@settings(max_examples=40)
@given(loads)
def test_whatever_the_load_it_comes_to_rest(plant: Plant) -> None:
    plant.run(2 * HOUR)
    plant.changes.clear()
    plant.run(2 * HOUR)
    assert plant.changes == []
