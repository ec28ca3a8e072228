"""Placing work: what fits goes where it fits, in the order it came, and nothing is overfilled."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core import commands as c
from holdfast.core.ids import Index, JobId, WorkerId
from holdfast.core.spec import JobSpec
from holdfast.scheduler.ledger import Ledger
from holdfast.scheduler.plan import LONGEST_RUN, RUN_MS, Outlook, Pick, plan, run_length
from holdfast.scheduler.seats import Amounts, Seat, Slot, seat_of
from holdfast.scheduler.shares import Shares
from holdfast.testing.world import World


def a_seat(slots: int = 2, *, worker: str = "w", cpus: int | None = None, gpus: int = 0) -> Seat:
    places = [Slot(number, 0, None) for number in range(slots)]
    milli = (slots if cpus is None else cpus) * 1_000
    return seat_of(WorkerId(worker), 1, Amounts(milli, 1 << 30, gpus), places)


def a_spec(**wants: int) -> JobSpec:
    return JobSpec(name="work", kind="function", target="work", **wants)  # type: ignore[arg-type]


def planned(world: World, seats: list[Seat], length: int = 1) -> list[Pick]:
    rows = world.state.ready.rows(world.state.jobs, world.now)
    held = Counter(slot.shape for seat in seats for slot in seat.slots if slot.shape)
    return plan(
        Outlook(
            rows=rows,
            seats=seats,
            now=world.now,
            pace=lambda spec: length,
            ledger=Ledger({}, {}, held),
            shares=lambda: Shares(seats, held, {}),
            rank_of=lambda row: row.priority,
        )
    ).picks


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


def test_tasks_are_dealt_out_evenly_to_the_free_slots() -> None:
    world = World()
    world.submit("a", 5)
    picks = planned(world, [a_seat(2)], length=10)
    assert places(picks) == [("w", "a", 0, (0, 1, 2)), ("w", "a", 1, (3, 4))]


def test_who_came_first_goes_first_and_what_is_urgent_before_all() -> None:
    world = World()
    world.submit("first", 1)
    world.submit("second", 1)
    world.submit("urgent", 1, spec=a_spec(priority=5))
    picks = planned(world, [a_seat(2)])
    assert [p.job_id for p in picks] == ["urgent", "first"]


def test_a_job_that_does_not_fit_lets_others_pass() -> None:
    world = World()
    world.submit("big", 1, spec=a_spec(cpus_milli=8_000))
    world.submit("small", 1)
    assert [p.job_id for p in planned(world, [a_seat(2)])] == ["small"]


def test_resources_are_counted_once_a_slot() -> None:
    world = World()
    world.submit("a", 10, spec=a_spec(cpus_milli=2_000))
    seat = a_seat(4, cpus=5)
    picks = planned(world, [seat], length=50)
    assert [(p.slot, len(p.indices)) for p in picks] == [(0, 1), (1, 1)]
    assert seat.free.cpus_milli == 1_000


def test_a_gpu_is_given_to_one_slot_at_a_time() -> None:
    world = World()
    world.submit("a", 10, spec=a_spec(gpus=1))
    seat = a_seat(4, gpus=1)
    assert len(planned(world, [seat])) == 1
    assert (seat.free.gpus, planned(world, [seat])) == (0, [])
    assert planned(world, [a_seat(4)]) == []


def test_memory_is_given_to_as_many_slots_as_it_lasts_for() -> None:
    world = World()
    world.submit("a", 10, spec=a_spec(memory_bytes=1 << 29))
    seats = [a_seat(4, worker="v"), a_seat(4)]
    assert [(p.worker, p.slot) for p in planned(world, seats)] == [
        ("v", 0), ("v", 1), ("w", 0), ("w", 1),
    ]  # fmt: skip
    assert [seat.free.memory_bytes for seat in seats] == [0, 0]
    assert planned(world, seats) == []
    world.submit("b", 10, spec=a_spec(memory_bytes=3 << 28))
    assert [p.job_id for p in planned(world, [a_seat(4)])] == ["a", "a"]
    world.did(c.KillJob(job_id=JobId("a")))
    assert [p.job_id for p in planned(world, [a_seat(4)])] == ["b"]


@pytest.mark.parametrize(
    "wants", [{"memory_bytes": 1}, {"gpus": 1}, {"cpus_milli": 1_001}, {"max_parallel": 4}], ids=str
)
def test_nothing_waits_in_a_slot_that_is_counted_for_more_than_a_processor(
    wants: dict[str, int],
) -> None:
    world = World()
    world.submit("a", 10, spec=a_spec(**wants))
    seat = a_seat(2, cpus=8, gpus=8)
    assert [len(p.indices) for p in planned(world, [seat], length=50)] == [1, 1]
    assert planned(world, [seat], length=50) == []


def test_one_processor_or_less_is_no_reason_to_travel_alone() -> None:
    world = World()
    world.submit("a", 10, spec=a_spec(cpus_milli=1_000))
    assert [len(p.indices) for p in planned(world, [a_seat(1)], length=50)] == [10]


def test_a_job_with_a_bound_never_holds_more_slots_than_that() -> None:
    world = World()
    world.submit("a", 100, spec=a_spec(max_parallel=3))
    seats = [a_seat(2, worker="v"), a_seat(2, worker="w")]
    picks = planned(world, seats, length=50)
    assert [len(p.indices) for p in picks] == [1, 1, 1]
    assert planned(world, seats, length=50) == []


def test_a_slot_is_filled_up_when_it_runs_low_and_not_before() -> None:
    world = World()
    world.submit("a", 100)
    seat = a_seat(1)
    assert [len(p.indices) for p in planned(world, [seat], length=10)] == [10]
    for load in (10, 6):
        seat.slots[0].load = load
        assert planned(world, [seat], length=10) == []
    seat.slots[0].load = 5
    (more,) = planned(world, [seat], length=10)
    assert len(more.indices) == 5


def test_tasks_of_another_shape_wait_for_a_slot_of_their_own() -> None:
    world = World()
    world.submit("a", 1)
    seat = a_seat(1)
    planned(world, [seat], length=10)
    world.grant("a", 0)
    world.submit("b", 1, spec=a_spec(cpus_milli=500))
    assert planned(world, [seat], length=10) == []


def test_a_suspect_gets_an_empty_slot_and_nobody_behind_it() -> None:
    world = World()
    world.submit("a", 5)
    world.grant("a", 0)
    world.start("a", 0, 1)
    world.did(c.LoseWorker(worker=WorkerId("w"), incarnation=1, error="gone"))
    seat = a_seat(2)
    picks = planned(world, [seat], length=10)
    assert [(p.alone, p.slot, tuple(p.indices)) for p in picks] == [
        (True, 0, (0,)),
        (False, 1, (1, 2, 3, 4)),
    ]
    world.submit("b", 5)
    assert all(p.slot != 0 for p in planned(world, [seat], length=10))


def test_a_task_that_was_only_given_back_travels_with_its_neighbours() -> None:
    world = World()
    world.submit("a", 4)
    (lease,) = world.grant("a", 0)
    world.release("a", 0, lease)
    (pick,) = planned(world, [a_seat(1)], length=10)
    assert (pick.alone, tuple(pick.indices)) == (False, (0, 1, 2, 3))


def test_two_bounded_jobs_of_one_function_do_not_count_each_others_slots() -> None:
    world = World()
    for name in ("a", "b"):
        world.submit(name, 10, spec=a_spec(max_parallel=1))
    seat = a_seat(4)
    assert [p.job_id for p in planned(world, [seat])] == ["a", "b"]
    assert planned(world, [seat]) == []


def test_a_suspect_waits_while_no_slot_is_empty() -> None:
    world = World()
    world.submit("a", 2)
    (lease,) = world.grant("a", 0)
    world.release("a", 0, lease, reason="undelivered")
    seat = a_seat(1)
    seat.slots[0] = Slot(0, 1, (1_000, 0, 0, "work", ""))
    assert all(0 not in p.indices for p in planned(world, [seat], length=10))


@settings(max_examples=25)
@given(
    sizes=st.lists(st.integers(1, 30), max_size=5),
    slots=st.lists(st.integers(1, 4), max_size=3),
    cpus=st.integers(1, 3),
    bound=st.integers(0, 3),
    length=st.integers(1, 20),
)
def test_no_plan_gives_a_task_twice_or_takes_more_than_there_is(
    sizes: list[int], slots: list[int], cpus: int, bound: int, length: int
) -> None:
    world = World()
    spec = a_spec(cpus_milli=cpus * 1_000, max_parallel=bound)
    for number, size in enumerate(sizes):
        world.submit(f"j{number}", size, spec=spec)
    seats = [a_seat(count, worker=f"w{n}") for n, count in enumerate(slots)]
    picks = planned(world, seats, length=length)
    given_out = [(p.job_id, index) for p in picks for index in p.indices]
    assert len(given_out) == len(set(given_out))
    assert all(seat.cpus_milli >= 0 for seat in seats)
    for pick in picks:
        assert len(pick.indices) <= length
        indices = tuple(map(Index, pick.indices))
        assert world.grant(pick.job_id, *indices, worker=pick.worker, slot=pick.slot)
    for number in range(len(sizes)):
        held = {(p.worker, p.slot) for p in picks if p.job_id == JobId(f"j{number}")}
        assert not bound or len(held) <= bound
