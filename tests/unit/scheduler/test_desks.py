"""What the workers have to do with a task that waits."""

from typing import Any

import pytest

from holdfast.core.placing import Constraint, Placing
from holdfast.scheduler.desks import CORDONED, DRAINING, SILENT, Desk
from holdfast.scheduler.explain import explain, standing_of
from holdfast.testing.situations import (
    FULL,
    ROOMY,
    SMALL,
    WALL,
    a_desk,
    a_shape,
    a_spec,
    here,
    only,
)


def test_without_workers_nothing_runs() -> None:
    reason = only(here(desks=()))
    assert (reason.code, reason.command) == ("no_worker", "holdfast worker start")


@pytest.mark.parametrize(
    ("needs", "told"),
    [
        ({"cpus_milli": 2_500}, "it needs 2.5 cpus, and the most is 1 cpu"),
        ({"memory_bytes": 3 << 30}, "it needs 3Gi of memory, and the most is 0 bytes of memory"),
        ({"gpus": 1}, "it needs 1 gpu, and the most is 0 gpus"),
        (
            {"placing": Placing(resources=(("licence", 2_000),))},
            "it needs 2 licence, and the most is 0 licence",
        ),
        (
            {"cpus_milli": 2_000, "gpus": 8},
            "it needs 2 cpus, and the most is 1 cpu; it needs 8 gpus, and the most is 0 gpus",
        ),
    ],
)
def test_what_needs_more_than_any_worker_has_is_told_with_what(
    needs: dict[str, Any], told: str
) -> None:
    reason = only(here(spec=a_spec(**needs)))
    assert (reason.code, reason.command) == ("too_large", "holdfast worker list")
    assert reason.sentence == f"It fits on no worker: {told}."


def test_what_fits_on_no_single_worker_is_too_large_though_each_need_is_met_somewhere() -> None:
    desks = (a_desk("a", cpus_milli=4_000), a_desk("b", gpus=1))
    reason = only(here(spec=a_spec(cpus_milli=4_000, gpus=1), desks=desks))
    assert reason.code == "too_large"
    told = "1 of 2 have less than 1 gpu; 1 of 2 have less than 4 cpus"
    assert reason.sentence == f"It fits on no worker: {told}."
    assert (dict(reason.counts), reason.workers) == ({"cpus": 1, "gpus": 1}, ("a", "b"))


def test_a_worker_without_slots_takes_nothing() -> None:
    reason = only(here(desks=(a_desk("w1", slots=0),)))
    assert (reason.code, reason.counts) == ("too_large", (("slots", 1),))


def test_what_must_hold_and_holds_nowhere_is_told_beside_what_is_too_large() -> None:
    wish = Constraint("zone", "in", ("east", "west"))
    spec = a_spec(gpus=1, placing=Placing(constraints=(wish, Constraint("zone", "exists"))))
    desks = (a_desk("a", zone="north", gpus=1), a_desk("b"), a_desk("c", zone="east"))
    unmet, large = explain(here(spec=spec, desks=desks))
    assert (unmet.code, unmet.workers) == ("constraint_unmet", ("a", "b"))
    told = "zone in east, west on 2 of 3; zone exists on 1 of 3"
    assert unmet.sentence == f"What it requires does not hold: {told}."
    assert (large.code, large.workers) == ("too_large", ("b", "c"))


def test_what_is_only_preferred_holds_nothing_up() -> None:
    wish = Constraint("zone", "eq", ("east",), 5)
    assert only(here(spec=a_spec(placing=Placing(constraints=(wish,))))).code == "in_line"


@pytest.mark.parametrize(
    ("full", "needs", "short"),
    [
        (FULL, {}, "1 cpu and a slot"),
        (a_desk("w2", a_shape(a_spec(cpus_milli=1)), slots=2), {}, "0.001 cpus"),
        (
            a_desk("w2", a_shape(a_spec(cpus_milli=0, memory_bytes=8)), slots=2, memory_bytes=8),
            {"memory_bytes": 8},
            "8 bytes of memory",
        ),
        (
            a_desk("w2", a_shape(a_spec(cpus_milli=0, gpus=1)), slots=2, gpus=1),
            {"gpus": 1},
            "1 gpu",
        ),
        (a_desk("w2", SMALL, cpus_milli=2_000), {}, "a slot"),
    ],
)
def test_workers_that_are_full_are_busy(full: Desk, needs: dict[str, Any], short: str) -> None:
    reason = only(here(spec=a_spec(**needs), desks=(full,)))
    assert (reason.code, reason.command) == ("workers_busy", "holdfast worker show w2")
    told = "One worker that it fits on (w2) is busy; the nearest is w2"
    assert reason.sentence == f"{told}, short of {short}."


def test_the_nearest_of_the_busy_ones_is_named_with_when_something_ends_there() -> None:
    half = a_shape(a_spec(cpus_milli=500))
    near = a_desk("near", half, slots=2, frees_ms=90_000)
    reason = only(here(desks=(FULL, near)))
    assert reason.sentence.endswith(
        "the nearest is near, short of 0.5 cpus, where something ends in about 1m 30s."
    )
    assert reason.until == WALL + 90_000
    assert (dict(reason.counts), reason.workers) == ({"cpus": 2, "slots": 1}, ("near", "w2"))


@pytest.mark.parametrize(
    ("standing", "command"),
    [
        (CORDONED, "holdfast worker uncordon w9"),
        (DRAINING, "holdfast worker list"),
        (SILENT, "holdfast worker list"),
    ],
)
def test_workers_that_take_nothing_are_told_by_why(standing: str, command: str) -> None:
    reason = only(here(desks=(a_desk("w9", standing=standing),)))
    assert (reason.code, reason.command) == (f"workers_{standing}", command)
    assert reason.sentence == f"One worker that it fits on (w9) is {standing}."


def test_the_worker_that_failed_it_is_avoided() -> None:
    avoided = only(here(avoid=frozenset({"w1"})))
    assert (avoided.code, avoided.workers) == ("workers_avoided", ("w1",))
    assert only(here(avoid=frozenset({"w1"}), desks=(ROOMY, a_desk("w3")))).code == "in_line"
    busy, avoided = explain(here(avoid=frozenset({"w1"}), desks=(ROOMY, FULL)))
    assert (busy.code, avoided.code) == ("workers_busy", "workers_avoided")


def test_workers_are_counted_by_what_keeps_each_from_it_and_those_too_small_left_out() -> None:
    spec = a_spec(cpus_milli=1_000)
    desks = (
        a_desk("s", cpus_milli=500),
        *(a_desk(f"b{n}", SMALL, cpus_milli=2_000) for n in range(5)),
        *(a_desk(f"c{n}", standing=CORDONED) for n in range(2)),
        a_desk("d", standing=DRAINING),
        a_desk("e", standing=SILENT),
    )
    told = explain(here(spec=spec, desks=desks))
    assert [reason.code for reason in told] == [
        "workers_busy", "workers_cordoned", "workers_draining", "workers_silent",
    ]  # fmt: skip
    busy = "5 workers that it fits on (b0, b1, b2 and 2 more) are busy; the nearest is b0"
    assert told[0].sentence == f"{busy}, short of a slot."
    assert told[0].counts == (("slots", 5),)
    assert told[1].sentence == "2 workers that it fits on (c0, c1) are cordoned."
    assert told[1].command == "holdfast worker list"
    assert only(here(desks=(*desks, ROOMY))).code == "in_line"


def test_where_nobody_knows_the_workers_that_is_said() -> None:
    assert only(here(desks=None)).code == "workers_unknown"


def test_a_worker_is_told_with_everything_that_stands_against_the_task_there() -> None:
    spec = a_spec(gpus=1, placing=Placing(constraints=(Constraint("zone", "eq", ("east",)),)))
    desks = (
        a_desk("a", a_shape(a_spec(cpus_milli=600)), zone="west", standing=CORDONED),
        a_desk("b", zone="east", gpus=1),
        a_desk("c", zone="east", gpus=1, slots=0),
    )
    assert dict(standing_of(here(spec=spec, desks=desks, avoid=frozenset({"b"})))) == {
        "a": (
            "zone == east does not hold", "it has 0 gpus, not 1 gpu",
            "it needs 1 cpu, and 0.4 cpus is free",
            "no slot is free", "cordoned",
        ),
        "b": ("avoided, since it failed there",),
        "c": ("it has no slot",),
    }  # fmt: skip
