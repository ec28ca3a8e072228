"""A coordinator, three workers and a bad network: whatever happens, the promises hold."""

from collections import Counter

import pytest

from holdfast.testing.cluster import Cluster

BATCH = 25

FAULTS = {
    "dropped",
    "doubled",
    "delayed",
    "power lost",
    "power lost, frame kept",
    "worker killed",
    "worker drained",
    "worker frozen",
    "worker cut off",
    "RescheduleTask",
    "KillTasks",
    "RetryTasks",
}

CONSEQUENCES = {
    "asked again",
    "COMMITTED",
    "LEASE_LOST",
    "undelivered",
    "released",
    "failed",
    "lease_expired",
    "worker_lost",
    "killed",
    "LeasesRearmed",
    "LeasesExtended",
    "lingering",
}


def run_batch(first: int, count: int) -> tuple[Counter[str], Counter[str]]:
    faults: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    for seed in range(first, first + count):
        cluster = Cluster(seed)
        cluster.run()
        assert not cluster.troubles, f"Cluster({seed}): {cluster.troubles[:5]}"
        assert len(cluster.acknowledged) == len(cluster.wanted), f"Cluster({seed})"
        faults += cluster.faults
        seen += cluster.seen
    return faults, seen


@pytest.mark.parametrize(
    "batch", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 8))]
)
def test_nothing_is_lost_and_nothing_commits_twice(batch: int, seed: int) -> None:
    first = seed * 1_000_000 + batch * BATCH
    faults, seen = run_batch(first, BATCH)
    assert faults["dropped"], "a calm run proves nothing"
    assert seen["LEASE_LOST"], "a calm run proves nothing"


@pytest.mark.slow
def test_every_kind_of_fault_is_met_and_every_consequence_seen(seed: int) -> None:
    faults: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    first = seed * 1_000_000
    while not (faults.keys() >= FAULTS and seen.keys() >= CONSEQUENCES):
        more_faults, more_seen = run_batch(first, 5)
        faults += more_faults
        seen += more_seen
        first += 5
        assert first < seed * 1_000_000 + 200, (
            f"never fired: {FAULTS - faults.keys()}, never seen: {CONSEQUENCES - seen.keys()}"
        )


@pytest.mark.slow
@pytest.mark.parametrize("batch", [0, 1])
def test_what_must_not_outlive_its_lease_never_runs_twice(batch: int, seed: int) -> None:
    seen: Counter[str] = Counter()
    first = seed * 1_000_000 + batch * BATCH
    for number in range(first, first + BATCH):
        cluster = Cluster(number, only_disconnects=True)
        cluster.run()
        assert not cluster.troubles, f"Cluster({number}): {cluster.troubles[:5]}"
        seen += cluster.seen
    assert seen["lease_expired"], "a calm run proves nothing"
    assert seen["released"], "nothing had to be stopped"


@pytest.mark.slow
@pytest.mark.parametrize("batch", [0, 1])
def test_what_really_runs_on_a_worker_never_takes_more_than_it_has(batch: int, seed: int) -> None:
    faults: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    first = seed * 1_000_000 + batch * BATCH
    for number in range(first, first + BATCH):
        cluster = Cluster(number, jobs=6, only_crowds=True)
        cluster.run()
        assert not cluster.troubles, f"Cluster({number}): {cluster.troubles[:5]}"
        faults += cluster.faults
        seen += cluster.seen
    assert faults["taken away"], "a calm run proves nothing"
    assert seen["lingering"], "nothing went on running that nobody wanted"


def test_the_same_seed_gives_the_same_run(seed: int) -> None:
    def history() -> list[object]:
        cluster = Cluster(seed)
        cluster.run()
        records = cluster.service.records()
        # The opening names the process and the host, which are no part of the run.
        return [(record.at, record.command, len(record.events)) for record in records]

    assert history() == history()


@pytest.mark.parametrize(
    "batch",
    [pytest.param(n, marks=pytest.mark.slow if n < 8 else pytest.mark.soak) for n in range(80)],
)
def test_nothing_is_lost_and_nothing_commits_twice_in_many_more_runs(batch: int, seed: int) -> None:
    run_batch(seed * 1_000_000 + 1_000 + batch * BATCH, BATCH)
