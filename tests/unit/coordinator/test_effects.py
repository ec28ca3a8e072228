"""What commits owe as people look at it: lists, bodies, and what an order is about."""

from typing import Any

import msgspec
import pytest

from holdfast.coordinator.effects import (
    Unclear,
    body_of,
    chosen_by,
    chosen_views,
    named,
    owed_by_task,
)
from holdfast.coordinator.views import job_detail
from holdfast.core import commands as c
from holdfast.core.ids import Index
from holdfast.core.owed import BLOCK, EFFECT, FILE, Entry
from holdfast.testing.owing import COURIER, IN_BLOCK, REPORT, Runner, a_service, debt, effect, say
from holdfast.testing.post import Post
from holdfast.testing.service import Service
from holdfast.wire.bodies import ChosenEffects
from holdfast.wire.delivery import Staged
from holdfast.wire.wanted import WantedEffects


def views(service: Service, **wanted: Any) -> list[dict[str, object]]:
    state = service.coordinator.state
    stands = service.exchanges.deliveries.standings()
    ordered = sorted(state.debts, key=lambda owing: owing.order)
    return list(chosen_views(ordered, WantedEffects(**wanted), stands, lambda at: at))


def test_a_list_can_be_narrowed_by_sink_job_kind_and_how_it_stands() -> None:
    service = a_service()
    first = Runner(service).commit((effect("ann"), REPORT), (effect("ann"),))
    second = Runner(service, "other").commit((effect(sink="call"),))
    service.do(c.ParkEffects(names=(debt(first),), error="no"))
    every = [view["id"] for view in views(service)]
    assert every == [f"{first}/0.0", f"{first}/0.1", f"{first}/1.0", f"{second}/0.0"]
    assert [v["id"] for v in views(service, sink="call")] == [f"{second}/0.0"]
    assert [v["id"] for v in views(service, job=first, kind=FILE)] == [f"{first}/0.1"]
    (parked,) = views(service, states=frozenset({"PARKED"}))
    assert (parked["id"], parked["error"], parked["key"]) == (f"{first}/0.0", "no", "ann")
    waiting = views(service, states=frozenset({"WAITING"}))
    codes = {str(view["id"]): view["code"] for view in waiting}
    assert codes == {
        f"{first}/0.1": "no_carrier",
        f"{first}/1.0": "effect_behind",
        f"{second}/0.0": "no_carrier",
    }


def test_an_entry_stands_as_whoever_deals_it_out_knows() -> None:
    service = a_service()
    Runner(service).commit((effect(),))
    assert views(service)[0]["why"] == "the server's delivery process is not there"
    courier = Post(service, name="courier")
    say(courier, hello=COURIER)
    (view,) = views(service)
    assert (view["state"], view["why"]) == ("DELIVERING", "worker courier delivers it")
    service.exchanges.adjust_sinks({})


def test_a_job_and_a_task_tell_what_they_owe() -> None:
    service = a_service()
    job_id = Runner(service).commit((effect(), effect("ann")), ())
    service.do(c.ParkEffects(names=(debt(job_id),), error="no"))
    state = service.coordinator.state
    job = state.jobs[job_id]
    told = job_detail(job, lambda at: at)["owed"]
    assert told == {"entries": 2, "parked": 1, "complete": True}
    stands = service.exchanges.deliveries.standings()
    owed = owed_by_task(state.debts, job, Index(0), stands, lambda at: at)
    assert [view["state"] for view in owed] == ["PARKED", "WAITING"]
    assert owed_by_task(state.debts, job, Index(1), stands, lambda at: at) == []
    service.do(c.DiscardEffects(names=(debt(job_id), debt(job_id, 0, 1)), reason="x"))
    assert job_detail(job, lambda at: at)["owed"] is None


def test_an_order_names_effects_or_chooses_parked_ones() -> None:
    service = a_service()
    job_id = Runner(service).commit((effect(), effect(sink="call"), IN_BLOCK))
    state = service.coordinator.state
    first, second, block = (debt(job_id, 0, number) for number in range(3))
    service.do(c.ParkEffects(names=(second, block), error="no"))
    debts = state.debts

    def chosen(*, retries: bool = True, **order: Any) -> tuple[object, ...]:
        return chosen_by(debts, ChosenEffects(**order), retries=retries).names

    assert chosen(ids=[f"{job_id}/0.0"]) == (first,)
    assert chosen(sink="ledger") == ()
    assert chosen(every=True) == chosen(sink="call") == chosen(job=job_id) == (second,)
    assert chosen(every=True, retries=False) == (second, block)
    assert chosen(kind=BLOCK, retries=False) == (block,)


@pytest.mark.parametrize(
    "order",
    [
        {},
        {"reason": "only"},
        {"ids": ["1/0.0"], "sink": "ledger"},
        {"ids": ["1/0.0"], "every": True},
        {"ids": ["1/0"]},
        {"ids": ["1/0.-1"]},
        {"ids": [f"1/{10**17}.0"]},
        {"kind": "letter"},
    ],
)
def test_an_order_that_does_not_say_what_it_is_about_is_unclear(order: dict[str, Any]) -> None:
    with pytest.raises(Unclear):
        chosen_by(a_service().coordinator.state.debts, ChosenEffects(**order), retries=True)


def test_one_order_is_about_so_many_at_most_and_says_how_many_are_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("holdfast.coordinator.effects.ORDER_MOST", 3)
    service = a_service()
    job_id = Runner(service).commit(tuple(effect() for _ in range(5)))
    debts = service.coordinator.state.debts
    service.do(c.ParkEffects(names=tuple(owing.name for owing in debts), error="no"))
    chosen = chosen_by(debts, ChosenEffects(job=job_id), retries=True)
    assert chosen.names == tuple(debt(job_id, 0, number) for number in range(3))
    assert chosen.left == 2


def test_a_body_is_told_as_json_can_have_it() -> None:
    pack = msgspec.msgpack.encode
    assert body_of(Entry(EFFECT, "a", "", pack({1: b"abc"}))) == {"1": "YWJj"}
    staged = pack(Staged("/out/.x", 3, exclusive=False))
    told = {"temporary": "/out/.x", "size": 3, "exclusive": False}
    assert body_of(Entry(FILE, "host:a", "/out/x", staged)) == told
    assert body_of(IN_BLOCK) is None
    assert body_of(Entry(EFFECT, "a", "", b"\xc1")) == {"bytes": "wQ=="}


def test_a_name_is_spelled_out_where_it_cannot_be_read() -> None:
    with pytest.raises(Unclear, match=r"write JOB/INDEX\.N, such as 12/3\.0"):
        named("nonsense")
