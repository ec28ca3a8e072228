"""Which workers the tasks of a row go to: liked ones first, then as the job asked."""

from collections import Counter

from holdfast.core.placing import PACK, SPREAD, Constraint
from holdfast.testing.floor import Floor, a_machine

FAST = Constraint("disk", "eq", ("fast",), 10)


def went(floor: Floor) -> list[str]:
    return [pick.worker for pick in floor.round().picks]


def test_tasks_go_round_the_workers_beginning_with_the_roomiest() -> None:
    floor = Floor(v=a_machine(1), w=a_machine(3))
    floor.submit("a", 3)
    assert went(floor) == ["w", "v", "w"]


def test_packed_tasks_fill_the_fullest_worker_first() -> None:
    floor = Floor(u=a_machine(4), v=a_machine(4), w=a_machine(4))
    floor.submit("there", 2, target="other")
    floor.world.grant("there", 0, worker="v", slot=0)
    floor.world.grant("there", 1, worker="v", slot=1)
    floor.submit("a", 5, spread=PACK)
    assert went(floor) == ["v", "v", "u", "u", "u"]


def test_spread_tasks_level_what_is_there_of_their_kind() -> None:
    floor = Floor(u=a_machine(8), v=a_machine(8), w=a_machine(8))
    floor.submit("a", 10, spread=SPREAD)
    for slot in range(3):
        floor.world.grant("a", slot, worker="u", slot=slot)
    assert Counter(went(floor)) == {"u": 1, "v": 3, "w": 3}


def test_spread_goes_on_when_a_worker_is_full() -> None:
    floor = Floor(u=a_machine(1), v=a_machine(2), w=a_machine(8))
    floor.submit("a", 7, spread=SPREAD)
    assert Counter(went(floor)) == {"u": 1, "v": 2, "w": 4}


def test_a_liked_worker_is_filled_before_others_are_used() -> None:
    floor = Floor(u=a_machine(4), w=a_machine(2, disk="fast"))
    floor.submit("a", 3, constraints=(FAST,))
    assert went(floor) == ["w", "w", "u"]


def test_liking_goes_before_spreading_and_packing() -> None:
    for wish in (SPREAD, PACK):
        floor = Floor(u=a_machine(2), v=a_machine(2, disk="fast"), w=a_machine(2, disk="fast"))
        floor.submit("a", 5, constraints=(FAST,), spread=wish)
        assert Counter(went(floor)) == {"u": 1, "v": 2, "w": 2}


def test_the_worker_to_avoid_is_passed_over_and_kept_for_others() -> None:
    floor = Floor(v=a_machine(2), w=a_machine(4))
    floor.submit("a", 3, retries=3)
    (lease,) = floor.world.grant("a", 0, worker="w")
    floor.world.start("a", 0, lease, worker="w")
    floor.world.fail("a", 0, lease, worker="w")
    floor.world.sleep(600_000)
    picks = floor.plan().picks
    assert [(p.worker, tuple(p.indices)) for p in picks] == [
        ("v", (0,)), ("w", (1,)), ("v", (2,)),
    ]  # fmt: skip


def test_a_retry_takes_a_less_liked_worker_rather_than_the_one_to_avoid() -> None:
    floor = Floor(v=a_machine(1), w=a_machine(4, disk="fast"))
    floor.submit("a", 1, retries=3, constraints=(FAST,))
    (lease,) = floor.world.grant("a", 0, worker="w")
    floor.world.start("a", 0, lease, worker="w")
    floor.world.fail("a", 0, lease, worker="w")
    floor.world.sleep(600_000)
    assert went(floor) == ["v"]
