"""The coordinator's side of the exchange, message by message, on a log in memory."""

from typing import TypeVar

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decision import Accepted
from holdfast.core.ids import Index, JobId, LeaseId
from holdfast.core.spec import JobSpec
from holdfast.core.task import TaskState
from holdfast.scheduler.plan import LONGEST_RUN
from holdfast.testing.clock import ManualClock, SeededDice
from holdfast.testing.post import Post
from holdfast.testing.service import Service
from holdfast.wire.exchange import Done, Failed, Released, Run, Started

SPEC = JobSpec(name="work", kind="function", target="work")
TERM_MS = 10_000
E = TypeVar("E", bound=e.Event)


def a_service(term_ms: int = 0) -> Service:
    return Service(ManualClock(), SeededDice(1), term_ms=term_ms)


def submit(service: Service, count: int = 1, *, spec: JobSpec = SPEC) -> JobId:
    items = tuple(b"%d" % n for n in range(count))
    decision = service.do(c.SubmitJob(spec=spec, items=items))
    assert isinstance(decision, Accepted)
    service.settle()
    return JobId(str(decision.answer))


def leases_of(runs: tuple[Run, ...]) -> tuple[int, ...]:
    return tuple(item.lease_id for run in runs for item in run.items)


def done(job_id: JobId, index: int, lease: int, ran_ms: int = 1) -> Done:
    return Done(job_id, Index(index), LeaseId(lease), ran_ms, b"result")


def told(service: Service, kind: type[E]) -> list[E]:
    """Every durable event of this kind."""
    return [event for r in service.records() for event in r.events if isinstance(event, kind)]


def clock_of(service: Service) -> ManualClock:
    assert isinstance(service.clock, ManualClock)
    return service.clock


def pass_time(service: Service, ms: int) -> None:
    """Time goes by while the coordinator is at work: it takes its turns, so it was not away."""
    while ms > 0:
        step = min(ms, TERM_MS // 8)
        clock_of(service).advance(step)
        service.coordinator.excuse_absence()
        ms -= step


def test_a_worker_with_nothing_to_do_waits_and_is_answered_when_work_comes() -> None:
    service = a_service()
    worker = Post(service)
    worker.say()
    service.settle()
    assert worker.replies == []
    submit(service)
    (reply,) = worker.replies
    assert (reply.number, leases_of(reply.runs)) == (1, (1,))


def test_a_run_is_one_task_until_it_is_known_how_long_they_take() -> None:
    service = a_service()
    job_id = submit(service, 1_000)
    worker = Post(service)
    assert leases_of(worker.hear().runs) == (1,)
    grown = leases_of(worker.hear(done=(done(job_id, 0, 1, ran_ms=0),)).runs)
    assert len(grown) == LONGEST_RUN


def test_slow_tasks_do_not_queue_behind_each_other() -> None:
    service = a_service()
    job_id = submit(service, 10)
    worker = Post(service, name="w")
    assert leases_of(worker.hear(slots=2).runs) == (1, 2)
    reply = worker.hear(slots=2, held=(2,), done=(done(job_id, 0, 1, ran_ms=60_000),))
    assert leases_of(reply.runs) == (3,)


def test_a_repeated_number_gets_the_same_answer() -> None:
    service = a_service()
    submit(service, 3)
    worker = Post(service)
    first = worker.hear()
    again = worker.hear(number=1, seen=0)
    assert again == first
    assert len(told(service, e.LeasesGranted)) == 1


def test_a_number_that_is_asked_again_while_it_waits_is_answered_where_it_asked_last() -> None:
    service = a_service()
    lost, found = Post(service), Post(service)
    lost.say()
    service.settle()
    found.say()
    submit(service)
    assert lost.replies == []
    assert [reply.number for reply in found.replies] == [1]


def test_a_number_that_is_long_past_gets_no_answer() -> None:
    service = a_service()
    submit(service, 3)
    worker = Post(service)
    worker.hear()
    worker.hear(released=(Released(JobId("1"), Index(0), LeaseId(1), False),))
    worker.say(number=1)
    service.settle()
    assert [reply.number for reply in worker.replies] == [1, 2]


def test_a_grant_whose_answer_may_be_lost_stays_granted() -> None:
    service = a_service()
    submit(service)
    worker = Post(service)
    worker.hear()
    # The worker has not seen answer 1, so it cannot hold what came with it.
    worker.say(number=2, seen=0)
    service.settle()
    assert told(service, e.AttemptsReturned) == []


def test_a_grant_that_arrived_and_is_not_held_ends_at_once() -> None:
    service = a_service()
    job_id = submit(service)
    worker = Post(service)
    worker.hear()
    reply = worker.hear(number=2, seen=1)
    (returned,) = told(service, e.AttemptsReturned)
    (end,) = returned.ends
    assert (end.reason, end.charged) == ("undelivered", "")
    (again,) = reply.runs
    assert (again.job_id, leases_of((again,)), again.alone) == (job_id, (2,), True)


def test_a_task_that_met_a_death_starts_alone_and_only_once_its_start_is_durable() -> None:
    service = a_service()
    job_id = submit(service, 200)
    worker = Post(service)
    worker.hear()
    alone = worker.hear(seen=1)
    assert [run.alone for run in alone.runs] == [True]
    held = leases_of(alone.runs)
    worker.say(held=held, started=(Started(job_id, Index(0), LeaseId(held[0]), 0),))
    assert service.turn()
    assert len(worker.replies) == 2
    service.synced()
    # The answer tells that the start is durable, and puts nothing behind the suspect.
    assert (worker.replies[-1].number, worker.replies[-1].runs) == (3, ())
    task = (service.coordinator.state.jobs[job_id].tasks or {})[Index(0)]
    assert task.state is TaskState.RUNNING


def test_a_repeated_completion_is_committed_again_also_after_a_restart() -> None:
    service = a_service(TERM_MS)
    job_id = submit(service)
    worker = Post(service)
    worker.hear()
    assert worker.hear(done=(done(job_id, 0, 1),)).verdicts == ()
    records = len(service.records())
    (verdict,) = worker.hear(done=(done(job_id, 0, 1),)).verdicts
    assert (verdict.verdict, verdict.lease_id) == ("COMMITTED", 1)
    assert len(service.records()) == records
    service.crash()
    records = len(service.records())
    (verdict,) = worker.hear(done=(done(job_id, 0, 1),)).verdicts
    assert verdict.verdict == "COMMITTED"
    assert len(service.records()) == records


def test_a_repeat_is_known_even_before_the_first_is_on_disk() -> None:
    service = a_service()
    job_id = submit(service)
    worker = Post(service)
    worker.hear()
    worker.say(done=(done(job_id, 0, 1),))
    worker.say(done=(done(job_id, 0, 1),))
    service.settle()
    (verdict,) = worker.replies[-1].verdicts
    assert verdict.verdict == "COMMITTED"


def test_a_stale_completion_is_refused_for_good_and_writes_nothing() -> None:
    service = a_service(TERM_MS)
    job_id = submit(service)
    worker = Post(service)
    worker.hear()
    pass_time(service, TERM_MS)
    other = Post(service, name="other")
    assert leases_of(other.hear().runs) == (2,)
    records = len(service.records())
    (verdict,) = worker.hear(done=(done(job_id, 0, 1),)).verdicts
    assert verdict.verdict == "LEASE_LOST"
    assert verdict.why
    assert len(service.records()) == records
    assert other.hear(held=(), done=(done(job_id, 0, 2),)).verdicts == ()


def test_a_completion_past_its_time_meets_the_expiry_first() -> None:
    service = a_service(TERM_MS)
    job_id = submit(service)
    worker = Post(service)
    worker.hear()
    pass_time(service, TERM_MS)
    worker.say(done=(done(job_id, 0, 1),))
    # No tick has come yet: the message itself made the expiry be recorded.
    assert service.record(service.coordinator.state.position).command == "ExpireLeases"
    service.settle()
    (verdict,) = worker.replies[-1].verdicts
    assert verdict.verdict == "LEASE_LOST"
    (returned,) = told(service, e.AttemptsReturned)
    assert [end.reason for end in returned.ends] == ["lease_expired"]
    assert told(service, e.TasksCompleted) == []


def test_the_tick_ends_what_nobody_renews() -> None:
    service = a_service(TERM_MS)
    submit(service)
    Post(service).hear()
    pass_time(service, TERM_MS - 1)
    service.settle()
    assert told(service, e.AttemptsReturned) == []
    pass_time(service, 1)
    service.settle()
    assert len(told(service, e.AttemptsReturned)) == 1


def test_renewal_is_one_record_at_half_the_term() -> None:
    service = a_service(TERM_MS)
    submit(service, 3)
    worker = Post(service)
    held = leases_of(worker.hear(slots=3).runs)
    assert len(held) == 3
    for _ in range(4):
        worker.say(slots=3, held=held)
        service.settle()
        clock_of(service).advance(TERM_MS // 8)
    assert told(service, e.LeasesExtended) == []
    worker.say(slots=3, held=held)
    service.settle()
    (extended,) = told(service, e.LeasesExtended)
    assert (extended.until, extended.exceptions) == (service.clock.now() + TERM_MS, ())


def test_a_lease_that_started_and_is_held_no_more_is_not_renewed() -> None:
    service = a_service(TERM_MS)
    job_id = submit(service, 2)
    worker = Post(service)
    worker.hear(slots=2)
    worker.hear(slots=2, held=(1, 2), started=(Started(job_id, Index(1), LeaseId(2), 0),))
    pass_time(service, TERM_MS // 2)
    worker.say(slots=2, held=(1,))
    pass_time(service, TERM_MS // 2)
    service.settle()
    (returned,) = told(service, e.AttemptsReturned)
    assert [(end.lease_id, end.reason) for end in returned.ends] == [(2, "lease_expired")]


def test_an_outage_of_the_coordinator_costs_nobody_a_lease() -> None:
    service = a_service(TERM_MS)
    job_id = submit(service)
    worker = Post(service)
    worker.hear()
    pass_time(service, 10 * TERM_MS)
    service.crash()
    (rearmed,) = told(service, e.LeasesRearmed)
    assert rearmed.until == service.clock.now() + TERM_MS
    assert worker.hear(done=(done(job_id, 0, 1),)).verdicts == ()
    assert len(told(service, e.TasksCompleted)) == 1


def test_what_a_person_killed_is_stopped_on_the_worker() -> None:
    service = a_service()
    job_id = submit(service)
    worker = Post(service)
    worker.hear()
    worker.say(held=(1,))
    service.do(c.KillJob(job_id=job_id))
    service.settle()
    (stop,) = worker.replies[-1].stops
    assert (stop.lease_id, stop.verdict) == (1, "LEASE_LOST")


def test_a_draining_worker_gets_no_more_work() -> None:
    service = a_service()
    job_id = submit(service, 3)
    worker = Post(service)
    worker.hear()
    reply = worker.hear(
        draining=True, released=(Released(job_id, Index(0), LeaseId(1), True),)
    )
    assert reply.runs == ()
    (returned,) = told(service, e.AttemptsReturned)
    assert [(end.reason, end.charged) for end in returned.ends] == [("released", "")]


def test_a_slot_that_a_given_up_attempt_occupies_is_not_given_away() -> None:
    service = a_service()
    submit(service, 3)
    worker = Post(service)
    assert leases_of(worker.hear(slots=2, occupied=1).runs) == (1,)


def test_no_slot_holds_more_tasks_than_run_where_the_running_ones_are_counted() -> None:
    service = a_service()
    spec = JobSpec(name="work", kind="function", target="work", max_parallel=2)
    job_id = submit(service, 100, spec=spec)
    worker = Post(service)
    assert leases_of(worker.hear(slots=4).runs) == (1, 2)
    reply = worker.hear(slots=4, held=(2,), done=(done(job_id, 0, 1, ran_ms=0),))
    assert leases_of(reply.runs) == (3,)


def test_a_failed_attempt_charges_its_budget_and_waits() -> None:
    service = a_service()
    spec = JobSpec(name="work", kind="function", target="work", retries=1)
    job_id = submit(service, spec=spec)
    worker = Post(service)
    worker.hear()
    failed = Failed(job_id, Index(0), LeaseId(1), 5, "failed", "ValueError: bad", "trace", None)
    assert worker.hear(failed=(failed,)).verdicts == ()
    (returned,) = told(service, e.AttemptsReturned)
    (end,) = returned.ends
    assert (end.charged, end.failures, end.error) == ("failures", 1, "ValueError: bad")
    assert end.not_before > service.clock.now()


def test_tasks_that_queue_behind_others_are_asked_back_when_another_worker_idles() -> None:
    service = a_service()
    job_id = submit(service, 9)
    busy, idle = Post(service, name="busy"), Post(service, name="idle")
    busy.hear()
    held = leases_of(busy.hear(done=(done(job_id, 0, 1, ran_ms=5),)).runs)
    assert len(held) == 8
    busy.say(held=held)
    idle.say()
    service.settle()
    recalls = busy.replies[-1].recalls
    assert recalls
    assert set(recalls) < set(held)
    assert told(service, e.AttemptsReturned) == []


def test_who_has_not_yet_heard_of_its_tasks_is_asked_for_them_as_well() -> None:
    """It waits for an answer and says that it holds nothing: its grants are still on their way."""
    service = a_service()
    job_id = submit(service, 9)
    busy, idle = Post(service, name="busy"), Post(service, name="idle")
    busy.hear()
    held = leases_of(busy.hear(done=(done(job_id, 0, 1, ran_ms=5),)).runs)
    busy.say(seen=busy.number - 1)
    idle.say()
    service.settle()
    recalls = busy.replies[-1].recalls
    assert recalls
    assert set(recalls) < set(held)


def test_who_left_and_asks_again_hears_what_was_ended_meanwhile() -> None:
    service = a_service()
    job_id = submit(service)
    worker, others = Post(service), [Post(service, name=f"idle{n}") for n in range(3)]
    worker.hear()
    for other in others:
        other.say()
    worker.say(held=(1,))
    service.settle()
    answered = len(worker.replies)
    (parked,) = [w for w in service.exchanges.workers.values() if w.held]
    parked.send = None
    service.do(c.KillJob(job_id=job_id))
    service.settle()
    assert len(worker.replies) == answered
    worker.say(number=worker.number, held=(1,))
    service.settle()
    (stop,) = worker.replies[-1].stops
    assert stop.lease_id == 1
    assert [other.replies for other in others] == [[], [], []]


def test_those_who_idle_are_answered_when_there_is_work_and_not_before() -> None:
    service = a_service()
    idle = [Post(service, name=f"idle{number}") for number in range(3)]
    for worker in idle:
        worker.say()
    service.settle()
    assert [worker.replies for worker in idle] == [[], [], []]
    submit(service, 3)
    service.settle()
    assert [len(leases_of(worker.replies[-1].runs)) for worker in idle] == [1, 1, 1]
