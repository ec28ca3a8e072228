"""Mistakes in the paying of debts, planted in the simulated cluster: each is caught within a few
seeds. What catches it is the outside world alone, or the log."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from holdfast.coordinator.deliveries import Deliveries
from holdfast.core.debts import Debts, Owing, Place
from holdfast.core.ids import LeaseId
from holdfast.core.owed import BLOCK, EFFECT, DebtName, Entry
from holdfast.testing import service
from holdfast.testing.owing_cluster import OwingCluster, OwingExecutor, owed_by
from holdfast.testing.receivers import SteppedDeliverer
from holdfast.testing.stepped import Attempt
from holdfast.wire.delivery import Parcel

SEEDS = 12

Patch = pytest.MonkeyPatch


def confirm_before_delivery(patch: Patch) -> None:
    give = SteppedDeliverer.give

    def hasty(deliverer: SteppedDeliverer, parcels: Iterable[Parcel]) -> None:
        parcels = list(parcels)
        give(deliverer, parcels)
        names = [delivery.name for parcel in parcels for delivery in parcel.deliveries]
        deliverer._settled.delivered.extend(names)

    patch.setattr(SteppedDeliverer, "give", hasty)


def keep_no_order(patch: Patch) -> None:
    def is_deliverable(place: Place, owing: Owing) -> bool:
        waits = owing.is_asleep or owing.is_away or owing.debt.parked
        return not waits and place.kind != BLOCK

    patch.setattr(Place, "is_deliverable", is_deliverable)
    patch.setattr(Place, "behind", lambda place, owing: iter(()))


def change_keys_with_each_life(patch: Patch) -> None:
    plain = Deliveries.idempotency_key

    def key(deliveries: Deliveries, owing: Owing) -> str:
        return f"{plain(deliveries, owing)}:{deliveries._state.epoch}"

    patch.setattr(Deliveries, "idempotency_key", key)


def forget_debts_at_recovery(patch: Patch) -> None:
    plain = service.recover

    def recover(*args: Any) -> Any:
        state = plain(*args)
        state.debts = Debts()
        return state

    patch.setattr(service, "recover", recover)


def begin_blocks_before_the_verdict(patch: Patch) -> None:
    def begin(attempt: Attempt, owed: tuple[Entry, ...]) -> None:
        if owed and owed[-1].kind == BLOCK:
            name = DebtName(attempt.run.job_id, attempt.item.index, len(owed) - 1)
            CLUSTERS[-1].begun[name] += 1

    _at_the_end_of_each(patch, begin)
    patch.setattr(OwingExecutor, "enter_block", _be_in_block)


def _be_in_block(executor: OwingExecutor, lease_id: LeaseId) -> None:
    executor._inside[lease_id] = 0


def deliver_what_has_not_committed(patch: Patch) -> None:
    """Whoever runs a task sends what it promises along with the commit, not after it."""

    def send(attempt: Attempt, owed: tuple[Entry, ...]) -> None:
        for entry in owed:
            if entry.kind == EFFECT:
                arrived = CLUSTERS[-1].world.arrived.setdefault((entry.place, entry.key), [])
                arrived.append(f"sent under lease {attempt.item.lease_id}")

    _at_the_end_of_each(patch, send)


def _at_the_end_of_each(
    patch: Patch, act: Callable[[Attempt, tuple[Entry, ...]], None]
) -> None:
    plain = OwingExecutor._end

    def end(executor: OwingExecutor, attempt: Attempt) -> None:
        plain(executor, attempt)
        act(attempt, owed_by(attempt.item.payload, ""))

    patch.setattr(OwingExecutor, "_end", end)


def give_up_on_the_first_failure(patch: Patch) -> None:
    """What is bounced is taken for settled."""
    plain = Deliveries._bounce

    def bounce(deliveries: Deliveries, worker: Any, bounced: Any) -> None:
        owing = deliveries._state.debts.find(bounced.name)
        if owing is None or bounced.is_untried or owing.debt.kind == BLOCK:
            plain(deliveries, worker, bounced)
        else:
            deliveries._confirm(worker, (bounced.name,))

    patch.setattr(Deliveries, "_bounce", bounce)


PLANTS: dict[Callable[[Patch], None], str] = {
    confirm_before_delivery: "never delivered",
    keep_no_order: "was owed",
    change_keys_with_each_life: "nobody owed it",
    forget_debts_at_recovery: "",
    begin_blocks_before_the_verdict: "begun twice",
    deliver_what_has_not_committed: "nobody owed it",
    give_up_on_the_first_failure: "never delivered",
}
"""Each with what is said of it; nothing where more than one rule cries out."""
CLUSTERS: list[OwingCluster] = []


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_planted_mistake_is_caught(
    plant: Callable[[Patch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(SEEDS):
        cluster = OwingCluster(seed)
        CLUSTERS.append(cluster)
        try:
            cluster.run()
        except Exception as error:  # noqa: BLE001 - a core that meets the impossible says so
            cluster.troubles.append(f"{type(error).__name__}: {error}")
        if any(PLANTS[plant] in trouble for trouble in cluster.troubles):
            return
    pytest.fail(f"nobody noticed in {SEEDS} runs")
