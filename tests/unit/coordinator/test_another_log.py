"""A worker that comes from another log: whatever it has is lost, and it is given new work."""

from random import Random

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.commands_schedules import SetSchedule
from holdfast.core.decision import Accepted
from holdfast.core.ids import Index, Instant, JobId, LeaseId, WorkerId
from holdfast.core.lineage import FORK
from holdfast.core.owed import DebtName, Entry
from holdfast.core.schedule import Definition, Timing
from holdfast.core.spec import JobSpec
from holdfast.testing import owing
from holdfast.testing.clock import ManualClock, SeededDice
from holdfast.testing.post import Post
from holdfast.testing.service import Service
from holdfast.testing.stepped import SteppedExecutor
from holdfast.wire.exchange import ANOTHER_LOG, LEASE_LOST, Capacity, Done, Hello, Reply
from holdfast.worker.agent import Agent

SPEC = JobSpec(name="work", kind="function", target="work")
TERM_MS = 10_000
HELLO = Hello("host", 1, "0")


def a_service() -> Service:
    return Service(ManualClock(), SeededDice(1), term_ms=TERM_MS)


def submit(service: Service, count: int = 1) -> JobId:
    items = tuple(b"%d" % n for n in range(count))
    decision = service.do(c.SubmitJob(spec=SPEC, items=items))
    assert isinstance(decision, Accepted)
    service.settle()
    return JobId(str(decision.answer))


def fork(service: Service) -> str:
    """The log of this service becomes another one, as if its folder had been forked."""
    state = service.coordinator.state
    former = state.log_id
    decision = service.do(
        c.ForkLog(
            log_id="fork", head=b"", head_position=state.position, kind=FORK,
            epoch=state.epoch + 1, next_lease=LeaseId(100), next_job=1,
        )
    )  # fmt: skip
    assert isinstance(decision, Accepted)
    service.settle()
    return former


def test_a_reply_names_the_log_that_answers() -> None:
    service = a_service()
    submit(service)
    reply = Post(service).hear(hello=HELLO)
    assert reply.log_id == service.coordinator.state.log_id != ""


def test_a_lease_named_under_another_log_is_lost_and_leaves_no_trace() -> None:
    service = a_service()
    job_id = submit(service)
    post = Post(service)
    lease = post.hear(hello=HELLO).runs[0].items[0].lease_id
    former = fork(service)
    before = service.coordinator.state.position
    done = Done(job_id, Index(0), lease, 5, b"result")
    reply = post.hear(done=(done,), held=(77,), log_id=former)
    told = {(v.lease_id, v.verdict, v.why) for v in reply.verdicts}
    assert told == {(lease, LEASE_LOST, ANOTHER_LOG), (77, LEASE_LOST, ANOTHER_LOG)}
    assert reply.log_id == "fork"
    assert service.coordinator.state.position == before
    assert service.troubles == []


def test_nothing_is_granted_in_the_answer_that_takes_everything_away() -> None:
    service = a_service()
    submit(service)
    former = fork(service)
    service.do(c.ResumeLog())
    service.settle()
    post = Post(service)
    assert post.hear(hello=HELLO, log_id=former).runs == ()
    (run,) = post.hear(log_id="fork").runs
    assert run.items[0].lease_id == 100


def test_deliveries_told_of_under_another_log_are_not_believed() -> None:
    service = a_service()
    job_id = submit(service)
    post = Post(service)
    lease = post.hear(hello=HELLO).runs[0].items[0].lease_id
    debt = Entry("effect", "mail", "ann", b"dear")
    service.do(c.CommitTasks(
        worker=WorkerId("w"), incarnation=1,
        done=(Done(job_id, Index(0), lease, 5, b"", (debt,)),),
    ))  # fmt: skip
    former = fork(service)
    name = DebtName(job_id, Index(0), 0)
    post.hear(delivered=(name,), log_id=former)
    assert service.coordinator.state.debts.find(name) is not None
    post.hear(delivered=(name,), log_id="fork")
    assert service.coordinator.state.debts.find(name) is None


def test_an_old_debt_keeps_its_key_and_is_delivered_when_the_log_is_resumed() -> None:
    service = owing.a_service()
    job_id = owing.Runner(service).commit((owing.effect("ann"),))
    former, at = fork(service), service.coordinator.state.position
    courier = Post(service, name="courier")
    courier.say(hello=owing.COURIER, slots=0, log_id="fork")
    service.settle()
    assert [reply.parcels for reply in courier.replies if reply.parcels] == []
    service.do(c.ResumeLog())
    service.settle()
    (parcel,) = courier.replies[-1].parcels
    (delivery,) = parcel.deliveries
    log_id, task, position, number = delivery.idempotency.split(":")
    assert (log_id, task, number) == (former, f"{job_id}/0", "0")
    assert int(position) < at
    assert service.troubles == []


def test_while_suspended_nothing_is_granted_and_no_schedule_fires() -> None:
    service = a_service()
    clock = service.clock
    assert isinstance(clock, ManualClock)
    assert isinstance(service.do(_every_minute(clock)), Accepted)
    job_id = submit(service)
    fork(service)
    post = Post(service)
    post.say(hello=HELLO, log_id="fork")
    for _ in range(5):
        clock.advance(60_000)
        service.settle()
    assert [r.runs for r in post.replies if r.runs] == []
    assert not _fired(service)
    events = (event for record in service.records() for event in record.events)
    assert not [event for event in events if isinstance(event, e.ScheduleSkipped)]
    service.do(c.KillJob(job_id=job_id))
    service.do(c.ResumeLog())
    clock.advance(60_000)
    service.settle()
    assert _fired(service)
    assert service.troubles == []


def _every_minute(clock: ManualClock) -> c.Command:
    first = Instant(clock.wall() + 60_000)
    return SetSchedule(
        name="often", next_wall=first,
        definition=Definition(timing=Timing(every_ms=60_000), spec=SPEC, items=(b"item",)),
    )  # fmt: skip


def _fired(service: Service) -> list[e.Event]:
    events = (event for record in service.records() for event in record.events)
    return [event for event in events if isinstance(event, e.ScheduleFired)]


def an_agent() -> tuple[Agent, SteppedExecutor]:
    executor = SteppedExecutor(1, Random(1), takes_ms=1_000)
    return Agent(WorkerId("w"), 1, executor, Capacity(1, 1_000, 0, 0)), executor


def test_an_agent_lets_go_of_everything_when_another_log_answers() -> None:
    """Also of what ended while the answer was on its way, which no verdict names."""
    service = a_service()
    submit(service, 3)
    agent, executor = an_agent()
    replies: list[Reply] = []
    _carry(service, agent, replies, 0)
    executor.advance(10)
    sent = agent.step(100)
    assert sent is not None
    assert (len(sent.started), sent.log_id != "") == (1, True)
    executor.advance(2_000)
    assert agent.step(2_000) is None
    assert agent.has_unsaid()
    fork(service)
    service.do(c.ResumeLog())
    service.exchanges.take(sent, replies.append)
    service.settle()
    agent.receive(replies[-1], 2_010)
    assert agent.is_idle()
    following = agent.step(2_020)
    assert following is not None
    assert (following.log_id, following.held, following.done) == ("fork", (), ())
    assert not [r for r in service.records() if r.command == "CommitTasks"]


def _carry(service: Service, agent: Agent, replies: list[Reply], now_ms: int) -> None:
    exchange = agent.step(now_ms)
    assert exchange is not None
    service.exchanges.take(exchange, replies.append)
    service.settle()
    agent.receive(replies[-1], now_ms)
