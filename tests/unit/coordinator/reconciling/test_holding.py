"""A function under load for an hour and more, by a simulated clock through the real loop: it
follows the load once and holds, does not thrash when the load sways, and goes back when it is
gone."""

from collections.abc import Callable
from itertools import pairwise
from random import Random

import pytest

from holdfast.core.ids import LeaseId
from holdfast.runtimes.status import AppliedRecommendation
from holdfast.testing.hosted import Hosted, function, manifest
from holdfast.wire.exchange import Sample

SAMPLE_MS = 5_000
MINUTE = 60_000
HOUR = 60 * MINUTE
COOLDOWN_MS = 2 * MINUTE
NFR = {
    "mode": "enforce", "minThroughputRps": 50, "maxReplicas": 8, "stability": "60s",
    "cooldown": "120s",
}  # fmt: skip
SHARE = 25
"""Two replicas are declared to bear fifty requests a second."""


class Town:
    """A function of two replicas, and every number of replicas that it ever had."""

    def __init__(self) -> None:
        self.hosted = Hosted()
        self.hosted.settle()
        hello = function("hello", replicas=2, metrics={"path": "/metrics"})
        self.hosted.apply(manifest("greeter", hello, nfr=NFR))
        self.hosted.pass_time(SAMPLE_MS)
        self.counts: list[tuple[int, int]] = [(self.hosted.now(), 2)]

    def bear(self, span_ms: int, requests_per_s: Callable[[], float]) -> None:
        """So many requests come in all, and the replicas share them."""
        hosted = self.hosted
        until = hosted.now() + span_ms
        while hosted.now() < until:
            rate = requests_per_s() / max(1, len(hosted.running()))
            for host in hosted.hosts:
                host.samples = {
                    lease: Sample(lease, 100, 1 << 20, rate, 5.0) for lease in host.running
                }
            hosted.pass_time(SAMPLE_MS, step_ms=SAMPLE_MS)
            count = len(hosted.running())
            if count != self.counts[-1][1]:
                self.counts.append((hosted.now(), count))

    @property
    def steps(self) -> list[int]:
        return [count for _, count in self.counts]

    @property
    def applied(self) -> tuple[AppliedRecommendation, ...]:
        resource = self.hosted.read()
        assert resource is not None
        return resource.status.last_applied_recommendations

    def leases(self) -> list[LeaseId]:
        return sorted(self.hosted.running())


@pytest.mark.slow
def test_a_load_that_stays_is_followed_once_and_held_for_an_hour() -> None:
    town = Town()
    town.bear(10 * MINUTE, lambda: 4.0 * SHARE)
    assert town.steps == [2, 4]
    held, log = town.leases(), len(town.hosted.service.records())
    town.bear(HOUR, lambda: 4.0 * SHARE)
    assert [each.target for each in town.applied] == [4]
    assert town.hosted.reasons().count("NFRApplied") == 1
    assert town.leases() == held
    # The recommendation is written anew before it would be stale, and nothing else is.
    records = town.hosted.service.records()[log:]
    told = [each.command for each in records if each.actor == "runtimes"]
    assert set(told) <= {"PutResourceStatus"}
    assert len(told) <= HOUR // (2 * MINUTE) + 1


@pytest.mark.slow
@pytest.mark.parametrize(("mark", "seed"), [(4.0, 0), (4.4, 1), (4.5, 2)])
def test_a_load_that_sways_around_a_mark_does_not_thrash(mark: float, seed: int) -> None:
    town, dice = Town(), Random(seed)
    town.bear(20 * MINUTE, lambda: mark * SHARE * dice.uniform(0.8, 1.2))
    # Up once, and once more by one where the first minute was not like the others.
    assert 2 <= len(town.steps) <= 3
    assert town.steps[-1] in {4, 5}
    settled = town.steps
    town.bear(40 * MINUTE, lambda: mark * SHARE * dice.uniform(0.8, 1.2))
    assert town.steps == settled
    assert len(town.applied) == len(settled) - 1


@pytest.mark.slow
def test_a_load_that_is_gone_is_followed_down_a_step_a_cooldown_and_then_it_rests() -> None:
    town = Town()
    town.bear(10 * MINUTE, lambda: 6.0 * SHARE)
    assert town.steps == [2, 6]
    town.counts = town.counts[-1:]
    town.bear(20 * MINUTE, lambda: 0.0)
    assert town.steps == [6, 5, 4, 3, 2]
    moments = [at for at, _ in town.counts[1:]]
    spans = [later - at for at, later in pairwise(moments)]
    assert min(spans) >= COOLDOWN_MS
    town.bear(HOUR // 2, lambda: 0.0)
    assert town.steps == [6, 5, 4, 3, 2]
    assert town.hosted.phase() == "available"
