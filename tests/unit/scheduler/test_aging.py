"""What waiting adds: steps for a row that gets nothing, until it gets something."""

from holdfast.core import commands as c
from holdfast.core.ids import JobId
from holdfast.testing.floor import Floor, a_machine


def a_floor() -> Floor:
    floor = Floor(w=a_machine(1))
    floor.aging.step_ms = 1_000
    return floor


def ranks(floor: Floor) -> list[int]:
    outlook = floor.outlook()
    return [outlook.rank_of(row) for row in outlook.rows]


def test_a_row_gains_a_step_for_every_span_it_got_nothing() -> None:
    floor = a_floor()
    floor.submit("a", 1, priority=2)
    assert ranks(floor) == [2]
    floor.world.sleep(999)
    assert ranks(floor) == [2]
    floor.world.sleep(2_001)
    assert ranks(floor) == [5]
    floor.aging.step_ms = 0
    assert ranks(floor) == [2]


def test_a_row_that_got_something_begins_again() -> None:
    floor = a_floor()
    floor.submit("a", 5)
    floor.world.sleep(5_000)
    floor.round()
    assert ranks(floor) == [0]
    floor.world.sleep(1_000)
    assert ranks(floor) == [1]


def test_a_job_that_is_fed_all_the_time_grows_old_all_the_same() -> None:
    floor = a_floor()
    floor.world.submit("a", items=(b"x",), sealed=False)
    for number in range(1, 11):
        floor.world.sleep(500)
        ranks(floor)
        floor.world.did(c.AddTasks(job_id=JobId("a"), first=number, items=(b"x",)))
    assert ranks(floor) == [5]


def test_a_row_that_was_gone_begins_anew() -> None:
    floor = a_floor()
    floor.submit("a", 1)
    floor.world.sleep(5_000)
    floor.round()
    floor.world.sleep(5_000)
    assert ranks(floor) == []
    floor.submit("b", 1)
    assert ranks(floor) == [0]
