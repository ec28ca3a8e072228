"""Rows that found no room: what has not begun in slots of lower rank is asked back."""

from holdfast.testing.floor import Floor, a_machine


def hurried(floor: Floor) -> list[tuple[str, int]]:
    return [(hurry.worker, hurry.slot) for hurry in floor.plan().hurries]


def a_floor(**machines: int) -> Floor:
    """Every slot holds a run of four tasks of priority 0."""
    floor = Floor(**{worker: a_machine(slots) for worker, slots in machines.items()})
    floor.length = 4
    floor.submit("run", 4 * sum(machines.values()))
    floor.round()
    return floor


def test_as_many_slots_are_hurried_as_the_row_may_need() -> None:
    floor = a_floor(v=2, w=2)
    assert hurried(floor) == []
    floor.submit("urgent", 3, priority=5, cpus_milli=900)
    assert len(hurried(floor)) == 3


def test_nothing_is_hurried_for_what_is_no_more_urgent() -> None:
    floor = a_floor(w=2)
    floor.submit("peer", 3, cpus_milli=900)
    assert hurried(floor) == []


def test_a_slot_is_hurried_once_whoever_waits_for_it() -> None:
    floor = a_floor(w=2)
    floor.submit("one", 1, priority=5, cpus_milli=900)
    floor.submit("two", 1, priority=4, cpus_milli=800)
    floor.submit("three", 1, priority=3, cpus_milli=700)
    assert sorted(hurried(floor)) == [("w", 0), ("w", 1)]


def test_only_slots_that_suit_are_hurried_and_those_of_the_lowest_rank_first() -> None:
    floor = a_floor(v=1)
    floor.machines["w"] = a_machine(1, gpus=1)
    floor.submit("run2", 4, priority=2)
    floor.round()
    floor.submit("urgent", 1, priority=5, gpus=1, cpus_milli=900)
    assert hurried(floor) == [("w", 0)]
    floor.submit("first", 1, priority=6, cpus_milli=900)
    assert hurried(floor) == [("v", 0), ("w", 0)]


def test_a_slot_where_nothing_waits_is_not_hurried() -> None:
    floor = Floor(w=a_machine(1))
    floor.submit("run", 1)
    floor.round()
    floor.submit("urgent", 1, priority=5, cpus_milli=900)
    assert hurried(floor) == []
