"""Guards as `@task` takes them, as they travel, and as a retry changes them."""

import pytest

from holdfast.client.edits import edits_from
from holdfast.client.task import Options
from holdfast.core.spec import CircuitPolicy, JobSpec, RetryBudget
from holdfast.wire.specs import body_of, edited, spec_of


def a_spec(**options: str) -> JobSpec:
    return Options(**options).spec("function", "m:f", "f")


def test_guards_are_written_as_a_count_and_a_span() -> None:
    spec = a_spec(circuit="5/1m", retry_budget="100/90s")
    assert spec.circuit == CircuitPolicy(5, 60_000)
    assert spec.retry_budget == RetryBudget(100, 90_000)
    assert a_spec().circuit == CircuitPolicy()
    assert a_spec().retry_budget == RetryBudget()


@pytest.mark.parametrize("name", ["circuit", "retry_budget"])
@pytest.mark.parametrize("text", ["5", "often", "0/1m", "5/0s", "-1/1m", "5/"])
def test_what_is_no_guard_is_told_where_it_was_written(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=name):
        Options(**{name: text})


def test_they_travel_and_come_back_the_same() -> None:
    spec = a_spec(circuit="5/1m", retry_budget="7/1500ms")
    assert spec_of(body_of(spec)) == spec


def test_a_retry_may_change_them() -> None:
    edits = edits_from({"circuit": "", "retry_budget": "2/1h"})
    assert edits is not None
    changed = edited(a_spec(circuit="5/1m"), edits)
    assert (changed.circuit, changed.retry_budget) == (CircuitPolicy(), RetryBudget(2, 3_600_000))
