"""FM-006, the crash between COMMITTED and DONE: the line is crossed, and nothing has happened yet.

One test lets a coordinator keep in memory alone what is owed, and another lets it run unfinished
work again; the rest see that every debt is paid by whoever comes after, and nothing is run twice.
"""

import pytest

from holdfast.core import events as e
from holdfast.core.debts import Debts
from holdfast.core.ids import JobId
from holdfast.core.owed import Entry
from holdfast.core.state import State
from holdfast.core.task import TaskState
from holdfast.testing import service as services
from holdfast.testing.owing import COURIER, Runner, a_service, effect, pass_time, say, state_of
from holdfast.testing.post import Post
from holdfast.testing.service import Service
from holdfast.wal import MemoryLog

OWED: tuple[Entry, ...] = (effect("k"), effect("k", body=b"2"), effect())
FOREVER_MS = 600_000


def committed() -> tuple[Service, JobId]:
    service = a_service()
    return service, Runner(service).commit(OWED)


def pay(service: Service, name: str = "courier") -> list[str]:
    """A courier delivers what it is dealt until there is nothing more. The keys it saw."""
    courier, keys = Post(service, name=name), list[str]()
    parcels = say(courier, hello=COURIER)
    while parcels:
        given = [delivery for parcel in parcels for delivery in parcel.deliveries]
        keys += [delivery.idempotency for delivery in given]
        parcels = say(courier, delivered=tuple(delivery.name for delivery in given))
    return keys


def grants(service: Service) -> int:
    events = [event for record in service.records() for event in record.events]
    return sum(len(event.indices) for event in events if isinstance(event, e.LeasesGranted))


def test_fm_006_what_is_owed_in_memory_alone_is_never_paid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service, job_id = committed()
    recover = services.recover

    def forgetful(log: MemoryLog, snapshot: None) -> State:
        state = recover(log, snapshot)
        state.debts = Debts()
        return state

    monkeypatch.setattr(services, "recover", forgetful)
    service.crash()
    pass_time(service, FOREVER_MS)
    assert pay(service) == []
    assert state_of(service, job_id) is TaskState.COMMITTED, "and so it stays for ever"
    service.check()
    assert any("J6" in trouble or "C" in trouble for trouble in service.troubles)


def test_fm_006_without_a_line_the_task_would_run_and_act_again() -> None:
    """What others do: an effect first, then the mark that it was done. Here the mark is a result
    that owes nothing, and the crash comes before it."""
    service = a_service()
    runner, mails = Runner(service), list[str]()
    job_id = runner.submit()
    runner.post.say(slots=1)
    service.settle()
    mails.append("sent by the body")
    service.crash()
    pass_time(service, FOREVER_MS)
    again = Runner(service, "another")
    again.commit_task(job_id, 0, ())
    mails.append("sent by the body")
    assert (grants(service), len(mails)) == (2, 2)


@pytest.mark.parametrize("by_snapshot", [False, True])
def test_fm_006_whoever_comes_after_pays(by_snapshot: bool) -> None:
    service, job_id = committed()
    service.crash(by_snapshot=by_snapshot)
    assert len(pay(service)) == len(OWED)
    assert state_of(service, job_id) is TaskState.SUCCEEDED
    assert grants(service) == 1, "a committed task is never leased again"
    assert service.troubles == []


@pytest.mark.parametrize("by_snapshot", [False, True])
def test_fm_006_a_crash_before_the_word_came_repeats_the_delivery_under_the_same_key(
    by_snapshot: bool,
) -> None:
    service, job_id = committed()
    courier = Post(service, name="courier")
    (parcel,) = say(courier, hello=COURIER)
    delivered = [delivery.idempotency for delivery in parcel.deliveries]
    service.crash(by_snapshot=by_snapshot)
    assert sorted(pay(service, "another")) == sorted(delivered)
    assert state_of(service, job_id) is TaskState.SUCCEEDED
    assert service.troubles == []


@pytest.mark.parametrize("frame_survives", [False, True])
def test_fm_006_a_crash_while_the_word_is_written(frame_survives: bool) -> None:
    service, job_id = committed()
    courier = Post(service, name="courier")
    (parcel,) = say(courier, hello=COURIER)
    courier.say(slots=0, delivered=tuple(delivery.name for delivery in parcel.deliveries))
    assert service.turn(), "it is appended and not durable"
    service.crash(frame_survives=frame_survives)
    again = pay(service, "another")
    assert len(again) == (0 if frame_survives else len(OWED))
    assert set(again) <= {delivery.idempotency for delivery in parcel.deliveries}
    assert state_of(service, job_id) is TaskState.SUCCEEDED
    assert service.troubles == []
