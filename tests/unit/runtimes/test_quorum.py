"""A data grid changes its size by one, while it is well, and never below a majority."""

from itertools import product

import pytest

from holdfast.core.ids import Instant
from holdfast.runtimes.observed import Partition
from holdfast.runtimes.quorum import majority, one_step, outvoted, spare, unled, unwell

NOW = Instant(1_000_000)


def test_a_majority_is_more_than_half() -> None:
    assert [majority(n) for n in range(7)] == [1, 1, 2, 2, 3, 3, 4]
    assert all(2 * majority(n) > n >= 2 * (majority(n) - 1) for n in range(100))


def test_what_may_be_away_leaves_a_majority() -> None:
    assert [spare(n) for n in range(7)] == [0, 0, 0, 1, 1, 2, 2]
    assert all(n - spare(n) >= majority(n) for n in range(1, 100))


def a_partition(members: int, ready: int, leader: str = "a", since: int = 1) -> Partition:
    return Partition(
        name="p1", members=members, ready=ready, leader=leader, leader_since=Instant(since)
    )


GOOD = a_partition(3, 3)


@pytest.mark.parametrize(
    ("partitions", "why"),
    [
        (None, "the health of the partitions is not known"),
        ((), "the health of the partitions is not known"),
        ((GOOD, a_partition(0, 0)), "partition p1 has 0 of 0 ready"),
        ((GOOD, a_partition(3, 2)), "partition p1 has 2 of 3 ready"),
        ((GOOD, GOOD), ""),
    ],
)
def test_only_partitions_known_to_be_healthy_count_as_such(
    partitions: tuple[Partition, ...] | None, why: str
) -> None:
    assert unwell(partitions) == why


@pytest.mark.parametrize(
    ("leader", "since", "why"),
    [
        ("", 1, "partition p1 has no leader"),
        ("b", NOW - 9_999, "partition p1 has a new leader, b"),
        ("b", NOW - 10_000, ""),
    ],
)
def test_a_leader_is_stable_when_it_has_led_for_a_while(
    leader: str, since: int, why: str
) -> None:
    partitions = (GOOD, a_partition(3, 3, leader, since))
    assert unled(partitions, steady_ms=10_000, now=NOW) == why


def test_no_step_leaves_less_than_a_majority() -> None:
    for actual, target, members, ready in product(range(8), repeat=4):
        partition = a_partition(members, ready)
        if outvoted((partition,), actual=actual, target=target):
            assert target < actual
        elif target < actual:
            assert actual - 1 >= majority(actual)
            assert ready - 1 >= majority(members)


def test_the_smallest_grids_are_never_made_smaller() -> None:
    assert outvoted((), actual=2, target=1) == "1 of 2 replicas are no majority"
    assert outvoted((), actual=1, target=0)
    assert not outvoted((GOOD,), actual=3, target=2)
    two_of_three = (a_partition(3, 2),)
    assert outvoted(two_of_three, actual=3, target=2) == "partition p1 would have 1 of 3 left"


def test_a_step_moves_one_member_the_right_way() -> None:
    for actual, target in product(range(6), repeat=2):
        step = one_step(actual, target)
        assert abs(step - actual) == (actual != target)
        assert abs(target - step) == max(0, abs(target - actual) - 1)
