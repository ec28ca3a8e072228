"""Where a task may run at all: wishes about attributes, and enough of everything."""

import pytest

from holdfast.core.placing import OPERATORS, Constraint
from holdfast.core.shape import Shape
from holdfast.scheduler.fit import JUDGES, liking, meets, short_of, suits, unmet
from holdfast.testing.floor import Floor, a_machine


def a_shape(**wants: object) -> Shape:
    plain: dict[str, object] = {
        "cpus_milli": 1_000, "memory_bytes": 0, "gpus": 0, "code": "work", "queue": "default",
        "namespace": "default",
    }  # fmt: skip
    return Shape(**(plain | wants))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("operator", "values", "have", "holds"),
    [
        ("eq", ("east",), "east", True),
        ("eq", ("east",), "west", False),
        ("eq", ("8.0",), "8", True),
        ("eq", ("east",), None, False),
        ("ne", ("east",), "west", True),
        ("ne", ("east",), "east", False),
        ("ne", ("8.0",), "8", False),
        ("ne", ("east",), None, True),
        ("in", ("east", "west"), "west", True),
        ("in", ("east", "west"), "north", False),
        ("in", ("1", "2"), "2.0", True),
        ("in", ("east",), None, False),
        ("exists", (), "anything", True),
        ("exists", (), "", True),
        ("exists", (), None, False),
        ("gt", ("7",), "8", True),
        ("gt", ("8",), "8", False),
        ("gt", ("9",), "10", True),
        ("ge", ("8",), "8.0", True),
        ("ge", ("8",), "7.9", False),
        ("lt", ("8",), "7", True),
        ("lt", ("8",), "8", False),
        ("le", ("8",), "8", True),
        ("le", ("8",), "8.1", False),
        ("gt", ("7",), "many", False),
        ("lt", ("many",), "7", False),
        ("lt", ("9",), None, False),
    ],
)
def test_a_wish_is_met_by_what_the_worker_says_of_itself(
    operator: str, values: tuple[str, ...], have: str | None, holds: bool
) -> None:
    attributes = {"other": "x"} | ({} if have is None else {"it": have})
    assert meets(attributes, Constraint("it", operator, values)) is holds


def test_every_operator_has_a_judge() -> None:
    assert set(JUDGES) == set(OPERATORS)


def test_what_must_hold_decides_and_what_is_preferred_only_adds_up() -> None:
    must = Constraint("zone", "eq", ("east",))
    rather = Constraint("disk", "eq", ("fast",), 30)
    also = Constraint("size", "ge", ("2",), 12)
    shape = a_shape(constraints=(must, rather, also))
    assert unmet({"zone": "west", "disk": "fast"}, shape) == [must]
    assert unmet({"zone": "east"}, shape) == []
    assert [
        liking(attributes, shape)
        for attributes in ({}, {"disk": "fast"}, {"size": "3"}, {"disk": "fast", "size": "2"})
    ] == [0, 30, 12, 42]


def test_a_worker_suits_what_it_could_run_if_nothing_else_did() -> None:
    floor = Floor(w=a_machine(1, cpus=2, gpus=1, named={"disk": 500}, zone="east"))
    floor.submit("held", 1, cpus_milli=2_000)
    floor.round()
    seat = floor.seat("w")
    assert seat.open_slots == []
    assert suits(seat, a_shape(cpus_milli=2_000, gpus=1, resources=(("disk", 500),)))
    for wants in (
        {"cpus_milli": 2_001}, {"gpus": 2}, {"memory_bytes": 2 << 30},
        {"resources": (("disk", 501),)}, {"resources": (("tape", 1),)},
        {"constraints": (Constraint("zone", "ne", ("east",)),)},
    ):  # fmt: skip
        assert not suits(seat, a_shape(**wants))
    seat.slots.clear()
    assert not suits(seat, a_shape())


def test_what_is_missing_is_told_by_name_with_what_is_wanted_and_had() -> None:
    have = Floor(w=a_machine(1, cpus=0.5, named={"disk": 2})).seat("w").free
    shape = a_shape(gpus=1, resources=(("disk", 3), ("tape", 1)))
    assert short_of(have, shape) == {
        "cpus": (1_000, 500), "gpus": (1, 0), "disk": (3, 2), "tape": (1, 0),
    }  # fmt: skip
