"""Effects, files and blocks through the real coordinator and worker logic, in virtual time and over
a bad network: whatever a commit owes arrives, in its order, and nothing else does."""

from collections import Counter

import pytest

from holdfast.core.ids import Index, JobId, LeaseId
from holdfast.core.owed import BLOCK
from holdfast.testing.owing_cluster import OwingCluster
from holdfast.wire.exchange import Exchange, Item, Reply, Run

BATCH = 3
WITH_BLOCK = b"key1:1"
"""The payload of a task that owes a block."""
TAKES_MS = 10

CONSEQUENCES = {
    "owing",
    "came twice",
    "block parked",
    "entry parked",
    "DeliveryFailed",
    "EffectsParked",
    "EffectsRetried",
    "EffectsDiscarded",
    "COMMITTED",
    "LEASE_LOST",
    "worker_lost",
    "lease_expired",
}

FAULTS = {
    "power lost",
    "power lost, frame kept",
    "worker killed",
    "worker drained",
    "worker frozen",
    "worker cut off",
    "dropped",
    "doubled",
    "delayed",
}


def run_batch(first: int, count: int) -> tuple[Counter[str], Counter[str]]:
    faults: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    for seed in range(first, first + count):
        cluster = OwingCluster(seed)
        cluster.run()
        assert not cluster.troubles, f"OwingCluster({seed}): {cluster.troubles[:5]}"
        assert len(cluster.acknowledged) == len(cluster.wanted), f"OwingCluster({seed})"
        faults += cluster.faults
        seen += cluster.seen
    return faults, seen


def test_everything_that_is_owed_arrives_whatever_happens(seed: int) -> None:
    _, seen = run_batch(1_000 * seed, BATCH)
    assert seen["owing"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(10))
def test_everything_that_is_owed_arrives_in_many_runs(seed: int, batch: int) -> None:
    run_batch(1_000 * seed + 100 + 10 * batch, 10)


@pytest.mark.soak
@pytest.mark.parametrize("batch", range(20))
def test_everything_that_is_owed_arrives_in_very_many_runs(seed: int, batch: int) -> None:
    run_batch(1_000 * (seed % 1_000_000) + 10_000 + 50 * batch, 50)


@pytest.mark.slow
def test_the_runs_meet_everything_they_are_there_to_meet() -> None:
    faults, seen = run_batch(7_000, 60)
    assert set(faults) >= FAULTS
    assert set(seen) >= CONSEQUENCES


def test_an_answer_of_a_server_that_is_gone_begins_no_block() -> None:
    """The agent tells the same commit again, to the server that is there now: its answer counts."""
    cluster = OwingCluster(1, workers=1, jobs=0, is_calm=True)
    (member,) = cluster.members
    member.executor._takes_ms = TAKES_MS
    item = Item(Index(0), LeaseId(1), 1, WITH_BLOCK)
    run = Run(JobId("1"), 0, "function", "work", 0, 0, False, 1, (item,))

    def tell(number: int, epoch: int, *runs: Run) -> None:
        member.receive(Reply(number, (), (), (), runs, log_id="log", epoch=epoch))

    def ask() -> Exchange:
        cluster.clock.advance(TAKES_MS)
        member.poll()
        assert member._sent is not None
        return member._sent

    member.poll()
    tell(1, 1, run)
    asked = ask()
    assert asked.done[0].owed[-1].kind == BLOCK
    # An earlier message of the worker reached the next server first, which has answered it.
    tell(asked.number - 1, 2)
    tell(asked.number, 1)
    assert not cluster.begun
    again = ask()
    assert again.number > asked.number
    assert again.done == asked.done
    tell(again.number, 2)
    assert list(cluster.begun.values()) == [1]


def test_the_same_seed_gives_the_same_run() -> None:
    one, other = OwingCluster(4), OwingCluster(4)
    one.run()
    other.run()
    assert one.world.arrived == other.world.arrived
    assert (one.faults, one.seen) == (other.faults, other.seen)
