"""Data grids on a real coordinator whose members tell of their partitions, with workers played by
hand and a clock of the test's own."""

from typing import Any

import pytest

from holdfast.core.ids import LeaseId
from holdfast.runtimes.status import OdgmStatus, Status
from holdfast.testing.hosted import Hosted, function, manifest
from holdfast.wire.servicing import PartitionClaim, PartitionNews

GRID = "greeter---odgm"
TURN_MS = 1_000
STEADY_MS = 20_000
HEALTH = {"period": "1s", "timeout": "1s", "leaderSteady": "20s"}


class Grid:
    """What all members say. By default every member is in every partition, and all is well."""

    def __init__(self, hosted: Hosted) -> None:
        self.hosted = hosted
        self.partitions = 2
        self.leader = "a"
        self.missing: dict[str, int] = {}
        self.problem = ""
        self.is_silent = False
        self.leavers: set[LeaseId] = set()
        for host in hosted.hosts:
            host.grid = self.told

    def told(self, lease_id: LeaseId) -> PartitionNews | None:
        if self.is_silent:
            return None
        if self.problem:
            return PartitionNews(lease_id, (), TURN_MS, 0, self.problem)
        members = len(self.hosted.running(GRID))
        claims = tuple(
            PartitionClaim(name, members, members - self.missing.get(name, 0), self.leader)
            for name in map(str, range(self.partitions))
        )
        return PartitionNews(lease_id, claims, TURN_MS)


def declared(
    replicas: int = 1, health: Any = HEALTH, restarts: Any = None, **spec: Any
) -> dict[str, Any]:
    odgm = {"command": ["serve"], "partitions": 2, "replicas": replicas}
    if health is not None:
        odgm["partitionHealth"] = health
    if restarts is not None:
        odgm["restarts"] = restarts
    return manifest("greeter", function("hello"), odgm=odgm, **spec)


def enforcing(value: int, most: int = 5) -> dict[str, Any]:
    return {
        "mode": "enforce", "dimensions": ["odgm_replicas"], "maxReplicas": most,
        "stability": "2s", "cooldown": "2s", "analyzer": {"static": {"odgm_replicas": value}},
    }  # fmt: skip


def status(hosted: Hosted) -> Status:
    resource = hosted.read()
    assert resource is not None
    return resource.status


def odgm(hosted: Hosted) -> OdgmStatus:
    found = status(hosted).odgm
    assert found is not None
    return found


def condition(hosted: Hosted, kind: str) -> tuple[bool, str, str]:
    found = next(each for each in status(hosted).conditions if each.type == kind)
    return found.is_true, found.reason, found.message


def sizes(hosted: Hosted, ms: int) -> list[int]:
    """How many members ran, each number once, while time passed."""
    seen = [len(hosted.running(GRID))]
    for _ in range(ms // 500):
        hosted.pass_time(500)
        if len(hosted.running(GRID)) != seen[-1]:
            seen.append(len(hosted.running(GRID)))
    return seen


def test_002_167_a_grid_is_up_when_its_partitions_are_and_not_before(hosted: Hosted) -> None:
    grid = Grid(hosted)
    grid.missing = {"1": 1}
    hosted.apply(declared(2))
    hosted.pass_time(2_000)
    assert hosted.phase() == "progressing"
    assert (odgm(hosted).is_ready, odgm(hosted).reason) == (False, "PartitionUnhealthy")
    assert odgm(hosted).message == "partition 1 has 1 of 2 ready"
    assert (odgm(hosted).healthy_partitions, odgm(hosted).partitions) == (1, 2)
    grid.missing = {}
    hosted.pass_time(1_000)
    assert hosted.phase() == "available"
    assert (odgm(hosted).healthy_partitions, odgm(hosted).message) == (2, "")


def test_a_partition_that_stays_red_degrades_and_recovers(hosted: Hosted) -> None:
    grid = Grid(hosted)
    hosted.apply(declared(2, timeouts={"progress": "10s"}))
    hosted.pass_time(2_000)
    assert hosted.phase() == "available"
    grid.missing = {"0": 1}
    hosted.pass_time(1_000)
    assert hosted.phase() == "progressing"
    assert "odgm: partition 0 has 1 of 2 ready" in condition(hosted, "Ready")[2]
    hosted.pass_time(12_000, step_ms=1_000)
    assert hosted.phase() == "degraded"
    assert condition(hosted, "Degraded")[1] == "Timeout"
    grid.missing = {}
    hosted.pass_time(1_000)
    assert hosted.phase() == "available"


@pytest.mark.slow
def test_fewer_partitions_than_declared_are_not_all_of_it(hosted: Hosted) -> None:
    grid = Grid(hosted)
    grid.partitions = 1
    hosted.apply(declared())
    hosted.pass_time(2_000)
    assert hosted.phase() == "progressing"
    assert odgm(hosted).message == "1 of 2 partitions are told of"


def test_a_grid_that_should_tell_and_does_not_is_not_ready_and_says_why(hosted: Hosted) -> None:
    grid = Grid(hosted)
    grid.problem = "http /partitions answered 404"
    hosted.apply(declared())
    hosted.pass_time(5_000)
    assert hosted.phase() == "progressing"
    assert odgm(hosted).reason == "PartitionsUnknown"
    assert odgm(hosted).message.endswith("/0: http /partitions answered 404")
    assert odgm(hosted).healthy_partitions is None


def test_what_is_told_no_more_counts_for_three_turns_and_no_longer(hosted: Hosted) -> None:
    grid = Grid(hosted)
    hosted.apply(declared())
    hosted.pass_time(2_000)
    assert hosted.phase() == "available"
    grid.is_silent = True
    hosted.pass_time(2_500)
    assert hosted.phase() == "available"
    hosted.pass_time(1_000)
    assert hosted.phase() == "progressing"
    assert "nothing was heard of its partitions of late" in odgm(hosted).message
    grid.is_silent = False
    hosted.pass_time(1_000)
    assert hosted.phase() == "available"


def test_without_partition_health_replicas_alone_decide_and_the_gate_names_the_field(
    hosted: Hosted,
) -> None:
    hosted.apply(declared(health=None, nfr=enforcing(3)))
    hosted.pass_time(10_000)
    assert hosted.phase() == "available"
    assert odgm(hosted).healthy_partitions is None
    is_enforced, reason, message = condition(hosted, "NfrEnforced")
    assert (is_enforced, reason) == (False, "Held")
    known = "odgm_replicas=3: the health of the partitions is not known"
    assert message == f"{known}: spec.odgm.partitionHealth is not set"


def test_a_restart_forgets_what_was_told_and_nothing_moves_by_that(hosted: Hosted) -> None:
    Grid(hosted)
    hosted.apply(declared())
    hosted.pass_time(5_000)
    before = [record for record in hosted.service.records() if record.actor == "runtimes"]
    hosted.service.crash()
    hosted.pass_time(5_000)
    assert hosted.phase() == "available"
    assert odgm(hosted).healthy_partitions == 2
    after = [record for record in hosted.service.records() if record.actor == "runtimes"]
    assert len(after) == len(before)


@pytest.mark.slow
def test_a_steady_grid_writes_nothing(hosted: Hosted) -> None:
    Grid(hosted)
    hosted.apply(declared())
    hosted.pass_time(5_000)
    before = len(hosted.service.records())
    hosted.pass_time(60_000, step_ms=1_000)
    assert "runtimes" not in [each.actor for each in hosted.service.records()[before:]]


def test_002_128_a_recommended_size_is_reached_member_by_member(hosted: Hosted) -> None:
    Grid(hosted)
    hosted.apply(declared(nfr=enforcing(3)))
    hosted.pass_time(STEADY_MS - 2_000, step_ms=1_000)
    # Nobody joins before the leader has led for a while.
    assert len(hosted.running(GRID)) == 1
    assert condition(hosted, "NfrEnforced")[1:] == (
        "Held", "odgm_replicas=3: partition 0 has a new leader, a",
    )  # fmt: skip
    assert sizes(hosted, 10_000) == [1, 2, 3]
    assert hosted.phase() == "available"
    hosted.pass_time(3_000)
    assert condition(hosted, "NfrEnforced")[:2] == (True, "Enforced")
    assert [each.target for each in status(hosted).last_applied_recommendations] == [2, 3]


@pytest.mark.slow
def test_a_new_leader_holds_the_next_member_back_until_it_has_led_for_a_while(
    hosted: Hosted,
) -> None:
    grid = Grid(hosted)
    hosted.apply(declared(nfr=enforcing(3)))
    for _ in range(60):
        hosted.pass_time(500)
        if len(hosted.running(GRID)) == 2:
            break
    grid.leader = "b"
    hosted.pass_time(STEADY_MS - 3_000, step_ms=1_000)
    assert len(hosted.running(GRID)) == 2
    assert condition(hosted, "NfrEnforced")[2].endswith("partition 0 has a new leader, b")
    hosted.pass_time(6_000, step_ms=1_000)
    assert len(hosted.running(GRID)) == 3


@pytest.mark.slow
def test_a_red_partition_holds_a_recommendation_back(hosted: Hosted) -> None:
    grid = Grid(hosted)
    hosted.apply(declared(3, nfr={**enforcing(5), "enforceIn": ["available", "progressing"]}))
    hosted.pass_time(2_000)
    grid.missing = {"1": 1}
    hosted.pass_time(STEADY_MS + 5_000, step_ms=1_000)
    assert len(hosted.running(GRID)) == 3
    assert condition(hosted, "NfrEnforced")[1:] == (
        "Held", "odgm_replicas=5: partition 1 has 2 of 3 ready",
    )  # fmt: skip


@pytest.mark.slow
def test_a_shrink_that_would_cost_the_majority_is_held_with_its_reason(hosted: Hosted) -> None:
    Grid(hosted)
    hosted.apply(declared(3, nfr=enforcing(1)))
    hosted.pass_time(2_000)
    assert sizes(hosted, 60_000) == [3, 2]
    assert condition(hosted, "NfrEnforced")[1:] == (
        "Held", "odgm_replicas=1: 1 of 2 replicas are no majority",
    )  # fmt: skip


# --- a person makes it smaller ------------------------------------------------------------------


def test_a_person_who_declares_fewer_gets_them_member_by_member(hosted: Hosted) -> None:
    Grid(hosted)
    hosted.apply(declared(3))
    hosted.pass_time(STEADY_MS + 2_000, step_ms=1_000)
    hosted.apply(declared(1))
    hosted.settle()
    assert len(hosted.running(GRID)) == 2
    assert (odgm(hosted).reason, odgm(hosted).desired) == ("Shrinking", 2)
    assert odgm(hosted).message.startswith("2 replicas, 1 declared: ")
    assert sizes(hosted, 10_000) == [2, 1]
    assert hosted.phase() == "available"
    assert (odgm(hosted).reason, odgm(hosted).message) == ("", "")


@pytest.mark.slow
def test_what_was_enforced_and_is_let_go_of_leaves_member_by_member_too(hosted: Hosted) -> None:
    Grid(hosted)
    hosted.apply(declared(nfr=enforcing(3)))
    hosted.pass_time(STEADY_MS + 10_000, step_ms=1_000)
    assert len(hosted.running(GRID)) == 3
    hosted.apply(declared())
    assert sizes(hosted, 10_000) == [3, 2, 1]
    assert status(hosted).enforced["odgm_replicas"].target is None


def test_nobody_leaves_while_a_partition_is_not_healthy_or_has_a_new_leader(
    hosted: Hosted,
) -> None:
    grid = Grid(hosted)
    hosted.apply(declared(3))
    hosted.pass_time(STEADY_MS + 2_000, step_ms=1_000)
    grid.missing = {"0": 1}
    hosted.pass_time(1_000)
    hosted.apply(declared(1))
    hosted.pass_time(10_000)
    assert len(hosted.running(GRID)) == 3
    assert "3 replicas, 1 declared: it waits, partition 0 has 2 of 3 ready" in odgm(hosted).message
    grid.missing, grid.leader = {}, "b"
    hosted.pass_time(STEADY_MS - 2_000)
    assert len(hosted.running(GRID)) == 3
    assert odgm(hosted).message.endswith("it waits, partition 0 has a new leader, b")
    assert sizes(hosted, 10_000) == [3, 2, 1]


@pytest.mark.slow
def test_nobody_else_leaves_before_the_last_is_gone_and_the_rest_told_how_they_stand(
    hosted: Hosted,
) -> None:
    grid = Grid(hosted)
    hosted.apply(declared(3))
    hosted.pass_time(STEADY_MS + 2_000, step_ms=1_000)
    for host in hosted.hosts:
        host.lingers = True
    hosted.apply(declared(1))
    hosted.pass_time(5_000)
    assert len(hosted.running(GRID)) == 2
    assert odgm(hosted).message == "2 replicas, 1 declared: one member leaves at a time"
    grid.is_silent = True
    for host in hosted.hosts:
        host.lingers = False
    hosted.pass_time(2_000)
    assert len(hosted.running(GRID)) == 2
    grid.is_silent = False
    assert sizes(hosted, 10_000) == [2, 1]


@pytest.mark.slow
def test_a_grid_that_is_turned_off_or_does_not_tell_goes_at_once(hosted: Hosted) -> None:
    Grid(hosted)
    hosted.apply(declared(3))
    hosted.pass_time(2_000)
    hosted.apply(declared(0))
    hosted.pass_time(1_000)
    assert hosted.running(GRID) == []
    hosted.apply(declared(3, health=None))
    hosted.pass_time(2_000)
    hosted.apply(declared(1, health=None))
    hosted.pass_time(1_000)
    assert len(hosted.running(GRID)) == 1


@pytest.mark.slow
def test_a_member_that_is_not_ready_may_leave_whatever_the_partitions_say(hosted: Hosted) -> None:
    grid = Grid(hosted)
    slowly = {"delay": "10m", "maxDelay": "10m"}
    hosted.apply(declared(2, restarts=slowly))
    hosted.pass_time(2_000)
    grid.missing = {"0": 1}
    stays, falls = hosted.running(GRID)
    hosted.host_of(falls).end(falls)
    hosted.pass_time(1_000)
    hosted.apply(declared(1, restarts=slowly))
    hosted.pass_time(3_000)
    assert odgm(hosted).desired == 1
    assert hosted.running(GRID) == [stays]
