"""Which phase listens to recommendations, and what each dimension asks for besides."""

from itertools import product
from typing import Any

import pytest

from holdfast.core.ids import Instant
from holdfast.runtimes.gates import (
    ENFORCE_REASONS,
    PRECONDITIONS,
    WINDOWS,
    Enforcement,
    Observation,
    Situation,
    closed_gate,
    closed_phase,
    is_followed,
    opens_soon,
)
from holdfast.runtimes.observed import Partition, Telling
from holdfast.runtimes.spec import CPU, MEMORY, ODGM_REPLICAS, REPLICAS
from holdfast.runtimes.status import Phase

NOW = Instant(1_000_000)


def a_partition(ready: int = 3, since: int = 1) -> Partition:
    return Partition(
        name="p1", members=3, ready=ready, leader="a", leader_since=Instant(since)
    )


HEALTHY = (a_partition(),)
DEFAULT = ("available",)
BY_CHOICE = ("available", "progressing")
# Degraded by nothing, by a failed enforcement, by something else, and by both.
TROUBLES = ((), ("EnforceConflict",), ("CrashLoop",), ("EnforceFailed", "Timeout"))


def a_situation(**changes: Any) -> Situation:
    fields: dict[str, Any] = {
        "actual": 3, "target": 2, "now": NOW, "confidence": 0.9,
        "confidence_min": 0.8, "memory_used_percent": 50, "memory_percent_max": 80,
        "load_percent": 50, "load_percent_max": 80, "partitions": HEALTHY,
        **changes,
    }
    return Situation(**fields)


def test_every_phase_has_a_window_and_every_dimension_its_preconditions() -> None:
    assert list(WINDOWS) == list(Phase)
    assert set(PRECONDITIONS) == {REPLICAS, MEMORY, CPU, ODGM_REPLICAS}


@pytest.mark.parametrize(
    ("phase", "observation", "enforcement"),
    [
        (Phase.PENDING, Observation.NONE, Enforcement.DISABLED),
        (Phase.APPLYING, Observation.NONE, Enforcement.DISABLED),
        (Phase.PROGRESSING, Observation.PASSIVE, Enforcement.OPTIONAL),
        (Phase.AVAILABLE, Observation.ACTIVE, Enforcement.PRIMARY),
        (Phase.DEGRADED, Observation.SUSPENDED, Enforcement.RETRY),
        (Phase.DELETING, Observation.NONE, Enforcement.DISABLED),
    ],
)
def test_002_106_to_111_each_phase_observes_and_enforces_as_the_table_says(
    phase: Phase, observation: Observation, enforcement: Enforcement
) -> None:
    assert WINDOWS[phase].observation is observation
    assert WINDOWS[phase].enforcement is enforcement


@pytest.mark.parametrize(
    ("phase", "enforce_in", "troubles"), list(product(Phase, (DEFAULT, BY_CHOICE), TROUBLES))
)
def test_every_phase_choice_and_trouble_is_enforced_in_or_not(
    phase: Phase, enforce_in: tuple[str, ...], troubles: tuple[str, ...]
) -> None:
    expected = {
        Phase.AVAILABLE: True,
        Phase.PROGRESSING: enforce_in is BY_CHOICE,
        Phase.DEGRADED: troubles == ("EnforceConflict",),
    }.get(phase, False)
    why = closed_phase(phase, enforce_in, troubles)
    assert why == ("" if expected else f"nothing is enforced while {phase}")
    if expected:
        assert is_followed(phase, troubles)


@pytest.mark.parametrize(("phase", "troubles"), list(product(Phase, TROUBLES)))
def test_002_117_stability_is_followed_where_it_is_observed(
    phase: Phase, troubles: tuple[str, ...]
) -> None:
    expected = phase in {Phase.PROGRESSING, Phase.AVAILABLE} or (
        phase is Phase.DEGRADED and troubles == ("EnforceConflict",)
    )
    assert is_followed(phase, troubles) is expected


@pytest.mark.parametrize("reason", ENFORCE_REASONS)
def test_002_110_degraded_by_enforcement_alone_may_try_again(reason: str) -> None:
    assert not closed_phase(Phase.DEGRADED, DEFAULT, (reason,))
    assert closed_phase(Phase.DEGRADED, DEFAULT, (reason, "CrashLoop"))


@pytest.mark.parametrize("dimension", list(PRECONDITIONS))
def test_every_gate_is_open_when_all_is_well(dimension: str) -> None:
    assert closed_gate(dimension, a_situation()) == ""


@pytest.mark.parametrize(
    ("dimension", "changes", "why"),
    [
        (MEMORY, {"confidence": 0.79}, "a confidence of 0.79 is below 0.80"),
        (MEMORY, {"memory_used_percent": None}, "the use of memory is not known"),
        (MEMORY, {"memory_used_percent": 80}, "80% of memory is in use, 80% is the limit"),
        (CPU, {"load_percent": None}, "the load of the replicas is not known"),
        (CPU, {"load_percent": 81}, "the load is 81%, 80% is the limit"),
        (CPU, {"is_autoscaled": True}, "an autoscaler goes by the requested processor"),
        (ODGM_REPLICAS, {"partitions": None}, "the health of the partitions is not known"),
        (ODGM_REPLICAS, {"partitions": (a_partition(2),)}, "partition p1 has 2 of 3 ready"),
        (
            ODGM_REPLICAS,
            {"partitions": (a_partition(3, NOW),)},
            "partition p1 has a new leader, a",
        ),
        (ODGM_REPLICAS, {"actual": 2, "target": 1}, "1 of 2 replicas are no majority"),
    ],
)
def test_a_gate_that_is_closed_says_why(dimension: str, changes: dict[str, Any], why: str) -> None:
    assert closed_gate(dimension, a_situation(**changes)) == why
    for other in PRECONDITIONS:
        if other != dimension:
            assert closed_gate(other, a_situation(**changes)) == ""


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"partitions_declared": 2}, "1 of 2 partitions are told of"),
        ({"telling": Telling(doubt="1/2 is silent")},
         "not every member tells of its partitions: 1/2 is silent"),
        ({"partitions": None, "telling": Telling(doubt="nobody is asked")},
         "the health of the partitions is not known: nobody is asked"),
        ({"replicas_leaving": 1}, "a member is still leaving"),
        ({"target": 4, "replicas_ready": 2}, "2 of 3 replicas are ready"),
        ({"telling": Telling(told_at=NOW), "changed_at": NOW},
         "nothing was heard of the partitions since the last change"),
    ],
)  # fmt: skip
def test_the_data_grid_waits_for_all_who_tell_and_for_the_last_change(
    changes: dict[str, Any], why: str
) -> None:
    assert closed_gate(ODGM_REPLICAS, a_situation(**changes)) == why


def test_one_that_is_not_ready_may_leave_and_what_was_heard_since_counts() -> None:
    assert closed_gate(ODGM_REPLICAS, a_situation(target=2, replicas_ready=2)) == ""
    telling = Telling(told_at=Instant(NOW + 1))
    assert closed_gate(ODGM_REPLICAS, a_situation(telling=telling, changed_at=NOW)) == ""


@pytest.mark.parametrize(
    ("changes", "is_soon"),
    [
        ({}, False),
        ({"partitions": (a_partition(3, NOW),)}, True),
        ({"replicas_leaving": 1}, True),
        ({"partitions": (a_partition(2, NOW),)}, False),
        ({"actual": 2, "target": 1}, False),
    ],
)
def test_only_what_time_alone_will_open_opens_soon(changes: dict[str, Any], is_soon: bool) -> None:
    assert opens_soon(ODGM_REPLICAS, a_situation(**changes)) is is_soon


def test_002_125_replicas_ask_for_nothing_but_phase_stability_and_cooldown() -> None:
    assert PRECONDITIONS[REPLICAS] == ()


def test_002_126_memory_asks_for_a_confident_analyzer() -> None:
    assert closed_gate(MEMORY, a_situation(confidence=0.8)) == ""
    assert closed_gate(MEMORY, a_situation(confidence=0.5))


def test_002_127_cpu_asks_for_a_load_within_range() -> None:
    assert closed_gate(CPU, a_situation(load_percent=80)) == ""
    assert closed_gate(CPU, a_situation(load_percent=95))


def test_002_128_replicas_of_the_data_grid_ask_for_health_a_leader_and_a_quorum() -> None:
    up = {"actual": 1, "target": 3}
    assert closed_gate(ODGM_REPLICAS, a_situation(**up)) == ""
    assert closed_gate(ODGM_REPLICAS, a_situation(**up, partitions=None))
    assert closed_gate(ODGM_REPLICAS, a_situation(actual=2, target=1))


def test_002_172_memory_and_cpu_do_not_fight_what_is_going_on() -> None:
    assert closed_gate(MEMORY, a_situation(memory_used_percent=95))
    assert closed_gate(CPU, a_situation(is_autoscaled=True))
