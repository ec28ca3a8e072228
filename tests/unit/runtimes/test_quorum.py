"""A data grid changes its size by one, while it is well, and never below a majority."""

from itertools import product

import pytest

from holdfast.core.ids import NEVER, Instant
from holdfast.runtimes.observed import PartitionHealth
from holdfast.runtimes.quorum import majority, one_step, outvoted, spare, unled, unwell

NOW = Instant(1_000_000)


def test_a_majority_is_more_than_half() -> None:
    assert [majority(n) for n in range(7)] == [1, 1, 2, 2, 3, 3, 4]
    assert all(2 * majority(n) > n >= 2 * (majority(n) - 1) for n in range(100))


def test_what_may_be_away_leaves_a_majority() -> None:
    assert [spare(n) for n in range(7)] == [0, 0, 0, 1, 1, 2, 2]
    assert all(n - spare(n) >= majority(n) for n in range(1, 100))


@pytest.mark.parametrize(
    ("partitions", "why"),
    [
        (None, "the health of the partitions is not known"),
        (PartitionHealth(error="timed out"), "the health of the partitions is not known: timed out"),
        (PartitionHealth(total=0, healthy=0), "0 of 0 partitions are healthy"),
        (PartitionHealth(total=4, healthy=3), "3 of 4 partitions are healthy"),
        (PartitionHealth(total=4, healthy=4), ""),
    ],
)
def test_only_partitions_known_to_be_healthy_count_as_such(
    partitions: PartitionHealth | None, why: str
) -> None:
    assert unwell(partitions) == why


@pytest.mark.parametrize(
    ("since", "why"),
    [
        (NEVER, "no leader is known"),
        (NOW - 9_999, "the leader changed a short while ago"),
        (NOW - 10_000, ""),
    ],
)
def test_a_leader_is_stable_when_it_has_led_for_a_while(since: int, why: str) -> None:
    partitions = PartitionHealth(total=1, healthy=1, leader_since=Instant(since))
    assert unled(partitions, steady_ms=10_000, now=NOW) == why
    assert unled(None, steady_ms=10_000, now=NOW) == "no leader is known"


def test_no_step_leaves_less_than_a_majority() -> None:
    for actual, ready, target in product(range(8), repeat=3):
        if outvoted(actual=actual, target=target, ready=ready):
            assert target < actual
        elif target < actual:
            assert min(ready, actual) - 1 >= majority(actual)


def test_the_smallest_grids_are_never_made_smaller() -> None:
    assert outvoted(actual=2, target=1, ready=2) == "1 of 2 replicas would be left, no majority"
    assert outvoted(actual=1, target=0, ready=1)
    assert not outvoted(actual=3, target=2, ready=3)
    assert outvoted(actual=3, target=2, ready=2)


def test_a_step_moves_one_member_the_right_way() -> None:
    for actual, target in product(range(6), repeat=2):
        step = one_step(actual, target)
        assert abs(step - actual) == (actual != target)
        assert abs(target - step) == max(0, abs(target - actual) - 1)
