"""Rollouts of random shapes under random delays, judged after every round."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.ids import Instant
from holdfast.runtimes.rollout import Replica, bounds_of, next_round
from holdfast.runtimes.spec import Rollout
from holdfast.runtimes.status import RolloutProgress
from holdfast.runtimes.written import Portion, Share, Span

PAUSE_MS = 60_000
ROUND_MS = 10_000


@dataclass
class Fleet:
    """Replicas that get ready and end after a while, as a row of coins says."""

    desired: int
    rollout: Rollout
    replicas: list[Replica]
    coins: list[bool]
    bad: str = ""
    wanted: str = "b"
    now: int = 1_000_000
    progress: RolloutProgress | None = None
    is_done: bool = False
    is_idle: bool = False
    paused: list[tuple[int, int]] = field(default_factory=list)

    @property
    def ready(self) -> int:
        return sum(each.is_ready and not each.is_stopping for each in self.replicas)

    def coin(self) -> bool:
        """In the end everything that can happen does."""
        return self.coins.pop() if self.coins else True

    def turn(self) -> None:
        """One round, judged, and then what becomes of it."""
        bounds = bounds_of(self.rollout, self.desired)
        ready_before, count_before = self.ready, len(self.replicas)
        found = next_round(
            wanted=self.wanted, desired=self.desired, replicas=tuple(self.replicas),
            rollout=self.rollout, before=self.progress, now=Instant(self.now),
        )  # fmt: skip
        self.progress, self.is_done = found.progress, found.is_done
        self.is_idle = not found.start and not found.stop and found.wake_after_ms is None
        if found.wake_after_ms is not None:
            self.paused.append((found.progress.step, self.now))
        stops = set(found.stop)
        assert len(stops) == len(found.stop)
        assert stops <= {each.index for each in self.replicas if not each.is_stopping}
        self.replicas = [
            replace(each, is_stopping=each.is_stopping or each.index in stops)
            for each in self.replicas
        ]
        newest = max((each.index for each in self.replicas), default=-1)
        self.replicas += [
            Replica(index=newest + 1 + n, revision=self.wanted, is_ready=False)
            for n in range(found.start)
        ]
        assert self.ready >= min(ready_before, bounds.least)
        assert len(self.replicas) <= max(bounds.most, count_before)
        living = [each for each in self.replicas if not each.is_stopping]
        assert sum(found.targets.values()) == len(living)

    def live_on(self) -> None:
        self.now += ROUND_MS
        living: list[Replica] = []
        for each in self.replicas:
            if each.is_stopping and self.coin():
                continue
            is_bad = each.revision == self.bad
            if not each.is_stopping and not each.is_ready and self.coin():
                each = replace(each, is_ready=not is_bad, is_failing=is_bad)
            living.append(each)
        self.replicas = living

    def run(self) -> int:
        """Until it is done or nothing moves any more; how many rounds that took."""
        patience = 60 + 12 * (len(self.replicas) + self.desired) + len(self.coins)
        for rounds in range(patience):
            self.turn()
            before, is_certain = list(self.replicas), not self.coins
            self.live_on()
            if self.is_done or (self.is_idle and is_certain and self.replicas == before):
                return rounds
        raise AssertionError("it neither ends nor stands still")


portions = st.integers(0, 3).map(Portion) | st.integers(0, 100).map(lambda n: Portion(-n - 1))
rollouts = st.builds(
    Rollout,
    surge=portions,
    unavailable=portions,
    steps=st.lists(st.integers(0, 100).map(Share), max_size=3).map(lambda s: tuple(sorted(s))),
    pause=st.sampled_from((Span(0), Span(PAUSE_MS))),
)
existing = st.lists(
    st.tuples(st.sampled_from("aabc"), st.booleans(), st.booleans()), max_size=12
).map(
    lambda rows: [
        Replica(index=n, revision=revision, is_ready=ready and not failing, is_failing=failing)
        for n, (revision, ready, failing) in enumerate(rows)
    ]
)
coins = st.lists(st.booleans(), max_size=60)
fleets = st.builds(
    Fleet, desired=st.integers(0, 10), rollout=rollouts, replicas=existing, coins=coins
)


@settings(max_examples=40)
@given(fleets)
def test_a_rollout_ends_at_its_target_in_bounded_rounds_and_keeps_its_bounds(
    fleet: Fleet,
) -> None:
    fleet.run()
    assert fleet.is_done
    assert [each.revision for each in fleet.replicas] == ["b"] * fleet.desired
    assert fleet.ready == fleet.desired


@settings(max_examples=40)
@given(fleets)
def test_a_bad_revision_leaves_the_old_ones_up(fleet: Fleet) -> None:
    fleet.bad = "b"
    fleet.replicas = [
        Replica(index=n, revision="a", is_ready=True) for n in range(fleet.desired)
    ]
    fleet.run()
    least = bounds_of(fleet.rollout, fleet.desired).least
    assert sum(each.revision == "a" and each.is_ready for each in fleet.replicas) >= least
    assert fleet.is_done is (fleet.desired == 0)
    # And the next revision, a good one, is not held up by what the bad one left.
    fleet.wanted = "c"
    fleet.run()
    assert [each.revision for each in fleet.replicas] == ["c"] * fleet.desired
    assert fleet.ready == fleet.desired


@settings(max_examples=20)
@given(fleets, st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 10)), max_size=6))
def test_whatever_is_declared_in_between_the_last_wish_comes_true(
    fleet: Fleet, wishes: list[tuple[str, int]]
) -> None:
    for wanted, desired in wishes:
        fleet.wanted, fleet.desired = wanted, desired
        for _ in range(3):
            fleet.turn()
            fleet.live_on()
    fleet.run()
    assert [each.revision for each in fleet.replicas] == [fleet.wanted] * fleet.desired


@settings(max_examples=20)
@given(st.integers(4, 10), coins)
def test_every_step_is_held_for_its_pause(desired: int, row: list[bool]) -> None:
    rollout = Rollout(steps=(Share(25), Share(50), Share(100)), pause=Span(PAUSE_MS))
    old = [Replica(index=n, revision="a", is_ready=True) for n in range(desired)]
    fleet = Fleet(desired, rollout, old, row)
    fleet.run()
    for step in (1, 2):
        times = [now for at, now in fleet.paused if at == step]
        assert max(times) - min(times) >= PAUSE_MS - ROUND_MS
    assert fleet.is_done


@pytest.mark.slow
@settings(max_examples=3_000)
@given(fleets)
def test_no_shape_gets_stuck(fleet: Fleet) -> None:
    fleet.run()
    assert fleet.is_done
