"""Gangs, ties, limits and preemption through the real coordinator and worker logic, in virtual time
and over a bad network: whatever happens, the promises of the scheduler hold."""

from collections import Counter

import pytest

from holdfast.testing.placed_cluster import PlacedCluster

BATCH = 10

CONSEQUENCES = {
    "sibling_failed",
    "preempted",
    "JobUnblocked",
    "dependency_failed",
    "parent_ended",
    "parent is over",
    "cancelled",
    "gang_failed",
    "gang granted",
    "at a limit",
    "at an amount",
    "aged",
    "kept result dropped",
    "kept and told again",
    "kept, then committed",
    "kept, then sibling_failed",
    "lease_expired",
    "worker_lost",
    "LEASE_LOST",
}

FAULTS = {
    "power lost",
    "power lost, frame kept",
    "worker killed",
    "worker drained",
    "worker frozen",
    "worker cut off",
    "KillJob",
    "KillTasks",
    "RetryTasks",
    "SetLimit",
    "ClearLimit",
}


def run_batch(first: int, count: int) -> tuple[Counter[str], Counter[str]]:
    faults: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    for seed in range(first, first + count):
        cluster = PlacedCluster(seed)
        cluster.run()
        assert not cluster.troubles, f"PlacedCluster({seed}): {cluster.troubles[:5]}"
        assert len(cluster.acknowledged) == len(cluster.wanted), f"PlacedCluster({seed})"
        faults += cluster.faults
        seen += cluster.seen
    return faults, seen


@pytest.mark.slow
def test_jobs_with_wishes_come_to_the_ends_that_their_ties_say(seed: int) -> None:
    faults, seen = run_batch(seed * 1_000_000, BATCH)
    assert faults["dropped"], "a calm run proves nothing"
    assert seen["gang granted"], "a run without gangs proves nothing"


def test_the_same_seed_gives_the_same_run_with_wishes(seed: int) -> None:
    def history() -> list[object]:
        cluster = PlacedCluster(seed)
        cluster.run()
        # The opening names the process and the host, which are no part of the run.
        return [
            (record.at, record.command, record.events[:1] if number else ())
            for number, record in enumerate(cluster.service.records())
            if record.command != "OpenLog"
        ]

    assert history() == history()


@pytest.mark.slow
def test_every_consequence_of_a_wish_is_seen(seed: int) -> None:
    faults: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    first = seed * 1_000_000
    while not (faults.keys() >= FAULTS and seen.keys() >= CONSEQUENCES):
        more_faults, more_seen = run_batch(first, BATCH)
        faults += more_faults
        seen += more_seen
        first += BATCH
        assert first < seed * 1_000_000 + 400, (
            f"never fired: {FAULTS - faults.keys()}, never seen: {CONSEQUENCES - seen.keys()}"
        )


@pytest.mark.slow
def test_a_gang_is_whole_though_a_new_coordinator_heard_of_a_worker_by_a_late_message() -> None:
    """A seed that failed once: results that the former one kept were not told again."""
    run_batch(6_009_011_480, 1)


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(20))
def test_jobs_with_wishes_come_to_their_ends_in_many_more_runs(batch: int, seed: int) -> None:
    run_batch(seed * 1_000_000 + 1_000 + batch * BATCH, BATCH)


@pytest.mark.soak
def test_jobs_with_wishes_come_to_their_ends_in_very_many_runs(seed: int) -> None:
    run_batch(seed * 1_000_000 + 10_000, 2_000)
