"""Schedules among other work, over a bad network, outages and a wall clock that is set: each
instant that came due has one run or one recorded skip, as its policies say."""

from collections import Counter
from types import ModuleType

import pytest

from holdfast.coordinator import clockwork
from holdfast.core.decide import schedules as decide
from holdfast.testing.scheduled_cluster import ScheduledCluster

BATCH = 4

CONSEQUENCES = {
    "fired due",
    "fired made_up",
    "fired by_hand",
    "fired backfill",
    "skip due",
    "skip made_up",
    "one due",
    "one made_up",
    "all due",
    "all made_up",
    "skipped missed",
    "skipped overlap",
    "skipped known",
    "allow while one goes on",
    "replace while one goes on",
    "replaced",
}

FAULTS = {
    "power lost",
    "power lost, frame kept",
    "away",
    "clock set ahead",
    "clock set back",
    "asked again for a schedule",
    "PauseSchedule",
    "ResumeSchedule",
    "FireSchedule",
    "BackfillSchedule",
    "RemoveSchedule",
    "KillJob",
}


def run_batch(first: int, count: int) -> tuple[Counter[str], Counter[str]]:
    faults: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    for seed in range(first, first + count):
        cluster = ScheduledCluster(seed)
        cluster.run()
        assert not cluster.troubles, f"ScheduledCluster({seed}): {cluster.troubles[:5]}"
        faults += cluster.faults
        seen += cluster.seen
    return faults, seen


@pytest.mark.slow
def test_every_instant_has_one_run_or_is_skipped_as_its_policies_say(seed: int) -> None:
    faults, seen = run_batch(seed * 1_000_000, BATCH)
    assert faults["power lost"], "a calm run proves nothing"
    assert faults["clock set back"] + faults["clock set ahead"], "nobody set the clock"
    assert seen["fired due"], "a run in which nothing is on time proves nothing"
    assert seen["skipped missed"], "a run in which nothing is missed proves nothing"


@pytest.mark.slow
def test_what_makes_room_and_must_not_outlive_its_lease_runs_in_one_place() -> None:
    """A seed that failed once: a task was taken from a worker that had begun it unheard."""
    run_batch(6_009_010_639, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "name", "bug", "told"),
    [
        (decide, "only_owes", lambda job: True, "ran beside its former run"),
        (decide, "run_key", lambda name, at_wall: "", "ran an instant twice"),
        (clockwork, "LATE_MS", 10**12, "made up for what it skips"),
        (clockwork, "ALL", "one", "made up for more than one"),
    ],
    ids=["overlap", "key", "late", "all"],
)
def test_a_planted_bug_is_found(
    module: ModuleType, name: str, bug: object, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, bug)
    found = ""
    for number in range(40):
        cluster = ScheduledCluster(number)
        cluster.run()
        found = " ".join(cluster.troubles)
        if told in found:
            break
    assert told in found


@pytest.mark.slow
def test_every_consequence_of_a_schedule_is_seen(seed: int) -> None:
    faults: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    first = seed * 1_000_000
    while not (faults.keys() >= FAULTS and seen.keys() >= CONSEQUENCES):
        more_faults, more_seen = run_batch(first, BATCH)
        faults += more_faults
        seen += more_seen
        first += BATCH
        assert first < seed * 1_000_000 + 200, (
            f"never fired: {FAULTS - faults.keys()}, never seen: {CONSEQUENCES - seen.keys()}"
        )


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(10))
def test_every_instant_has_its_outcome_in_many_more_runs(batch: int, seed: int) -> None:
    run_batch(seed * 1_000_000 + 1_000 + batch * BATCH, BATCH)


@pytest.mark.soak
def test_every_instant_has_its_outcome_in_very_many_runs(seed: int) -> None:
    run_batch(seed * 1_000_000 + 10_000, 1_000)
