"""Making room: what ends is less urgent, least work is lost, and nothing ends twice."""

from collections import Counter

from holdfast.core import commands as c
from holdfast.core.ids import JobId
from holdfast.scheduler.proposals import Plan
from holdfast.testing.floor import Floor, a_machine

URGENT = {"priority": 5, "preempts": True}


def running(floor: Floor, *jobs: str) -> None:
    """Place and start these, one after the other, a second apart."""
    for job_id in jobs:
        floor.round()
        for worker in floor.machines:
            tasks = floor.tasks_on(worker)
            floor.start(task for task in tasks if task.job_id == job_id)
        floor.world.sleep(1_000)


def ended(made: Plan) -> set[tuple[str, int]]:
    return {(eviction.worker, eviction.slot) for eviction in made.evictions}


def fill(floor: Floor, *priorities: int, **wants: object) -> None:
    """A task of each priority, the oldest first, each begun a second after the one before."""
    for number, priority in enumerate(priorities):
        name = f"low{len(floor.world.state.jobs)}"
        floor.submit(name, 1, priority=priority, target=f"t{number}", **wants)
        running(floor, name)


def test_what_has_run_shortest_ends_first_and_as_many_as_are_needed() -> None:
    floor = Floor(w=a_machine(4))
    fill(floor, 0, 0, 0, 0)
    floor.submit("urgent", 2, **URGENT)
    assert ended(floor.round()) == {("w", 3), ("w", 2)}


def test_only_who_asks_for_it_and_only_what_ranks_below_its_priority_ends() -> None:
    floor = Floor(w=a_machine(2))
    fill(floor, 5, 4)
    floor.submit("polite", 2, priority=9)
    assert floor.plan().evictions == []
    floor.world.did(c.KillJob(job_id=JobId("polite")))
    floor.submit("urgent", 2, **URGENT)
    assert ended(floor.plan()) == {("w", 1)}


def test_what_waiting_adds_protects_and_does_not_evict() -> None:
    floor = Floor(w=a_machine(1))
    floor.aging.step_ms = 1_000
    floor.submit("old", 1)
    floor.world.sleep(7_000)
    floor.round()
    floor.submit("urgent", 1, **URGENT)
    assert floor.plan().evictions == []
    floor.world.sleep(60_000)
    assert floor.plan().evictions == []
    floor.submit("more", 1, priority=8, preempts=True)
    assert [eviction.job_id for eviction in floor.plan().evictions] == ["more"]


def test_nothing_ends_twice_while_it_is_leaving_and_the_room_goes_to_who_asked() -> None:
    floor = Floor(w=a_machine(2))
    fill(floor, 0, 0)
    floor.submit("urgent", 1, **URGENT)
    assert len(floor.round().evictions) == 1
    floor.submit("small", 9, target="small")
    made = floor.round()
    assert (made.evictions, made.picks) == ([], [])
    floor.let_go()
    assert [pick.job_id for pick in floor.round().picks] == ["urgent"]


def test_what_ends_for_one_is_not_counted_on_by_another() -> None:
    floor = Floor(w=a_machine(3))
    fill(floor, 0, 0, 0)
    floor.submit("one", 1, **URGENT)
    floor.submit("two", 1, cpus_milli=900, **URGENT)
    assert Counter(e.job_id for e in floor.round().evictions) == {"one": 1, "two": 1}


def test_room_where_others_end_is_kept_for_who_they_ended_for() -> None:
    floor = Floor(v=a_machine(4), w=a_machine(4))
    floor.submit("rock", 1, priority=9, target="rock")
    floor.world.grant("rock", 0, worker="v")
    floor.submit("held", 2, target="held", cpus_milli=2_000)
    for number in range(2):
        floor.world.grant("held", number, worker="w", slot=number)
    floor.submit("urgent", 1, cpus_milli=4_000, **URGENT)
    floor.submit("small", 9, target="small", cpus_milli=2_000)
    made = floor.round()
    assert ended(made) == {("w", 0), ("w", 1)}
    # The nearest worker is another: what it has free is nobody's who was given room elsewhere.
    assert [pick.worker for pick in made.picks] == ["v"]
    del floor.leaving[("w", 0)]
    assert floor.round().picks == []
    floor.let_go()
    assert [pick.job_id for pick in floor.round().picks] == ["urgent"]


def test_as_few_end_as_make_room_and_the_dearest_are_spared() -> None:
    floor = Floor(w=a_machine(3, cpus=8))
    for name, cpus in (("large", 4_000), ("middle", 3_000), ("tiny", 1_000)):
        floor.submit(name, 1, target=name, cpus_milli=cpus)
        running(floor, name)
    floor.submit("urgent", 1, cpus_milli=5_000, **URGENT)
    assert ended(floor.plan()) == {("w", 0), ("w", 2)}


def test_no_more_end_than_bounds_would_let_start() -> None:
    floor = Floor(w=a_machine(4))
    fill(floor, 0, 0, 0, 0)
    floor.submit("urgent", 4, max_parallel=1, **URGENT)
    assert len(floor.plan().evictions) == 1


def test_tasks_that_were_placed_in_this_plan_need_nobody_to_end() -> None:
    floor = Floor(w=a_machine(4))
    fill(floor, 0, 0)
    for number in range(3):
        floor.submit(f"urgent{number}", 1, **URGENT)
    made = floor.plan()
    assert (len(made.picks), len(made.evictions)) == (2, 1)


def test_nobody_ends_on_a_worker_that_the_task_avoids() -> None:
    floor = Floor(v=a_machine(1), w=a_machine(1))
    floor.submit("urgent", 1, retries=3, **URGENT)
    (lease,) = floor.world.grant("urgent", 0, worker="w")
    floor.world.start("urgent", 0, lease, worker="w")
    floor.world.fail("urgent", 0, lease, worker="w")
    floor.submit("rock", 1, priority=9)
    floor.world.grant("rock", 0, worker="v")
    floor.submit("low", 1, target="low")
    floor.world.grant("low", 0, worker="w")
    floor.world.sleep(600_000)
    assert floor.plan().evictions == []


def test_a_gang_ends_others_for_all_of_it_or_not_at_all() -> None:
    floor = Floor(v=a_machine(2, rack="1"), w=a_machine(2, rack="2"))
    fill(floor, 0, 0, 9, 0)
    assert floor.seat("v").slots[0].rank == 0
    floor.submit("gang", 3, gang=True, **URGENT)
    assert len(floor.plan().evictions) == 3
    floor.submit("rock", 1, priority=9, target="rock")
    floor.world.did(c.KillJob(job_id=JobId("gang")))
    floor.submit("racked", 2, gang=True, gang_by="rack", **URGENT)
    (one, two) = floor.plan().evictions
    assert one.worker == two.worker
    floor.world.did(c.KillJob(job_id=JobId("racked")))
    floor.submit("large", 4, gang=True, **URGENT)
    assert floor.plan().evictions == []


def test_a_gang_that_falls_costs_all_its_work_and_makes_room_wherever_it_is() -> None:
    floor = Floor(v=a_machine(2), w=a_machine(2))
    floor.submit("gang", 2, gang=True)
    floor.submit("single", 2, cpus_milli=999)
    floor.world.grant("single", 0, worker="v", slot=0)
    floor.world.grant("single", 1, worker="w", slot=0)
    floor.world.sleep(1)
    for worker in "vw":
        floor.start(floor.tasks_on(worker))
    floor.world.sleep(1_500)
    floor.round()
    assert set(floor.where("gang").values()) == {"v", "w"}
    for worker in "vw":
        floor.start(task for task in floor.tasks_on(worker) if task.job_id == "gang")
    floor.world.sleep(2_000)
    floor.submit("urgent", 1, **URGENT)
    # Two times two seconds are dearer than the three and a half of one that is older.
    (made,) = floor.plan().evictions
    assert floor.seat(made.worker).slots[made.slot].shape.cpus_milli == 999
    floor.submit("many", 3, **URGENT)
    plan = floor.round()
    assert len(plan.evictions) == 3
    assert floor.where("gang") == floor.where("single") == {}
    assert len(floor.leaving) == 4
    floor.let_go()
    assert len(floor.round().picks) == 4


def test_least_work_is_lost_across_workers() -> None:
    floor = Floor(v=a_machine(1), w=a_machine(1))
    fill(floor, 0, 0)
    younger = floor.where("low1")
    floor.submit("urgent", 1, **URGENT)
    (eviction,) = floor.plan().evictions
    assert eviction.worker in younger.values()
