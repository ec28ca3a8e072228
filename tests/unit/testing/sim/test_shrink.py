"""A failing run is made smaller until every fault in it is needed."""

import pytest

from holdfast.testing.sim.shrink import smallest


@pytest.mark.parametrize("needed", [{3}, {3, 17}, {0, 1, 99}, {5, 50, 51, 98}])
def test_only_the_faults_that_are_needed_are_left(needed: set[int]) -> None:
    assert set(smallest(range(100), lambda only: needed <= set(only))) == needed


def test_a_run_that_fails_without_any_fault_needs_none() -> None:
    assert smallest(range(10), lambda only: True) == ()


def test_it_ends_after_so_many_runs_with_the_best_it_found() -> None:
    runs = 0

    def fails(only: tuple[int, ...]) -> bool:
        nonlocal runs
        runs += 1
        return {1, 64, 99} <= set(only)

    assert {1, 64, 99} <= set(smallest(range(100), fails, most_runs=10))
    assert runs <= 11
