"""A data grid shrinks by one, and only from health to health."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.ids import Instant
from holdfast.runtimes.evaluation import DEFAULT_CONFIG, Tries
from holdfast.runtimes.observed import Child, Known, ManagedKind, Observed, Partition, Telling
from holdfast.runtimes.resource import Resource
from holdfast.runtimes.shrinking import Guarded, guard
from holdfast.runtimes.spec import Nfr, Odgm, PartitionHealth
from holdfast.runtimes.status import ApplyCode, ApplyResult, Enforced, Tried
from holdfast.testing.enforced_runtimes import a_runtime, workloads_of

NOW = Instant(1_000_000)
NAME = "greeter---odgm"
APPLIED = ApplyResult(generation=1, code=ApplyCode.OK, since=Instant(1))
WELL = Partition(name="0", members=3, ready=3, leader="a", leader_since=Instant(1))
TELLS = PartitionHealth()
TOLD = Telling(told_at=Instant(NOW - 1_000), until=Instant(NOW + 10_000))


def a_grid(replicas: int = 1, health: PartitionHealth | None = TELLS, **status: Any) -> Resource:
    odgm = Odgm(replicas=replicas, command=("grid",), partition_health=health)
    return a_runtime(Nfr(), odgm=odgm, **{"apply": APPLIED, **status})


def guarded(
    resource: Resource,
    told: int = 3,
    *,
    partitions: tuple[Partition, ...] | None = (WELL,),
    telling: Telling = TOLD,
    **child: Any,
) -> tuple[Guarded, Tries]:
    workloads = workloads_of(resource)
    seen = Child(
        kind=ManagedKind.ODGM_DEPLOYMENT, name=NAME, owner="greeter",
        revision=workloads[-1].revision, desired=told, current=told, updated=told, ready=told,
    )  # fmt: skip
    observed = Observed(
        children={ManagedKind.ODGM_DEPLOYMENT: Known((replace(seen, **child),))},
        partitions=partitions,
        telling=telling,
    )
    tries = Tries(resource.status.tries, DEFAULT_CONFIG, NOW)
    return guard(resource, workloads, observed, tries, now=NOW), tries


def test_a_healthy_grid_loses_one_member_and_that_is_remembered() -> None:
    found, tries = guarded(a_grid(1))
    assert found.step is not None
    assert (found.step.replicas, found.workloads[-1].replicas) == (2, 3)
    assert found.why == "3 replicas, 1 declared: one member leaves at a time"
    assert tries.kept == {f"leaves/{NAME}": Tried(count=1, last_at=NOW)}


def test_what_need_not_shrink_or_does_not_tell_or_is_turned_off_is_left_alone() -> None:
    for resource in (a_grid(3), a_grid(5), a_grid(0), a_grid(1, health=None)):
        found, tries = guarded(resource)
        assert found == Guarded(workloads_of(resource))
        assert tries.kept == {}


def held(resource: Resource | None = None, **seen: Any) -> str:
    found, tries = guarded(resource or a_grid(1), **seen)
    assert found.step is None
    assert found.workloads[-1].replicas == 3
    assert tries.soonest_ms is not None
    return found.why.removeprefix("3 replicas, 1 declared: ")


def test_a_held_member_says_what_it_waits_for() -> None:
    one = "one member leaves at a time"
    assert held(leaving=1) == one
    assert held(current=4) == one
    assert held(revision="another") == one
    assert held(a_grid(1, apply=ApplyResult())) == one
    red = replace(WELL, ready=2)
    assert held(partitions=(red,)) == "it waits, partition 0 has 2 of 3 ready"
    unknown = "it waits, the health of the partitions is not known: who knows"
    assert held(partitions=None, telling=Telling(doubt="who knows")) == unknown
    doubtful = "it waits, not every member tells of its partitions: 1/2 is silent"
    assert held(telling=replace(TOLD, doubt="1/2 is silent")) == doubtful
    young = replace(WELL, leader_since=Instant(NOW - 59_999))
    assert held(partitions=(young,)) == "it waits, partition 0 has a new leader, a"


def test_the_next_one_leaves_when_the_last_is_gone_and_the_rest_were_heard_since() -> None:
    since = "it waits to hear of the partitions since the last change"
    leaves = {f"leaves/{NAME}": Tried(count=1, last_at=Instant(NOW - 9_000))}
    found, tries = guarded(a_grid(1, tries=leaves))
    assert found.why.endswith(since)
    assert tries.kept[f"left/{NAME}"].last_at == NOW
    for left_at, is_let in ((NOW - 1_000, False), (NOW - 1_001, True)):
        left = {f"left/{NAME}": Tried(count=1, last_at=Instant(left_at))}
        found, _ = guarded(a_grid(1, tries=leaves | left))
        assert (found.step is not None) is is_let
    enforced = {"odgm_replicas": Enforced(at=NOW)}
    assert held(a_grid(1, enforced=enforced)) == since


def test_one_that_is_not_ready_leaves_whatever_the_rest_say() -> None:
    found, _ = guarded(a_grid(1), ready=2, partitions=None)
    assert found.step is not None
    assert found.step.replicas == 2


partitions = st.none() | st.lists(
    st.builds(
        Partition, name=st.sampled_from("01"), members=st.integers(0, 3), ready=st.integers(0, 3),
        leader=st.sampled_from(["", "a"]), leader_since=st.integers(1, NOW).map(Instant),
    ),
    max_size=2,
).map(tuple)  # fmt: skip


@given(
    wanted=st.integers(0, 5), told=st.integers(0, 5), ready=st.integers(0, 5),
    current=st.integers(0, 6), leaving=st.integers(0, 1), told_at=st.integers(0, NOW),
    partitions=partitions,
)  # fmt: skip
@settings(max_examples=50)
def test_no_step_is_larger_than_one_or_taken_from_what_is_not_well(
    wanted, told, ready, current, leaving, told_at, partitions
) -> None:
    resource = a_grid(wanted)
    telling = Telling(told_at=Instant(told_at))
    found, _ = guarded(
        resource, told, partitions=partitions, telling=telling, ready=ready, current=current,
        leaving=leaving,
    )  # fmt: skip
    if found.step is None:
        return
    assert 0 < wanted < told
    assert found.step.replicas == told - 1
    assert not leaving
    assert current <= told
    if ready >= told:
        assert partitions
        assert all(each.is_green and each.leader for each in partitions)
