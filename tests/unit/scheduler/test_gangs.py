"""Gangs: all at once, each in a slot of its own, or none."""

from collections import Counter

import pytest

from holdfast.core.ids import Index
from holdfast.core.placing import Constraint
from holdfast.scheduler.gangs import groups
from holdfast.testing.floor import Floor, a_machine


def where(floor: Floor) -> list[Counter[str]]:
    return [Counter(member.worker for member in gang.members) for gang in floor.round().gangs]


def test_a_gang_is_placed_whole_in_slots_of_its_own() -> None:
    floor = Floor(v=a_machine(2), w=a_machine(2))
    floor.length = 9
    floor.submit("gang", 3, gang=True)
    (gang,) = floor.round().gangs
    assert [member.index for member in gang.members] == [0, 1, 2]
    assert len({(member.worker, member.slot) for member in gang.members}) == 3


def test_a_gang_without_room_for_all_waits_and_lets_others_pass() -> None:
    floor = Floor(v=a_machine(2), w=a_machine(2))
    floor.submit("there", 2)
    floor.round()
    floor.submit("gang", 3, gang=True)
    floor.submit("small", 2)
    made = floor.round()
    assert (made.gangs, len(made.picks)) == ([], 2)


def test_a_gang_is_on_as_few_workers_as_there_may_be_and_on_liked_ones() -> None:
    floor = Floor(u=a_machine(2, disk="fast"), v=a_machine(4), w=a_machine(3))
    floor.submit("gang", 4, gang=True)
    assert where(floor) == [{"v": 4}]
    floor.submit("liking", 4, gang=True, constraints=(Constraint("disk", "eq", ("fast",), 7),))
    assert where(floor) == [{"u": 2, "w": 2}]


def test_all_of_a_gang_agree_in_the_attribute_it_names() -> None:
    floor = Floor(
        u=a_machine(2, rack="1"), v=a_machine(2, rack="2"), w=a_machine(2, rack="2"),
        x=a_machine(8),
    )  # fmt: skip
    floor.submit("gang", 3, gang=True, gang_by="rack")
    (found,) = where(floor)
    assert set(found) == {"v", "w"}
    floor.submit("next", 3, gang=True, gang_by="rack")
    assert where(floor) == []


def test_groups_are_those_that_agree_by_name_and_who_has_no_value_is_in_none() -> None:
    two = a_machine(rack="2")
    floor = Floor(w=two, v=a_machine(rack="1"), u=a_machine(), x=two)
    found = groups(floor.seats(), "rack")
    assert [[seat.worker for seat in group] for group in found] == [["v"], ["w", "x"]]
    assert [len(group) for group in groups(floor.seats(), "")] == [4]


def test_a_gang_that_fell_waits_for_its_time_and_returns_whole() -> None:
    floor = Floor(w=a_machine(4))
    floor.submit("gang", 2, gang=True, retries=3)
    floor.round()
    task = floor.tasks_on("w")[0]
    floor.start([task])
    floor.world.fail("gang", task.index, task.lease_id)
    assert where(floor) == []
    floor.world.sleep(600_000)
    assert where(floor) == [{"w": 2}]


def test_a_gang_that_cannot_be_placed_yet_keeps_room_for_all_of_it() -> None:
    floor = Floor(v=a_machine(2), w=a_machine(2))
    floor.submit("held", 1, priority=9, target="held")
    floor.world.grant("held", 0, worker="w")
    floor.submit("gang", 4, gang=True, priority=5)
    floor.submit("small", 9)
    assert floor.plan().picks == []


@pytest.mark.parametrize("wants", [{}, {"gang_by": "rack"}])
def test_a_gang_that_could_never_be_placed_keeps_nothing(wants: dict[str, str]) -> None:
    floor = Floor(v=a_machine(2, rack="1"), w=a_machine(2, rack="2"))
    floor.submit("gang", 3 if wants else 5, gang=True, priority=5, **wants)
    floor.submit("small", 9)
    assert len(floor.plan().picks) == 4


def test_a_gang_keeps_the_group_where_all_of_it_will_fit() -> None:
    floor = Floor(u=a_machine(3, rack="1"), v=a_machine(2, rack="2"), w=a_machine(2, rack="2"))
    floor.submit("held", 1, priority=9, target="held")
    floor.world.grant("held", 0, worker="w")
    floor.submit("gang", 4, gang=True, gang_by="rack", priority=5)
    floor.submit("small", 9)
    assert {pick.worker for pick in floor.plan().picks} == {"u"}


def test_what_of_a_gang_came_back_is_not_given_out_by_itself() -> None:
    floor = Floor(w=a_machine(4))
    floor.submit("gang", 2, gang=True)
    floor.round()
    assert floor.where("gang") == {Index(0): "w", Index(1): "w"}
    assert floor.plan().picks == []
    assert floor.plan().gangs == []


def test_a_gang_that_could_never_be_placed_keeps_nothing_from_its_equals_either() -> None:
    floor = Floor(v=a_machine(2), w=a_machine(2))
    floor.submit("rich", 2, namespace="rich", priority=9)
    floor.round()
    floor.submit("gang", 5, gang=True, namespace="poor")
    floor.submit("small", 9, namespace="rich")
    assert len(floor.plan().picks) == 2
