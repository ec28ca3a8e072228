"""The agent's part in deliveries: what it takes up, what it tells, and for how long."""

import os
from random import Random

import msgspec
import pytest

from holdfast.core.ids import Index, JobId, WorkerId
from holdfast.core.owed import FILE
from holdfast.testing.carrier import Carrier
from holdfast.testing.posting import a_delivery, a_parcel
from holdfast.testing.stepped import SteppedExecutor
from holdfast.wire.delivery import Bounced, DebtName, Delivery, Parcel, Staged
from holdfast.wire.exchange import Capacity, Reply, is_empty
from holdfast.wire.sinks import FunctionSink
from holdfast.worker.agent import Agent
from holdfast.worker.leftovers import RECEIPT
from holdfast.worker.parcels import SIGN_MS, TOLD_MAX, Parcels

NOW = 1_000
SINK = FunctionSink("a:b", timeout="1h")


class Bench:
    def __init__(self, carrier=None):
        self.carrier = Carrier() if carrier is None else carrier
        self.parcels = Parcels(self.carrier or None)
        executor = SteppedExecutor(1, Random(1), takes_ms=1_000)
        self.agent = Agent(
            WorkerId("w"), 1, executor, Capacity(1, 1, 0, 0), parcels=self.parcels
        )
        self.said = self.agent.step(NOW)

    def answer(self, *parcels, drain=False):
        """The last exchange is answered with these; what is said next."""
        reply = Reply(self.said.number, (), (), (), (), parcels=parcels, drain=drain)
        self.agent.receive(reply, NOW)
        return self.step()

    def step(self, now=NOW):
        said = self.agent.step(now)
        if said is not None:
            self.said = said
        return said


def give(*numbers):
    return a_parcel(*[a_delivery(n) for n in numbers], sink=SINK)


def numbers(names):
    return [name.index for name in names]


def test_what_came_is_carried_and_said_to_be():
    bench = Bench()
    said = bench.answer(give(1, 2))
    assert numbers(said.carrying) == [1, 2]
    assert is_empty(said)
    assert [parcel.place for parcel in bench.carrier.parcels] == ["ledger"]
    assert not bench.agent.is_idle()


def test_what_became_of_it_is_told_until_it_was_heard():
    bench = Bench()
    bench.answer(give(1, 2, 3))
    bench.carrier.settle(2)
    bench.carrier.settle(1, "no", is_final=True)
    said = bench.step()
    assert numbers(said.delivered) == [2]
    assert [(each.name.index, each.error, each.is_final) for each in said.bounced] == [
        (1, "no", True)
    ]
    assert numbers(said.carrying) == [3]
    assert not is_empty(said)
    # While it is under way nothing else is said, though more is settled.
    bench.carrier.settle(3)
    assert bench.step() is None
    said = bench.answer()
    assert numbers(said.delivered) == [3]
    assert said.bounced == said.carrying == ()
    assert not bench.agent.is_idle()
    bench.answer()
    assert bench.agent.is_idle()


def test_whoever_carries_something_gives_signs_of_life():
    bench = Bench()
    assert bench.agent.next_due(NOW) == 0
    bench.answer(give(1))
    assert bench.step(NOW + 1) is None
    assert bench.agent.next_due(NOW) == NOW + SIGN_MS
    said = bench.step(NOW + SIGN_MS)
    assert numbers(said.carrying) == [1]
    assert bench.agent.next_due(NOW) == NOW + 2 * SIGN_MS
    # While a report is under way there is no need, and nothing to be woken for.
    bench.carrier.settle(1)
    bench.step(NOW + SIGN_MS)
    assert bench.agent.next_due(NOW) == 0


def test_a_worker_that_delivers_nothing_says_whom_it_is_not_for():
    bench = Bench(carrier=False)
    said = bench.answer(give(1, 2))
    assert [each.is_elsewhere for each in said.bounced] == [True, True]
    assert said.carrying == ()


@pytest.mark.parametrize("leaving", [True, False])
def test_a_drain_gives_back_what_has_not_begun_and_takes_nothing_more(leaving):
    bench = Bench()
    bench.answer(give(1, 2))
    if leaving:
        bench.agent.drain()
        said = bench.step()
    else:
        said = bench.answer(drain=True)
    assert [each.is_untried for each in said.bounced] == [True, True]
    said = bench.answer(give(3), drain=not leaving)
    assert [(each.name.index, each.is_untried) for each in said.bounced] == [(3, True)]
    assert len(bench.carrier.parcels) == 1


def test_the_end_answers_for_everything():
    bench = Bench()
    bench.answer(give(1, 2))
    bench.carrier.settle(1)
    bench.agent.finish(0)
    said = bench.step()
    assert numbers(said.delivered) == [1]
    assert [(each.name.index, each.is_untried) for each in said.bounced] == [(2, True)]


def test_an_exchange_has_a_bound_and_what_is_left_is_still_ours():
    bench = Bench()
    many = range(TOLD_MAX + 10)
    bench.answer(give(*many))
    for number in many:
        bench.parcels.delivered(DebtName(JobId("9"), Index(number), 1))
    said = bench.step()
    assert len(said.delivered) == TOLD_MAX
    assert len(said.carrying) == len(many) + 10
    assert len(bench.answer().delivered) == 10


def test_blocks_of_tasks_are_told_like_any_other_entry():
    bench = Bench(carrier=False)
    first, second = (DebtName(JobId("1"), Index(n), 0) for n in (1, 2))
    bench.parcels.carry(first)
    bench.parcels.carry(second)
    assert bench.answer().carrying == (first, second)
    bench.parcels.delivered(first)
    bench.parcels.bounce(Bounced(second, "it raised", is_final=True))
    said = bench.step()
    assert said.delivered == (first,)
    assert [each.name for each in said.bounced] == [second]
    assert said.carrying == ()


def test_the_receipt_of_a_placed_file_goes_when_that_is_known(tmp_path):
    receipts = [tmp_path / f"{n}{RECEIPT}" for n in (1, 2)]
    for receipt in receipts:
        receipt.touch()
    bodies = [msgspec.msgpack.encode(Staged(str(tmp_path / str(n)), 1, False)) for n in (1, 2)]
    some = [a_delivery(n, raw=body) for n, body in zip((1, 2), bodies, strict=True)]
    bench = Bench()
    bench.answer(Parcel(FILE, "host:x", b"", tuple[Delivery, ...](some)))
    bench.carrier.settle(1)
    bench.carrier.settle(2, "no")
    bench.step()
    assert all(map(os.path.exists, receipts))
    bench.answer()
    assert [receipt.exists() for receipt in receipts] == [False, True]
