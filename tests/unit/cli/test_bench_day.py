"""The day that the scheduler is measured with: skewed as it should be, and replayed fairly."""

from collections import Counter
from itertools import pairwise
from statistics import mean, median

import pytest

from holdfast.cli.benchmarks.day import (
    HOUR,
    MACHINE_CPUS,
    Begun,
    Place,
    Work,
    a_day,
    first_come,
    machines_for,
    planned,
    replay,
)


def test_the_same_seed_gives_the_same_day() -> None:
    assert a_day(50, 3) == a_day(50, 3) != a_day(50, 4)


def test_a_day_is_skewed_in_time_in_size_in_length_and_in_users() -> None:
    day = a_day(5_000, 1)
    lengths = [work.takes_ms for work in day]
    assert mean(lengths) > 10 * median(lengths)
    hours = Counter(work.arrives_ms // HOUR for work in day)
    assert hours[15] > 2 * hours[3]
    assert Counter(work.cpus for work in day)[1] > len(day) // 2
    assert Counter(work.user for work in day)[0] > 0.4 * len(day)
    assert all(one.arrives_ms <= other.arrives_ms for one, other in pairwise(day))


@pytest.mark.parametrize("way", [first_come, planned])
def test_everything_begins_once_and_no_more_at_a_time_than_there_is(way: object) -> None:
    day = a_day(200, 2)
    machines = machines_for(day)
    place: Place = way(day, machines)  # type: ignore[operator]
    running: set[int] = set()
    begun: list[int] = []

    def watched(now: int, came: list[int], ended: list[int]) -> list[int]:
        running.difference_update(ended)
        fresh = place(now, came, ended)
        begun.extend(fresh)
        running.update(fresh)
        assert sum(day[number].cpus for number in running) <= machines * MACHINE_CPUS
        return fresh

    outcome = replay(day, machines, watched)
    assert sorted(begun) == list(range(len(day)))
    assert 0 < outcome.used <= 1
    assert len(outcome.begun) == len(day)


def test_first_come_first_served_lets_nobody_pass() -> None:
    day = [Work(0, HOUR, 12, 0), Work(10_000, HOUR, 8, 1), Work(20_000, HOUR, 1, 2)]
    place = first_come(day, 1)
    assert place(0, [0], []) == [0]
    assert place(10_000, [1], []) == []
    assert place(20_000, [2], []) == []
    assert place(HOUR, [], [0]) == [1, 2]


def test_slowdown_is_told_in_times_of_what_a_task_takes_and_of_a_round_at_least() -> None:
    assert Begun(Work(0, HOUR, 1, 0), HOUR).slowdown == 2
    assert Begun(Work(0, 1_000, 1, 0), 30_000).slowdown == 4


def test_of_many_who_wait_the_planner_keeps_nobody_behind_a_large_one_that_waits_for_long() -> None:
    """A machine that is nearly free for a large task is kept for it; the others are not."""
    day = a_day(600, 1)
    machines = machines_for(day)
    waits = {
        way: mean(one.waited_ms for one in replay(day, machines, way(day, machines)).begun)
        for way in (planned, first_come)
    }
    assert waits[planned] < waits[first_come] / 2
