"""Keeping room: what cannot be placed is not starved by what can."""

from holdfast.core import commands as c
from holdfast.core.ids import WorkerId
from holdfast.scheduler.claims import distance
from holdfast.testing.floor import Floor, a_machine

WHOLE = {"cpus_milli": 4_000}


def busy(namespace: str = "default", **machines: int) -> Floor:
    """Machines of four processors, so many of them held by small tasks of priority 9."""
    floor = Floor(**{worker: a_machine(4) for worker in machines})
    floor.submit("held", 40, priority=9, target="held", namespace=namespace)
    number = 0
    for worker, count in machines.items():
        for slot in range(count):
            floor.world.grant("held", number, worker=worker, slot=slot)
            number += 1
    floor.world.state.ready.withdraw(floor.world.state.jobs["held"])
    return floor


def jobs(floor: Floor) -> list[tuple[str, str]]:
    return [(pick.worker, pick.job_id) for pick in floor.plan().picks]


def test_room_is_kept_for_what_is_more_urgent_where_it_will_fit_soonest() -> None:
    floor = busy(v=2, w=1)
    floor.submit("big", 1, priority=5, **WHOLE)
    floor.submit("small", 9)
    assert jobs(floor) == [("v", "small"), ("v", "small")]


def test_as_much_is_kept_as_waits_and_no_more() -> None:
    floor = busy(u=3, v=2, w=1)
    floor.submit("big", 2, priority=5, **WHOLE)
    floor.submit("small", 9)
    assert jobs(floor) == [("u", "small")]


def test_what_is_beside_the_room_that_is_kept_may_be_used() -> None:
    floor = busy(w=1)
    floor.submit("big", 1, priority=5, cpus_milli=1_000, memory_bytes=1 << 30)
    floor.submit("holds", 1, memory_bytes=1, cpus_milli=0, target="held")
    floor.world.grant("holds", 0, slot=3)
    floor.submit("small", 9, memory_bytes=0)
    assert jobs(floor) == [("w", "small")]


def test_what_is_placed_in_this_plan_is_not_counted_as_waiting() -> None:
    floor = busy(u=0, v=2, w=2)
    for number in range(3):
        floor.submit(f"big{number}", 1, priority=5, cpus_milli=4_000 - number)
    floor.submit("row0", 1, priority=3, cpus_milli=2_000)
    floor.submit("row1", 1, priority=3, cpus_milli=2_000)
    floor.submit("small", 9)
    assert jobs(floor) == [("u", "big0")]
    floor = busy(t=0, u=0, v=2, w=3)
    for number in range(3):
        floor.submit(f"big{number}", 1, priority=5, **WHOLE)
    floor.submit("small", 9)
    assert jobs(floor) == [("t", "big0"), ("u", "big1"), ("w", "small")]


def test_a_slot_on_a_kept_worker_is_not_filled_up() -> None:
    floor = Floor(v=a_machine(4), w=a_machine(4))
    floor.length = 4
    floor.submit("runs", 2)
    floor.world.grant("runs", 0, worker="v", slot=0)
    floor.world.grant("runs", 1, worker="w", slot=0)
    floor.submit("more", 2, max_parallel=0)
    assert sorted(jobs(floor)) == [("v", "more"), ("w", "more")]
    floor.submit("big", 1, priority=5, **WHOLE)
    assert len(jobs(floor)) == 2
    assert len({worker for worker, _ in jobs(floor)}) == 1
    floor.submit("too", 1, priority=4, **WHOLE)
    assert jobs(floor) == []


def test_an_equal_of_another_namespace_keeps_room_for_one_task() -> None:
    floor = busy("rich", u=3, v=3, w=1)
    floor.submit("big", 5, namespace="poor", **WHOLE)
    floor.submit("small", 9, namespace="rich")
    assert jobs(floor) == [("u", "small"), ("v", "small")]


def test_an_equal_that_would_hold_more_with_what_it_wants_keeps_nothing() -> None:
    floor = busy("rich", v=1, w=2)
    floor.submit("big", 5, namespace="poor", **WHOLE)
    floor.submit("small", 1, namespace="rich")
    assert jobs(floor) == [("v", "small")]


def test_an_equal_that_holds_more_keeps_nothing() -> None:
    floor = busy(w=1)
    floor.submit("held2", 1, namespace="rich", target="held")
    floor.world.grant("held2", 0, slot=1)
    floor.submit("big", 5, namespace="rich", **WHOLE)
    floor.submit("small", 2, namespace="poor")
    assert jobs(floor) == [("w", "small"), ("w", "small")]


def test_within_a_namespace_equals_keep_nothing_from_each_other() -> None:
    floor = busy(w=1)
    floor.submit("big", 5, **WHOLE)
    floor.submit("small", 9)
    assert len(jobs(floor)) == 3


def test_what_can_run_nowhere_keeps_nothing_and_others_of_its_namespace_do() -> None:
    floor = busy("rich", u=3, v=3, w=1)
    floor.submit("never", 1, namespace="poor", cpus_milli=99_000)
    floor.submit("big", 1, namespace="poor", **WHOLE)
    floor.submit("small", 9, namespace="rich")
    assert jobs(floor) == [("u", "small"), ("v", "small")]


def test_a_suspect_that_finds_no_room_keeps_some() -> None:
    floor = Floor(w=a_machine(4))
    floor.submit("big", 1, priority=5, retries=3, **WHOLE)
    floor.round()
    floor.start(floor.tasks_on("w"))
    floor.world.did(c.LoseWorker(worker=WorkerId("w"), incarnation=1, error="gone"))
    floor.submit("held", 1, priority=9)
    floor.world.grant("held", 0)
    floor.submit("small", 9)
    assert floor.plan().picks == []


def test_a_retry_keeps_no_room_on_the_worker_it_avoids() -> None:
    floor = busy(v=2, w=1)
    floor.submit("big", 1, priority=5, retries=3, **WHOLE)
    (lease,) = floor.world.grant("big", 0, worker="w", slot=3)
    floor.world.start("big", 0, lease, worker="w")
    floor.world.fail("big", 0, lease, worker="w")
    floor.world.sleep(600_000)
    floor.submit("small", 2)
    assert jobs(floor) == [("w", "small"), ("w", "small")]


def test_no_more_is_kept_than_a_bound_would_let_start() -> None:
    floor = busy(u=2, v=1, w=1)
    floor.submit("big", 9, priority=5, max_parallel=1, **WHOLE)
    floor.submit("small", 9)
    assert {worker for worker, _ in jobs(floor)} == {"u", "w"}


def test_distance_is_the_largest_part_that_is_missing() -> None:
    floor = busy(v=4, w=1)
    floor.submit("big", 1, cpus_milli=2_000, memory_bytes=1)
    shape = floor.outlook().rows[-1].shape
    assert distance(floor.seat("w"), shape) == 0.0
    assert distance(floor.seat("v"), shape) == 2_000 / 4_000 + 1 / 4


def test_what_an_aged_row_has_left_keeps_room_with_its_priority_alone() -> None:
    floor = Floor(w=a_machine(4, memory_bytes=6))
    floor.aging.step_ms = 1_000
    floor.submit("old", 2, memory_bytes=4)
    floor.world.sleep(10_000)
    floor.submit("middle", 1, priority=3, cpus_milli=3_000)
    assert jobs(floor) == [("w", "old"), ("w", "middle")]


def test_room_that_was_kept_from_equals_is_not_kept_twice_from_the_rest() -> None:
    floor = Floor(w=a_machine(12, memory_bytes=1))
    floor.submit("rock", 1, priority=9, memory_bytes=1, namespace="rich")
    floor.world.grant("rock", 0)
    floor.submit("waits", 1, priority=1, namespace="poor", cpus_milli=4_000, memory_bytes=1)
    floor.submit("low", 1, namespace="rich", cpus_milli=5_000)
    assert jobs(floor) == [("w", "low")]


def lifted(**taken: int) -> Floor:
    """Where large work has waited for so long that it is more urgent than what comes now."""
    floor = busy(**taken)
    floor.aging.step_ms = 1_000
    floor.submit("old", 3, **WHOLE)
    floor.world.sleep(10_000)
    return floor


def test_what_waiting_has_lifted_keeps_room_for_one_task_where_that_is_nearest() -> None:
    floor = lifted(u=3, v=1, w=2)
    floor.submit("new", 9)
    assert {worker for worker, _ in jobs(floor)} == {"u", "w"}


def test_of_all_that_waiting_has_lifted_the_first_alone_keeps_room() -> None:
    floor = lifted(u=3, v=1, w=2)
    floor.world.sleep(10_000)
    floor.submit("other", 1, cpus_milli=3_500)
    floor.world.sleep(1_500)
    floor.submit("new", 9)
    assert {worker for worker, _ in jobs(floor)} == {"u", "w"}


def test_what_waiting_has_lifted_keeps_all_its_room_from_what_its_priority_is_above() -> None:
    floor = busy(u=3, v=1, w=2)
    floor.aging.step_ms = 1_000
    floor.submit("old", 3, priority=2, **WHOLE)
    floor.world.sleep(10_000)
    floor.submit("low", 9)
    assert jobs(floor) == []
    floor.submit("equal", 9, priority=2)
    assert {worker for worker, _ in jobs(floor)} == {"u", "w"}


def test_a_gang_that_waiting_has_lifted_keeps_room_for_all_of_it() -> None:
    floor = busy(u=1, v=1, w=1)
    floor.aging.step_ms = 1_000
    floor.submit("gang", 3, gang=True, **WHOLE)
    floor.world.sleep(10_000)
    floor.submit("new", 9)
    assert jobs(floor) == []
