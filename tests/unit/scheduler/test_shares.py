"""Who holds how much: the largest part in anything, divided by the weight."""

from collections import Counter

import pytest

from holdfast.core.shape import Shape
from holdfast.scheduler.seats import Seat
from holdfast.scheduler.shares import Shares
from holdfast.testing.floor import Floor, a_machine


def a_shape(namespace: str = "a", **wants: int) -> Shape:
    floor = Floor()
    floor.submit("j", 1, namespace=namespace, **wants)
    return floor.outlook().rows[0].shape


def seats() -> list[Seat]:
    machine = a_machine(10, cpus=10, memory_bytes=1_000, gpus=2, named={"disk": 100})
    return Floor(v=machine, w=a_machine(10, cpus=10, memory_bytes=0)).seats()


def test_the_largest_part_of_anything_counts() -> None:
    one = a_shape(cpus_milli=1_000)
    shares = Shares(seats(), {one: 2}, {})
    assert shares.of("a") == pytest.approx(2 / 20)
    shares.note(a_shape(cpus_milli=100, gpus=1), 1)
    assert shares.of("a") == pytest.approx(1 / 2)
    shares.note(a_shape(cpus_milli=100, memory_bytes=900), 1)
    assert shares.of("a") == pytest.approx(900 / 1_000)
    assert shares.of("b") == 0.0


def test_slots_count_so_that_tiny_tasks_are_not_free() -> None:
    shares = Shares(seats(), {a_shape(cpus_milli=1): 5}, {})
    assert shares.of("a") == pytest.approx(5 / 20)
    assert shares.of_one(a_shape(cpus_milli=1)) == pytest.approx(1 / 20)


def test_what_is_named_counts_and_what_nobody_has_does_not() -> None:
    named = a_shape(resources=(("disk", 60), ("tape", 5)), cpus_milli=1)
    assert Shares(seats(), {named: 1}, {}).of("a") == pytest.approx(60 / 100)


def test_a_weight_divides_what_is_held() -> None:
    held = {a_shape("a"): 8, a_shape("b"): 4}
    shares = Shares(seats(), held, {"a": 4})
    assert shares.of("a") == pytest.approx(shares.of("b") / 2)
    assert shares.of_one(a_shape("a")) == pytest.approx(shares.of_one(a_shape("b")) / 4)


def placed(floor: Floor) -> Counter[str]:
    jobs = floor.world.state.jobs
    picks = floor.round().picks
    return Counter(jobs[p.job_id].spec.namespace for p in picks for _ in p.indices)


def test_equals_get_the_same_of_an_idle_cluster_whoever_came_first() -> None:
    floor = Floor(v=a_machine(16), w=a_machine(16))
    for name in "abcd":
        floor.submit(name, 100, namespace=name)
    assert placed(floor) == dict.fromkeys("abcd", 8)


def test_large_tasks_count_for_more_than_small_ones() -> None:
    floor = Floor(v=a_machine(32, cpus=32), w=a_machine(32, cpus=32))
    floor.submit("big", 100, namespace="big", cpus_milli=4_000)
    floor.submit("small", 100, namespace="small", cpus_milli=1_000)
    assert placed(floor) == {"big": 8, "small": 32}


def test_few_large_tasks_do_not_fill_a_cluster_with_many_slots_in_one_turn() -> None:
    floor = Floor(v=a_machine(64, cpus=8), w=a_machine(64, cpus=8))
    floor.submit("big", 100, namespace="big", cpus_milli=2_000)
    floor.submit("too", 100, namespace="too", cpus_milli=2_000)
    assert placed(floor) == {"big": 4, "too": 4}


def test_weights_decide_how_much_each_gets() -> None:
    floor = Floor(v=a_machine(14), w=a_machine(14))
    floor.weights = {"a": 1, "b": 2, "c": 4}
    for name in "abc":
        floor.submit(name, 100, namespace=name)
    assert placed(floor) == {"a": 4, "b": 8, "c": 16}


def test_what_is_held_already_counts() -> None:
    floor = Floor(v=a_machine(4), w=a_machine(4))
    floor.submit("a", 100, namespace="a")
    floor.machines["w"].is_listening = False
    assert placed(floor) == {"a": 4}
    floor.machines["w"].is_listening = True
    floor.submit("b", 100, namespace="b")
    assert placed(floor) == {"b": 4}
