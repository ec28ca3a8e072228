"""Placing work: what fits goes where it fits, in the order it came, and nothing is overfilled."""

import gc

import pytest

from holdfast.core import commands as c
from holdfast.core.ids import JobId, Position, WorkerId
from holdfast.core.placing import Constraint
from holdfast.scheduler.plan import (
    LONGEST_RUN,
    MOST_JOBS,
    RUN_BYTES,
    RUN_MS,
    fitting,
    run_length,
)
from holdfast.scheduler.proposals import Pick
from holdfast.testing.floor import Floor, a_machine


def places(picks: list[Pick]) -> list[tuple[str, str, int, tuple[int, ...]]]:
    return [(p.worker, p.job_id, p.slot, tuple(p.indices)) for p in picks]


def test_a_run_is_one_task_until_known_then_about_fifty_milliseconds_of_work() -> None:
    assert run_length(None) == 1
    assert run_length(0) == LONGEST_RUN
    assert run_length(10**9) == 1
    assert run_length(RUN_MS * 1_000 // 10) == 10
    assert run_length(RUN_MS * 1_000) == 1
    assert run_length(RUN_MS * 1_000 // 2) == 2
    assert run_length(RUN_MS * 1_000 // 2 + 1) == 1


def test_a_run_is_shorter_where_its_payloads_are_large_or_its_jobs_are_of_one_task() -> None:
    floor = Floor(w=a_machine())
    floor.submit("map", LONGEST_RUN)
    floor.submit("single")
    large, single = (floor.world.state.jobs[JobId(name)] for name in ("map", "single"))
    assert fitting(large, LONGEST_RUN) == LONGEST_RUN
    large.payloads = [bytes(RUN_BYTES // 4)] * LONGEST_RUN
    assert fitting(large, LONGEST_RUN) == 4
    large.payloads = [bytes(2 * RUN_BYTES)] * LONGEST_RUN
    assert fitting(large, 2) == 1
    large.payloads, large.shared = None, bytes(RUN_BYTES // 8)
    assert fitting(large, LONGEST_RUN) == 8
    assert fitting(single, LONGEST_RUN) == MOST_JOBS


def test_tasks_are_dealt_out_evenly_to_the_free_slots() -> None:
    floor = Floor(w=a_machine())
    floor.length = 10
    floor.submit("a", 5)
    assert places(floor.plan().picks) == [("w", "a", 0, (0, 1, 2)), ("w", "a", 1, (3, 4))]


def test_who_came_first_goes_first_and_what_is_urgent_before_all() -> None:
    floor = Floor(w=a_machine())
    floor.submit("first")
    floor.submit("second")
    floor.submit("urgent", priority=5)
    assert jobs(floor) == ["urgent", "first"]


def test_a_job_that_does_not_fit_lets_others_pass() -> None:
    floor = Floor(w=a_machine())
    floor.submit("big", cpus_milli=8_000)
    floor.submit("small")
    assert jobs(floor) == ["small"]


def test_resources_are_counted_once_a_slot() -> None:
    floor = Floor(w=a_machine(4, cpus=5))
    floor.length = 50
    floor.submit("a", 10, cpus_milli=2_000)
    assert [(p.slot, len(p.indices)) for p in floor.round().picks] == [(0, 1), (1, 1)]
    assert floor.seat("w").free.cpus_milli == 1_000


def test_parts_of_a_processor_add_up() -> None:
    floor = Floor(w=a_machine(8, cpus=1))
    floor.submit("a", 10, cpus_milli=300)
    floor.submit("b", 10, cpus_milli=100)
    assert jobs(floor) == ["a", "a", "a", "b"]


def test_a_gpu_is_given_to_one_slot_at_a_time() -> None:
    floor = Floor(w=a_machine(4, gpus=1))
    floor.submit("a", 10, gpus=1)
    assert len(floor.round().picks) == 1
    assert (floor.seat("w").free.gpus, floor.plan().picks) == (0, [])
    floor = Floor(w=a_machine(4))
    floor.submit("a", 10, gpus=1)
    assert floor.plan().picks == []


def test_memory_is_given_to_as_many_slots_as_it_lasts_for() -> None:
    floor = Floor(v=a_machine(4), w=a_machine(4))
    floor.submit("a", 10, memory_bytes=1 << 29)
    picks = floor.round().picks
    assert sorted((p.worker, p.slot) for p in picks) == [("v", 0), ("v", 1), ("w", 0), ("w", 1)]
    assert [seat.free.memory_bytes for seat in floor.seats()] == [0, 0]
    assert floor.plan().picks == []


def test_what_wants_no_memory_does_not_mind_that_there_is_less_than_none() -> None:
    floor = Floor(w=a_machine(2))
    floor.submit("a", memory_bytes=1 << 30)
    floor.round()
    floor.machines["w"].total.memory_bytes = 1 << 20
    floor.submit("b")
    assert floor.seat("w").free.memory_bytes < 0
    assert jobs(floor) == ["b"]


def test_what_is_named_is_counted_like_everything_else() -> None:
    floor = Floor(v=a_machine(4), w=a_machine(4, named={"licence": 2_500}))
    floor.submit("a", 10, resources=(("licence", 1_000),))
    assert [(p.worker, p.job_id) for p in floor.round().picks] == [("w", "a"), ("w", "a")]
    floor.submit("b", 10, resources=(("licence", 500),))
    assert [(p.worker, p.job_id) for p in floor.round().picks] == [("w", "b")]
    assert floor.seat("w").free.named == {"licence": 0}


@pytest.mark.parametrize(
    "wants",
    [
        {"memory_bytes": 1}, {"gpus": 1}, {"cpus_milli": 1_001}, {"max_parallel": 4},
        {"resources": (("disk", 1),)}, {"keys": (("db", 9),)},
    ],
    ids=str,
)  # fmt: skip
def test_nothing_waits_in_a_slot_that_is_counted_for_more_than_a_processor(
    wants: dict[str, int],
) -> None:
    floor = Floor(w=a_machine(2, cpus=8, gpus=8, named={"disk": 9}))
    floor.length = 50
    floor.submit("a", 10, **wants)
    assert [len(p.indices) for p in floor.round().picks] == [1, 1]
    assert floor.plan().picks == []


def test_one_processor_or_less_is_no_reason_to_travel_alone() -> None:
    floor = Floor(w=a_machine(1))
    floor.length = 50
    floor.submit("a", 10, cpus_milli=1_000)
    assert [len(p.indices) for p in floor.plan().picks] == [10]


def test_a_job_with_a_bound_never_holds_more_slots_than_that() -> None:
    floor = Floor(v=a_machine(), w=a_machine())
    floor.length = 50
    floor.submit("a", 100, max_parallel=3)
    assert [len(p.indices) for p in floor.round().picks] == [1, 1, 1]
    assert floor.plan().picks == []


def test_a_bound_counts_those_that_are_placed_one_by_one() -> None:
    floor = Floor(w=a_machine(8))
    floor.submit("a", 8, max_parallel=3, retries=3)
    floor.round()
    lose(floor)
    picks = floor.plan().picks
    assert [(p.alone, len(p.indices)) for p in picks] == [(True, 1)] * 3


def test_a_slot_is_filled_up_when_it_runs_low_and_not_before() -> None:
    floor = Floor(w=a_machine(1))
    floor.length = 10
    floor.submit("a", 100)
    assert [len(p.indices) for p in floor.round().picks] == [10]
    assert floor.plan().picks == []
    floor.commit(floor.tasks_on("w")[:4])
    assert floor.plan().picks == []
    floor.commit(floor.tasks_on("w")[:1])
    (more,) = floor.plan().picks
    assert (more.slot, len(more.indices)) == (0, 5)


def test_tasks_of_another_shape_wait_for_a_slot_of_their_own() -> None:
    floor = Floor(w=a_machine(1))
    floor.length = 10
    floor.submit("a")
    floor.round()
    floor.submit("b", cpus_milli=500)
    assert floor.plan().picks == []


def test_a_suspect_gets_an_empty_slot_and_nobody_behind_it() -> None:
    floor = Floor(w=a_machine(1))
    floor.submit("a", 5)
    floor.round()
    lose(floor)
    floor.length = 10
    floor.machines["w"] = a_machine(2)
    picks = floor.round().picks
    assert [(p.alone, p.slot, tuple(p.indices)) for p in picks] == [
        (True, 0, (0,)),
        (False, 1, (1, 2, 3, 4)),
    ]
    floor.submit("b", 5)
    assert all(p.slot != 0 for p in floor.plan().picks)


def test_a_suspect_without_a_slot_does_not_hold_up_the_rest_of_its_job() -> None:
    floor = Floor(w=a_machine(1))
    floor.submit("a", 3)
    floor.round()
    lose(floor)
    floor.length = 10
    floor.submit("b", 1, priority=1)
    floor.round()
    floor.machines["w"].is_listening = True
    assert [tuple(p.indices) for p in floor.plan().picks] == [(1, 2)]


def test_a_task_that_was_only_given_back_travels_with_its_neighbours() -> None:
    floor = Floor(w=a_machine(1))
    floor.length = 10
    floor.submit("a", 4)
    (lease,) = floor.world.grant("a", 0)
    floor.world.release("a", 0, lease)
    (pick,) = floor.plan().picks
    assert (pick.alone, tuple(pick.indices)) == (False, (0, 1, 2, 3))


def test_a_retry_goes_to_another_worker_while_there_is_one() -> None:
    floor = Floor(v=a_machine(1), w=a_machine(8))
    floor.submit("a", 2, retries=5)
    fail(floor, "a", 1, worker="w")
    assert floor.plan().picks[0].worker == "v"
    floor.submit("full", cpus_milli=999, priority=5)
    floor.world.grant("full", 0, worker="v")
    assert [tuple(p.indices) for p in floor.plan().picks] == [(0,)]
    del floor.machines["v"]
    assert [p.worker for p in floor.plan().picks] == ["w", "w"]


def test_a_retry_goes_back_where_it_failed_if_nobody_else_has_what_it_needs() -> None:
    floor = Floor(v=a_machine(1), w=a_machine(8, zone="east"))
    floor.submit("a", 1, retries=5, constraints=(Constraint("zone", "eq", ("east",)),))
    fail(floor, "a", 0, worker="w")
    assert [p.worker for p in floor.plan().picks] == ["w"]


def test_two_bounded_jobs_of_one_function_do_not_count_each_others_slots() -> None:
    floor = Floor(w=a_machine(4))
    for name in ("a", "b"):
        floor.submit(name, 10, max_parallel=1)
    assert [p.job_id for p in floor.round().picks] == ["a", "b"]
    assert floor.plan().picks == []


def test_nothing_is_given_to_who_does_not_listen() -> None:
    floor = Floor(w=a_machine(1))
    floor.length = 4
    floor.machines["w"].is_listening = False
    floor.submit("a", 9)
    assert floor.plan().picks == []
    floor.world.grant("a", 0)
    assert floor.plan().picks == []


def test_a_pick_is_stamped_with_what_waiting_had_added_and_the_rest_with_the_priority() -> None:
    floor = Floor(w=a_machine(2))
    floor.aging.step_ms = 1_000
    floor.submit("a", 1)
    floor.world.sleep(3_500)
    assert [p.rank for p in floor.plan().picks] == [3]
    floor.submit("urgent", 9, priority=2)
    assert [(p.job_id, p.rank) for p in floor.round().picks] == [("a", 3), ("urgent", 2)]


def test_a_run_that_a_more_urgent_task_joined_is_as_urgent() -> None:
    floor = Floor(w=a_machine(1))
    floor.length = 4
    floor.submit("low", 1)
    floor.round()
    floor.submit("high", 1, priority=9)
    floor.submit("evictor", 1, priority=5, cpus_milli=900, preempts=True)
    made = floor.plan()
    assert [(p.job_id, p.rank) for p in made.picks] == [("high", 9)]
    assert (made.evictions, made.hurries) == ([], [])


def test_what_needs_nothing_rare_leaves_it_to_others() -> None:
    floor = Floor(gpu=a_machine(4, gpus=1), plain=a_machine(2), named=a_machine(4, named={"x": 1}))
    floor.submit("a", 4)
    assert [p.worker for p in floor.plan().picks] == ["plain", "plain", "gpu", "named"]


def test_one_record_with_two_jobs_is_planned_by_their_names() -> None:
    orders = []
    for names in (("b", "a"), ("a", "b")):
        floor = Floor(w=a_machine(1))
        for name in names:
            floor.submit(name, priority=0, cpus_milli=900 if name == "a" else 800)
        for job in floor.world.state.jobs.values():
            job.position = Position(7)
        orders.append(jobs(floor))
    assert orders == [["a"], ["a"]]


def jobs(floor: Floor) -> list[str]:
    return [pick.job_id for pick in floor.plan().picks]


def lose(floor: Floor, worker: str = "w") -> None:
    """The worker dies with all it has begun, and comes back."""
    floor.start(floor.tasks_on(worker))
    floor.world.did(c.LoseWorker(worker=WorkerId(worker), incarnation=1, error="gone"))


def fail(floor: Floor, job_id: str, index: int, *, worker: str) -> None:
    (lease,) = floor.world.grant(job_id, index, worker=worker)
    floor.world.start(job_id, index, lease, worker=worker)
    floor.world.fail(job_id, index, lease, worker=worker)
    floor.world.sleep(600_000)


def test_a_row_of_runs_is_dealt_evenly_or_not_at_all_where_a_plan_is_cut() -> None:
    floor = Floor(w=a_machine(10))
    floor.length = 5
    floor.submit("j", 12)
    whole = floor.plan()
    floor.most_picks = 3
    cut = floor.plan()
    assert [len(pick.indices) for pick in whole.picks] == [2, 2] + [1] * 8
    assert cut.picks == whole.picks


def test_a_plan_leaves_nothing_for_the_collector() -> None:
    """One is made for every task that comes alone: rings of objects would be looked for again and
    again, while somebody waits."""
    floor = Floor(w=a_machine())
    floor.submit("a", 5)
    floor.submit("big", cpus_milli=8_000)
    # What was there before is not looked at.
    gc.disable()
    gc.freeze()
    try:
        assert floor.plan().picks
        assert gc.collect() == 0
    finally:
        gc.unfreeze()
        gc.enable()
