"""Entries are dealt to whoever can deliver them, and come back from whoever does not."""

from collections.abc import Iterable
from typing import Any

import pytest

from holdfast.coordinator.carriers import PATIENCE_MS
from holdfast.coordinator.deliveries import WAIT_MOST_MS, owed_line
from holdfast.coordinator.hands import ENTRIES_MOST
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decision import Accepted
from holdfast.core.ids import Index, JobId, LeaseId
from holdfast.core.owed import BLOCK, EFFECT, FILE, DebtName, Entry
from holdfast.core.spec import JobSpec
from holdfast.core.task import TaskState
from holdfast.testing.clock import ManualClock, SeededDice
from holdfast.testing.post import Post
from holdfast.testing.service import Service
from holdfast.wire.delivery import SERVER, WORKERS, Bounced, Origin, Parcel
from holdfast.wire.exchange import COMMITTED, REFUSED, Done, Hello, Progress, Reply
from holdfast.wire.sinks import FileSink, FunctionSink, decode_sink

SPEC = JobSpec(name="work", kind="function", target="work")
TERM_MS = 10_000
SINKS = {
    "ledger": FileSink(path="/ledger", tries=3, first_wait="1s", longest_wait="3s"),
    "call": FunctionSink(target="m:f"),
}
COURIER = Hello("here", 1, "1", delivers=(SERVER,))
HELPER = Hello("there", 2, "1", delivers=(WORKERS,), places=("host:one",))


def a_service(term_ms: int = TERM_MS) -> Service:
    return Service(ManualClock(), SeededDice(1), term_ms=term_ms, sinks=SINKS)


def effect(key: str = "", sink: str = "ledger", body: bytes = b"body") -> Entry:
    return Entry(EFFECT, sink, key, body)


REPORT = Entry(FILE, "host:one", "/out/report", b"staged")
IN_BLOCK = Entry(BLOCK, "", "", b"")


class Worker:
    """Runs tasks and commits what a test has them owe."""

    def __init__(self, service: Service, name: str = "runner") -> None:
        self.post = Post(service, name=name)
        self.service = service

    def commit(self, *owed: tuple[Entry, ...]) -> JobId:
        """A job whose tasks commit these, each in a record of its own."""
        decision = self.service.do(c.SubmitJob(spec=SPEC, count=len(owed)))
        assert isinstance(decision, Accepted)
        job_id = JobId(str(decision.answer))
        for index, entries in enumerate(owed):
            self.commit_task(job_id, index, entries)
        self.post.say(slots=0)
        self.service.settle()
        return job_id

    def commit_task(self, job_id: JobId, index: int, owed: tuple[Entry, ...]) -> Reply:
        self.post.say(slots=1, hello=Hello("runs", 3, "1"))
        self.service.settle()
        (item,) = [item for run in self.post.replies[-1].runs for item in run.items]
        assert item.index == index
        done = Done(job_id, item.index, item.lease_id, 1, b"result", owed)
        return self.post.hear(slots=0, done=(done,))


def names(parcels: Iterable[Parcel]) -> list[str]:
    return [f"{d.name.index}.{d.name.number}" for p in parcels for d in p.deliveries]


def say(post: Post, **said: Any) -> list[Parcel]:
    """Say it, let everything become durable, and see which parcels have come since."""
    before = len(post.replies)
    post.say(slots=said.pop("slots", 0), **said)
    post.service.settle()
    return [parcel for reply in post.replies[before:] for parcel in reply.parcels]


def since(post: Post, before: int) -> list[str]:
    return names(parcel for reply in post.replies[before:] for parcel in reply.parcels)


def debt(job_id: JobId, index: int = 0, number: int = 0) -> DebtName:
    return DebtName(job_id, Index(index), number)


def state_of(service: Service, job_id: JobId, index: int = 0) -> TaskState:
    return TaskState(service.coordinator.state.jobs[job_id].states[index])


def records(service: Service, kind: type[e.Event]) -> int:
    """How many durable records have such an event."""
    return sum(any(isinstance(x, kind) for x in r.events) for r in service.records())


def pass_time(service: Service, ms: int) -> None:
    """Time goes by while the coordinator takes its turns."""
    assert isinstance(service.clock, ManualClock)
    while ms > 0:
        step = min(ms, TERM_MS // 8)
        service.clock.advance(step)
        service.settle()
        ms -= step


def test_what_is_owed_goes_to_whoever_waits_and_is_confirmed_in_one_record() -> None:
    service = a_service()
    job_id = Worker(service).commit((effect("ann"), effect("bob")), (effect("ann", body=b"2"),))
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
    Worker(service).commit((effect(),))
    assert names(courier.replies[-1].parcels) == ["0.0"]


def test_a_sink_goes_to_those_who_deliver_from_its_place() -> None:
    service = a_service()
    Worker(service).commit((effect(), effect(sink="call"), REPORT))
    assert names(say(Post(service, name="c"), hello=COURIER)) == ["0.0"]
    parcels = say(Post(service, name="h"), hello=HELPER)
    assert sorted(names(parcels)) == ["0.1", "0.2"]
    (placed,) = [parcel for parcel in parcels if parcel.kind == FILE]
    assert (placed.place, placed.sink, placed.deliveries[0].body) == ("host:one", b"", b"staged")
    assert say(Post(service, name="n"), hello=Hello("x", 1, "1")) == []


def test_what_is_owed_is_dealt_before_new_work_and_in_the_same_answer() -> None:
    service = a_service()
    Worker(service).commit((effect(),))
    service.do(c.SubmitJob(spec=SPEC, count=1))
    told = Post(service, name="both").hear(hello=COURIER, slots=1)
    assert names(told.parcels) == ["0.0"]
    assert len(told.runs) == 1


def test_no_worker_has_more_than_so_much_in_hand() -> None:
    service = a_service()
    runner = Worker(service)
    runner.commit(tuple(effect() for _ in range(ENTRIES_MOST)), tuple(effect() for _ in range(5)))
    courier = Post(service, name="courier")
    told = courier.hear(hello=COURIER, slots=0)
    in_hand = [d.name for p in told.parcels for d in p.deliveries]
    assert len(in_hand) == ENTRIES_MOST
    rest = courier.hear(slots=0, delivered=tuple(in_hand[:3]), carrying=tuple(in_hand[3:]))
    assert len(names(rest.parcels)) == 3


def test_large_bodies_are_bounded_too() -> None:
    service = a_service()
    Worker(service).commit(tuple(effect(body=bytes(60_000)) for _ in range(100)))
    courier = Post(service, name="courier")
    told = courier.hear(hello=COURIER, slots=0)
    assert 60 < len(names(told.parcels)) < 75


def test_two_couriers_share_what_has_no_order() -> None:
    service = a_service()
    couriers = [Post(service, name=name) for name in ("one", "two")]
    for courier in couriers:
        say(courier, hello=COURIER)
    Worker(service).commit(tuple(effect() for _ in range(10)))
    dealt = [names(courier.replies[-1].parcels) for courier in couriers]
    assert sorted(map(len, dealt)) == [5, 5]
    assert len(set(dealt[0]) | set(dealt[1])) == 10


def test_a_failed_try_backs_off_longer_each_time_and_is_parked_when_the_budget_is_spent() -> None:
    service = a_service()
    job_id = Worker(service).commit((effect("ann"),), (effect("ann"),))
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
    assert service.exchanges.deliveries.why_waiting(owing) == "parked: no answer"
    assert told.parcels == ()
    assert owed_line(service.coordinator.state) == "2 entries are owed, 1 of them parked"
    behind = service.coordinator.state.debts.find(debt(job_id, 1))
    assert behind is not None
    told_why = service.exchanges.deliveries.why_waiting(behind)
    assert told_why == "behind another entry with key 'ann'"


def test_a_failure_that_no_try_can_mend_parks_at_once() -> None:
    service = a_service()
    job_id = Worker(service).commit((effect(),))
    courier = Post(service, name="courier")
    courier.hear(hello=COURIER, slots=0)
    courier.hear(slots=0, bounced=(Bounced(debt(job_id), "410 Gone", is_final=True),))
    assert records(service, e.EffectsParked) == 1
    service.do(c.RetryEffects(names=(debt(job_id),)))
    assert names(courier.hear(slots=0).parcels) == ["0.0"]


@pytest.mark.parametrize("wait_ms", [60_000, 10**15, 10**40])
def test_a_receiver_that_asks_for_patience_gets_it_within_reason(wait_ms: int) -> None:
    service = a_service()
    job_id = Worker(service).commit((effect(),))
    courier = Post(service, name="courier")
    courier.hear(hello=COURIER, slots=0)
    courier.hear(slots=0, bounced=(Bounced(debt(job_id), "busy", wait_ms=wait_ms),))
    owing = service.coordinator.state.debts.find(debt(job_id))
    assert owing is not None
    wait = owing.debt.not_before - service.clock.now()
    assert wait == min(wait_ms, WAIT_MOST_MS)


def test_what_a_worker_has_seen_and_neither_carries_nor_reports_is_dealt_again() -> None:
    service = a_service()
    job_id = Worker(service).commit((effect(),))
    courier = Post(service, name="courier")
    courier.hear(hello=COURIER, slots=0)
    # The answer is on its way: an exchange that has not seen it says nothing about it.
    assert say(courier, seen=0) == []
    assert say(courier, carrying=(debt(job_id),)) == []
    assert names(say(courier)) == ["0.0"]


def test_a_lost_answer_is_repeated_with_its_parcels() -> None:
    service = a_service()
    Worker(service).commit((effect(),))
    courier = Post(service, name="courier")
    first = courier.hear(hello=COURIER, slots=0)
    again = courier.hear(hello=COURIER, slots=0, number=1)
    assert first == again
    assert names(again.parcels) == ["0.0"]


@pytest.mark.parametrize("how", ["silent", "left", "replaced"])
def test_what_a_lost_worker_had_in_hand_goes_to_another(how: str) -> None:
    service = a_service()
    job_id = Worker(service).commit((effect(),))
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
    assert since(other, 0) == ["0.0"]
    if how == "silent":
        # It was only slow. What it has done is done.
        courier.hear(slots=0, delivered=(debt(job_id),))
        assert state_of(service, job_id) is TaskState.SUCCEEDED
        assert say(other, delivered=(debt(job_id),)) == []
    assert service.troubles == []


def test_a_worker_that_says_it_carries_something_keeps_it_over_a_restart() -> None:
    service = a_service()
    job_id = Worker(service).commit((effect(),))
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
    job_id = Worker(service).commit((effect(),))
    slow, quick = Post(service, name="slow"), Post(service, name="quick")
    slow.hear(hello=COURIER, slots=0)
    pass_time(service, PATIENCE_MS)
    assert names(say(quick, hello=COURIER)) == ["0.0"]
    assert say(slow, bounced=(Bounced(debt(job_id), "given back", is_untried=True),)) == []
    assert say(Post(service, name="third"), hello=COURIER) == []


@pytest.mark.parametrize(
    ("owed", "why"),
    [
        ((effect(sink="nowhere"),), "there is no sink called 'nowhere'"),
        ((effect(body=bytes(65 * 1024)),), "an entry has 66560 bytes"),
        ((effect(),) * 1_001, "it owes 1001 entries"),
        ((IN_BLOCK, effect()), "nothing may follow the block"),
        ((Entry("carrier pigeon", "ann", "", b""),), "nobody knows how to deliver"),
    ],
)
def test_a_commit_that_promises_what_nobody_can_keep_is_refused_and_its_attempt_fails(
    owed: tuple[Entry, ...], why: str
) -> None:
    service = a_service()
    runner = Worker(service)
    decision = service.do(c.SubmitJob(spec=SPEC, count=1))
    assert isinstance(decision, Accepted)
    job_id = JobId(str(decision.answer))
    (verdict,) = runner.commit_task(job_id, 0, owed).verdicts
    assert (verdict.verdict, why in verdict.why) == (REFUSED, True)
    assert state_of(service, job_id) is TaskState.QUARANTINED
    (end,) = [x.ends[0] for r in service.records() for x in r.events
              if isinstance(x, e.TasksQuarantined)]  # fmt: skip
    assert why in end.error
    assert not service.coordinator.state.debts


def test_a_repeat_of_a_commit_is_committed_though_its_sink_is_gone_since() -> None:
    service = a_service()
    runner = Worker(service)
    job_id = runner.commit((effect(),))
    service.exchanges.adjust_sinks({})
    done = Done(job_id, Index(0), LeaseId(1), 1, b"result", (effect(),))
    say(runner.post, done=(done,))
    (verdict,) = runner.post.replies[-1].verdicts
    assert verdict.verdict == COMMITTED


def test_an_entry_whose_sink_was_taken_away_waits_for_it() -> None:
    service = a_service()
    job_id = Worker(service).commit((effect(),))
    service.exchanges.adjust_sinks({})
    courier = Post(service, name="courier")
    assert say(courier, hello=COURIER) == []
    owing = service.coordinator.state.debts.find(debt(job_id))
    assert owing is not None
    told = service.exchanges.deliveries.why_waiting(owing)
    assert told == "there is no sink called 'ledger' in the settings"
    service.exchanges.adjust_sinks(SINKS)
    service.settle()
    assert since(courier, 0) == ["0.0"]


def test_runs_name_the_sinks_there_are_and_the_log() -> None:
    service = a_service()
    service.do(c.SubmitJob(spec=SPEC, count=1))
    (run,) = Post(service).hear(hello=COURIER).runs
    assert (run.sinks, run.log_id) == (("ledger", "call"), service.log.log_id)


def test_a_file_waits_for_its_own_host_before_it_is_offered_to_others() -> None:
    service = a_service()
    job_id = Worker(service).commit((REPORT,))
    other = Post(service, name="other")
    elsewhere = Hello("two", 1, "1", delivers=(WORKERS,), places=("host:two",))
    assert say(other, hello=elsewhere) == []
    pass_time(service, PATIENCE_MS - 2_000)
    assert other.replies == []
    pass_time(service, 3_000)
    assert since(other, 0) == ["0.0"]
    # It does not see the folder, and nobody else is there: the host is gone.
    bounced = Bounced(debt(job_id), "no such folder", is_elsewhere=True)
    other.hear(slots=0, bounced=(bounced,))
    owing = service.coordinator.state.debts.find(debt(job_id))
    assert owing is not None
    assert (owing.debt.parked, owing.debt.error) == (True, "host one is gone")
    # It comes back, and an operator sends the file on its way again.
    service.do(c.RetryEffects(names=(debt(job_id),)))
    home = Post(service, name="home")
    assert names(home.hear(hello=HELPER, slots=0).parcels) == ["0.0"]


def test_a_file_is_offered_to_each_of_the_others_before_it_is_given_up() -> None:
    service = a_service()
    job_id = Worker(service).commit((REPORT,))
    hello = Hello("two", 1, "1", delivers=(WORKERS,))
    others = [Post(service, name=name) for name in ("a", "b")]
    for other in others:
        say(other, hello=hello)
    pass_time(service, PATIENCE_MS + 1_000)
    (first,) = [other for other in others if other.replies]
    (second,) = [other for other in others if other is not first]
    say(first, bounced=(Bounced(debt(job_id), "not here", is_elsewhere=True),))
    assert since(second, 0) == ["0.0"]
    second.hear(slots=0, delivered=(debt(job_id),))
    assert state_of(service, job_id) is TaskState.SUCCEEDED


def test_a_host_that_says_its_own_file_is_elsewhere_has_failed_a_try() -> None:
    service = a_service()
    job_id = Worker(service).commit((REPORT,))
    home = Post(service, name="home")
    home.hear(hello=HELPER, slots=0)
    home.hear(slots=0, bounced=(Bounced(debt(job_id), "not here", is_elsewhere=True),))
    assert records(service, e.DeliveryFailed) == 1


def test_an_effect_that_no_worker_can_deliver_backs_off_and_is_tried_again() -> None:
    service = a_service()
    job_id = Worker(service).commit((effect(sink="call"),))
    helper = Post(service, name="helper")
    helper.hear(hello=HELPER, slots=0)
    helper.hear(slots=0, bounced=(Bounced(debt(job_id), "no module", is_elsewhere=True),))
    assert records(service, e.DeliveryFailed) == 1
    helper.say(slots=0)
    pass_time(service, 2_000)
    assert names(helper.replies[-1].parcels) == ["0.0"]


def test_a_cordoned_worker_delivers_and_a_drained_one_does_not() -> None:
    service = a_service()
    Worker(service).commit((effect(),))
    courier = Post(service, name="courier")
    service.do(c.CordonWorker(worker=courier.name, reason="it fails tasks"))
    assert names(say(courier, hello=COURIER)) == ["0.0"]
    drained = Post(service, name="drained")
    say(courier)
    service.do(c.CordonWorker(worker=drained.name, reason="for good"))
    say(drained, hello=COURIER, draining=True)
    Worker(service, "other").commit((effect(),))
    assert since(drained, 0) == []


# --- blocks -----------------------------------------------------------------------------------


def in_block(service: Service) -> tuple[Worker, DebtName]:
    runner = Worker(service)
    decision = service.do(c.SubmitJob(spec=SPEC, count=1))
    assert isinstance(decision, Accepted)
    job_id = JobId(str(decision.answer))
    assert runner.commit_task(job_id, 0, (IN_BLOCK,)).verdicts == ()
    return runner, debt(job_id)


def parked(service: Service, name: DebtName) -> str:
    owing = service.coordinator.state.debts.find(name)
    assert owing is not None
    return owing.debt.error if owing.debt.parked else ""


def test_a_block_belongs_to_whoever_committed_and_is_dealt_to_nobody() -> None:
    service = a_service()
    runner, name = in_block(service)
    assert say(Post(service, name="c"), hello=HELPER) == []
    runner.post.say(slots=0, carrying=(name,))
    service.settle()
    assert not parked(service, name)
    say(runner.post, delivered=(name,))
    assert state_of(service, name.job_id) is TaskState.SUCCEEDED


def test_a_block_that_raised_is_parked_with_its_error() -> None:
    service = a_service()
    runner, name = in_block(service)
    runner.post.hear(slots=0, bounced=(Bounced(name, "ValueError: no", is_final=True),))
    assert parked(service, name) == "ValueError: no"


def test_a_block_that_its_worker_does_not_name_any_more_is_parked() -> None:
    service = a_service()
    runner, name = in_block(service)
    runner.post.say(slots=0, seen=runner.post.number - 1)
    service.settle()
    assert not parked(service, name)
    runner.post.say(slots=0)
    service.settle()
    assert parked(service, name) == "worker runner does not run the block any more"


@pytest.mark.parametrize("how", ["silent", "left", "started again", "restart"])
def test_a_block_of_a_worker_that_is_gone_is_parked(how: str) -> None:
    service = a_service()
    runner, name = in_block(service)
    if how == "left":
        runner.post.hear(slots=0, carrying=(name,), leaving=True)
    elif how == "started again":
        pass_time(service, TERM_MS)
        say(Post(service, name="runner", incarnation=2), hello=Hello("runs", 4, "1"))
    else:
        if how == "restart":
            service.crash()
        pass_time(service, PATIENCE_MS - 2_000)
        assert not parked(service, name)
        pass_time(service, 2_000)
    assert parked(service, name)
    # It came late, and it is true.
    if how == "silent":
        runner.post.hear(slots=0, delivered=(name,))
        assert state_of(service, name.job_id) is TaskState.SUCCEEDED


def test_a_block_survives_a_restart_of_the_coordinator() -> None:
    service = a_service()
    runner, name = in_block(service)
    service.crash()
    say(runner.post, carrying=(name,), hello=Hello("runs", 3, "1"))
    pass_time(service, PATIENCE_MS - 5_000)
    runner.post.say(slots=0, carrying=(name,))
    pass_time(service, PATIENCE_MS)
    assert not parked(service, name)


def test_a_commit_whose_answer_was_lost_in_a_restart_begins_its_block_when_it_is_told_again() -> (
    None
):
    service = a_service()
    runner, name = in_block(service)
    service.crash()
    done = Done(name.job_id, name.index, LeaseId(1), 1, b"result", (IN_BLOCK,))
    (verdict,) = runner.post.hear(slots=0, done=(done,), hello=Hello("runs", 3, "1")).verdicts
    assert verdict.verdict == COMMITTED
    assert not parked(service, name)
    runner.post.say(slots=0, carrying=(name,))
    service.settle()
    assert not parked(service, name)


# --- leftovers and progress -------------------------------------------------------------------


def test_leftovers_are_removable_unless_they_are_owed_or_may_be() -> None:
    service = a_service()
    job_id = Worker(service).commit((REPORT,), (effect(),))
    decision = service.do(c.SubmitJob(spec=SPEC, count=1))
    assert isinstance(decision, Accepted)
    running = JobId(str(decision.answer))
    post = Post(service, name="runs")
    (run,) = post.hear(hello=COURIER, slots=1).runs
    (live,) = [item.lease_id for item in run.items]
    log = service.log.log_id

    def origin(job: JobId, index: int, lease: int) -> Origin:
        return Origin(log, job, Index(index), LeaseId(lease))

    asked = (
        origin(job_id, 0, 1),
        origin(job_id, 0, 77),
        origin(job_id, 1, 2),
        origin(running, 0, live),
        origin(running, 0, 78),
        origin(JobId("forgotten"), 0, 79),
    )
    told = post.hear(slots=1, held=(live,), leftovers=asked)
    assert told.removable == (77, 2, 78, 79)


def test_progress_is_kept_for_as_long_as_its_attempt_is_held() -> None:
    service = a_service()
    service.do(c.SubmitJob(spec=SPEC, count=1))
    post = Post(service)
    (run,) = post.hear(hello=COURIER).runs
    lease = run.items[0].lease_id
    post.hear(held=(lease,), progress=(Progress(lease, 3, 10, "third"),))
    known = service.exchanges.workers[post.name].progress
    assert known[lease][0] == Progress(lease, 3, 10, "third")
    say(post, slots=1, held=(lease,))
    assert service.exchanges.workers[post.name].progress[lease][0].done == 3
    say(post, slots=1, done=(Done(run.job_id, Index(0), lease, 1, b""),))
    assert service.exchanges.workers[post.name].progress == {}
