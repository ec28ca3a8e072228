"""Entries are dealt to whoever can deliver them, and come back from whoever does not."""

import pytest

from holdfast.coordinator.carriers import PATIENCE_MS
from holdfast.coordinator.deliveries import WAIT_MOST_MS, owed_line
from holdfast.coordinator.hands import ENTRIES_MOST
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.ids import Index
from holdfast.core.owed import EFFECT, FILE
from holdfast.core.task import TaskState
from holdfast.testing.owing import (
    COURIER,
    HELPER,
    REPORT,
    SINKS,
    SPEC,
    TERM_MS,
    Runner,
    a_service,
    came,
    debt,
    effect,
    names,
    pass_time,
    records,
    say,
    state_of,
)
from holdfast.testing.post import Post
from holdfast.wire.delivery import Bounced
from holdfast.wire.exchange import Hello
from holdfast.wire.sinks import decode_sink


def test_what_is_owed_goes_to_whoever_waits_and_is_confirmed_in_one_record() -> None:
    service = a_service()
    job_id = Runner(service).commit((effect("ann"), effect("bob")), (effect("ann", body=b"2"),))
    courier = Post(service, name="courier")
    (parcel,) = courier.hear(hello=COURIER, slots=0).parcels
    assert (parcel.kind, parcel.place, decode_sink(parcel.sink)) == (
        EFFECT, "ledger", SINKS["ledger"],
    )  # fmt: skip
    assert names([parcel]) == ["0.0", "1.0", "0.1"]
    first = parcel.deliveries[0]
    at = service.coordinator.state.jobs[job_id].tasks[Index(0)].committed  # type: ignore[index]
    assert first.idempotency == f"{service.log.log_id}:{job_id}/0:{at}:0"
    assert (first.key, first.body, first.tries) == ("ann", b"body", 0)
    told = courier.hear(slots=0, delivered=tuple(d.name for d in parcel.deliveries))
    assert told.parcels == ()
    assert state_of(service, job_id) is state_of(service, job_id, 1) is TaskState.SUCCEEDED
    assert records(service, e.EffectsDelivered) == records(service, e.TasksDone) == 1
    assert service.troubles == []


def test_one_who_waits_already_is_told_as_soon_as_something_is_owed() -> None:
    service = a_service()
    courier = Post(service, name="courier")
    say(courier, hello=COURIER)
    assert courier.replies == []
    Runner(service).commit((effect(),))
    assert names(courier.replies[-1].parcels) == ["0.0"]


def test_a_sink_goes_to_those_who_deliver_from_its_place() -> None:
    service = a_service()
    Runner(service).commit((effect(), effect(sink="call"), REPORT))
    assert names(say(Post(service, name="c"), hello=COURIER)) == ["0.0"]
    parcels = say(Post(service, name="h"), hello=HELPER)
    assert sorted(names(parcels)) == ["0.1", "0.2"]
    (placed,) = [parcel for parcel in parcels if parcel.kind == FILE]
    assert (placed.place, placed.sink, placed.deliveries[0].body) == ("host:one", b"", b"staged")
    assert say(Post(service, name="n"), hello=Hello("x", 1, "1")) == []


def test_what_is_owed_is_dealt_before_new_work_and_in_the_same_answer() -> None:
    service = a_service()
    Runner(service).commit((effect(),))
    service.do(c.SubmitJob(spec=SPEC, count=1))
    told = Post(service, name="both").hear(hello=COURIER, slots=1)
    assert names(told.parcels) == ["0.0"]
    assert len(told.runs) == 1


def test_no_worker_has_more_than_so_much_in_hand() -> None:
    service = a_service()
    runner = Runner(service)
    runner.commit(tuple(effect() for _ in range(ENTRIES_MOST)), tuple(effect() for _ in range(5)))
    courier = Post(service, name="courier")
    told = courier.hear(hello=COURIER, slots=0)
    in_hand = [d.name for p in told.parcels for d in p.deliveries]
    assert len(in_hand) == ENTRIES_MOST
    rest = courier.hear(slots=0, delivered=tuple(in_hand[:3]), carrying=tuple(in_hand[3:]))
    assert len(names(rest.parcels)) == 3


def test_large_bodies_are_bounded_too() -> None:
    service = a_service()
    Runner(service).commit(tuple(effect(body=bytes(60_000)) for _ in range(100)))
    courier = Post(service, name="courier")
    told = courier.hear(hello=COURIER, slots=0)
    assert 60 < len(names(told.parcels)) < 75


def test_two_couriers_share_what_has_no_order() -> None:
    service = a_service()
    couriers = [Post(service, name=name) for name in ("one", "two")]
    for courier in couriers:
        say(courier, hello=COURIER)
    Runner(service).commit(tuple(effect() for _ in range(10)))
    dealt = [names(courier.replies[-1].parcels) for courier in couriers]
    assert sorted(map(len, dealt)) == [5, 5]
    assert len(set(dealt[0]) | set(dealt[1])) == 10


def test_a_failed_try_backs_off_longer_each_time_and_is_parked_when_the_budget_is_spent() -> None:
    service = a_service()
    job_id = Runner(service).commit((effect("ann"),), (effect("ann"),))
    courier = Post(service, name="courier")
    told = courier.hear(hello=COURIER, slots=0)
    waits = []
    for tries in range(3):
        assert names(told.parcels) == ["0.0", "1.0"]
        assert told.parcels[0].deliveries[0].tries == tries
        bounced = (
            Bounced(debt(job_id), "no answer"),
            Bounced(debt(job_id, 1), "waits", is_untried=True),
        )
        courier.hear(slots=0, bounced=bounced)
        owing = service.coordinator.state.debts.find(debt(job_id))
        assert owing is not None
        waits.append(owing.debt.not_before and owing.debt.not_before - service.clock.now())
        courier.say(slots=0)
        pass_time(service, 4_000)
        told = courier.replies[-1]
    assert 500 <= waits[0] <= 1_000 <= waits[1] <= 2_000
    assert waits[2] == 0
    assert owing.debt.parked
    parked = service.exchanges.deliveries.standings()(owing)
    assert (parked.state, parked.why) == ("PARKED", "3 tries failed, the last with: no answer")
    assert told.parcels == ()
    assert owed_line(service.coordinator.state) == "2 entries are owed, 1 of them parked"
    behind = service.coordinator.state.debts.find(debt(job_id, 1))
    assert behind is not None
    waiting = service.exchanges.deliveries.standings()(behind)
    assert waiting.code == "effect_behind"
    assert waiting.command == f"holdfast effect show {job_id}/0.0"


def test_a_failure_that_no_try_can_mend_parks_at_once() -> None:
    service = a_service()
    job_id = Runner(service).commit((effect(),))
    courier = Post(service, name="courier")
    courier.hear(hello=COURIER, slots=0)
    courier.hear(slots=0, bounced=(Bounced(debt(job_id), "410 Gone", is_final=True),))
    assert records(service, e.EffectsParked) == 1
    service.do(c.RetryEffects(names=(debt(job_id),)))
    assert names(courier.hear(slots=0).parcels) == ["0.0"]


@pytest.mark.parametrize("wait_ms", [60_000, 10**15, 10**40])
def test_a_receiver_that_asks_for_patience_gets_it_within_reason(wait_ms: int) -> None:
    service = a_service()
    job_id = Runner(service).commit((effect(),))
    courier = Post(service, name="courier")
    courier.hear(hello=COURIER, slots=0)
    courier.hear(slots=0, bounced=(Bounced(debt(job_id), "busy", wait_ms=wait_ms),))
    owing = service.coordinator.state.debts.find(debt(job_id))
    assert owing is not None
    wait = owing.debt.not_before - service.clock.now()
    assert wait == min(wait_ms, WAIT_MOST_MS)


def test_what_a_worker_has_seen_and_neither_carries_nor_reports_is_dealt_again() -> None:
    service = a_service()
    job_id = Runner(service).commit((effect(),))
    courier = Post(service, name="courier")
    courier.hear(hello=COURIER, slots=0)
    # The answer is on its way: an exchange that has not seen it says nothing about it.
    assert say(courier, seen=0) == []
    assert say(courier, carrying=(debt(job_id),)) == []
    assert names(say(courier)) == ["0.0"]


def test_a_lost_answer_is_repeated_with_its_parcels() -> None:
    service = a_service()
    Runner(service).commit((effect(),))
    courier = Post(service, name="courier")
    first = courier.hear(hello=COURIER, slots=0)
    again = courier.hear(hello=COURIER, slots=0, number=1)
    assert first == again
    assert names(again.parcels) == ["0.0"]


@pytest.mark.parametrize("how", ["silent", "left", "replaced"])
def test_what_a_lost_worker_had_in_hand_goes_to_another(how: str) -> None:
    service = a_service()
    job_id = Runner(service).commit((effect(),))
    courier = Post(service, name="courier")
    courier.hear(hello=COURIER, slots=0)
    other = Post(service, name="other")
    say(other, hello=COURIER)
    if how == "left":
        courier.hear(slots=0, leaving=True)
    elif how == "replaced":
        pass_time(service, TERM_MS)
        say(Post(service, name="courier", incarnation=2), hello=Hello("here", 9, "1"))
    if how == "silent":
        pass_time(service, PATIENCE_MS - 2_000)
        assert other.replies == []
        pass_time(service, 2_000)
    assert came(other) == ["0.0"]
    if how == "silent":
        # It was only slow. What it has done is done.
        courier.hear(slots=0, delivered=(debt(job_id),))
        assert state_of(service, job_id) is TaskState.SUCCEEDED
        assert say(other, delivered=(debt(job_id),)) == []
    assert service.troubles == []


def test_a_worker_that_says_it_carries_something_keeps_it_over_a_restart() -> None:
    service = a_service()
    job_id = Runner(service).commit((effect(),))
    courier = Post(service, name="courier")
    courier.hear(hello=COURIER, slots=0)
    service.crash()
    assert owed_line(service.coordinator.state) == "1 entry is owed"
    assert say(courier, hello=COURIER, carrying=(debt(job_id),)) == []
    assert say(Post(service, name="other"), hello=COURIER) == []
    say(courier, delivered=(debt(job_id),))
    assert state_of(service, job_id) is TaskState.SUCCEEDED


def test_what_was_dropped_by_one_is_not_taken_from_another() -> None:
    service = a_service()
    job_id = Runner(service).commit((effect(),))
    slow, quick = Post(service, name="slow"), Post(service, name="quick")
    slow.hear(hello=COURIER, slots=0)
    pass_time(service, PATIENCE_MS)
    assert names(say(quick, hello=COURIER)) == ["0.0"]
    assert say(slow, bounced=(Bounced(debt(job_id), "given back", is_untried=True),)) == []
    assert say(Post(service, name="third"), hello=COURIER) == []
