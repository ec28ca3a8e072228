"""Bounds across jobs: how many run at once, and how many start."""

from collections import Counter

import pytest

from holdfast.scheduler.ledger import (
    CIRCUIT,
    KEY,
    NAMESPACE,
    UNBOUNDED,
    USER,
    Ledger,
    Name,
    names_of,
)
from holdfast.testing.floor import Floor, a_machine


def a_floor() -> Floor:
    return Floor(w=a_machine(8))


def given_out(floor: Floor) -> Counter[str]:
    return Counter(pick.job_id for pick in floor.round().picks for _ in pick.indices)


@pytest.mark.parametrize(
    ("name", "wants"),
    [
        ((NAMESPACE, "team"), {"namespace": "team"}),
        ((USER, "ann"), {"user": "ann"}),
        ((KEY, "db"), {"keys": (("db", 0),)}),
    ],
    ids=str,
)
def test_no_more_run_than_a_bound_says_whatever_their_job(name: Name, wants: dict) -> None:
    floor = a_floor()
    floor.length = 9
    floor.caps[name] = 3
    floor.submit("a", 2, **wants)
    floor.submit("b", 9, cpus_milli=500, **wants)
    floor.submit("other", 2, namespace="else")
    assert given_out(floor) == {"a": 2, "b": 1, "other": 2}
    assert given_out(floor) == {}
    floor.commit(floor.tasks_on("w")[:1])
    assert given_out(floor) == {"b": 1}


def test_a_bound_that_was_lowered_under_what_runs_lets_nothing_start() -> None:
    floor = a_floor()
    floor.submit("a", 6)
    floor.machines["w"] = a_machine(4)
    assert given_out(floor) == {"a": 4}
    floor.machines["w"] = a_machine(8)
    floor.caps[(NAMESPACE, "default")] = 2
    assert given_out(floor) == {}


def test_a_key_has_a_bound_of_its_own_and_the_tighter_one_counts() -> None:
    floor = a_floor()
    floor.submit("a", 9, keys=(("db", 2),))
    assert given_out(floor) == {"a": 2}
    floor.caps[(KEY, "db")] = 1
    floor.commit(floor.tasks_on("w"))
    assert given_out(floor) == {"a": 1}


def test_every_key_of_a_task_must_allow_it() -> None:
    floor = a_floor()
    floor.submit("a", 9, keys=(("db", 3), ("disk", 2)))
    floor.submit("b", 9, keys=(("db", 3),))
    assert given_out(floor) == {"a": 2, "b": 1}


def test_a_rate_bounds_how_many_start_and_not_how_many_run() -> None:
    floor = a_floor()
    floor.tokens[(USER, "ann")] = 2
    floor.submit("a", 9, user="ann")
    assert given_out(floor) == {"a": 2}
    assert given_out(floor) == {"a": 2}
    floor.tokens[(USER, "ann")] = 0
    assert given_out(floor) == {}


def test_a_gang_waits_until_a_bound_has_room_for_all_of_it() -> None:
    floor = a_floor()
    floor.caps[(NAMESPACE, "default")] = 3
    floor.submit("a", 1)
    floor.submit("gang", 3, gang=True)
    made = floor.round()
    assert (given_out_of(made.picks), made.gangs) == ({"a": 1}, [])
    floor.commit(floor.tasks_on("w"))
    assert len(floor.round().gangs) == 1


def given_out_of(picks: list) -> Counter[str]:
    return Counter(pick.job_id for pick in picks)


def test_what_waits_for_a_bound_keeps_no_room_from_others() -> None:
    floor = Floor(w=a_machine(1))
    floor.caps[(USER, "ann")] = 1
    floor.submit("held", 1, user="ann", memory_bytes=1, cpus_milli=0)
    floor.machines["w"] = a_machine(2, cpus=1)
    floor.world.grant("held", 0, slot=1)
    floor.submit("urgent", 5, user="ann", priority=9)
    floor.submit("low", 1)
    assert given_out(floor) == {"low": 1}


def test_what_nothing_bounds_is_unbounded() -> None:
    floor = a_floor()
    floor.submit("a", 1, user="ann", keys=(("db", 0),))
    (row,) = floor.outlook().rows
    ledger = Ledger({}, {}, {})
    assert ledger.room(row.shape) == UNBOUNDED
    assert list(names_of(row.shape)) == [
        (NAMESPACE, "default"), (USER, "ann"), (KEY, "db"), (CIRCUIT, "work"),
    ]  # fmt: skip



def test_what_tasks_take_together_is_bounded_whatever_their_number() -> None:
    floor = a_floor()
    floor.amounts[(NAMESPACE, "default")] = {"cpus": 2_500, "gpus": 1}
    floor.submit("large", 4, cpus_milli=1_000)
    floor.submit("small", 4, cpus_milli=250)
    # Two large ones leave half a processor, which two small ones take.
    assert given_out(floor) == {"large": 2, "small": 2}
    assert given_out(floor) == {}
    # What asks for nothing of it is not bounded by it.
    floor.submit("idle", 1, cpus_milli=0)
    assert given_out(floor) == {"idle": 1}


def test_a_bound_of_an_amount_says_how_many_more_may_start() -> None:
    floor = a_floor()
    floor.submit("a", 1, cpus_milli=1_500, resources=(("licence", 2_000),))
    (row,) = floor.outlook().rows
    ledger = Ledger({}, {}, {row.shape: 1}, {(NAMESPACE, "default"): {"cpus": 6_000, "gpus": 9}})
    (bound,) = ledger.bounds(row.shape)
    assert (bound.resource, bound.most, bound.left, bound.need) == ("cpus", 6_000, 4_500, 1_500)
    assert (bound.room, ledger.room(row.shape)) == (3, 3)
    ledger.note(row.shape, 3)
    assert ledger.room(row.shape) == 0
    named = Ledger({}, {}, {}, {(NAMESPACE, "default"): {"licence": 5_000}})
    assert (named.is_bounded(row.shape), named.room(row.shape)) == (True, 2)
    assert not Ledger({}, {}, {}, {(NAMESPACE, "else"): {"cpus": 1}}).is_bounded(row.shape)
