"""Plans through the coordinator: proposals become records, and what is bounded stays so."""

from typing import Any

import pytest

from holdfast.coordinator.crews import LiveCrew
from holdfast.coordinator.exchanges import MOST_PARTS
from holdfast.coordinator.foresight import Foresight
from holdfast.coordinator.settings import Settings
from holdfast.core import commands as c
from holdfast.core.decision import Accepted
from holdfast.core.ids import Index, JobId, LeaseId
from holdfast.core.placing import ANYWHERE, Constraint, Placing
from holdfast.core.shape import shape_of
from holdfast.core.spec import JobSpec, RetryPolicy
from holdfast.core.task import TaskState
from holdfast.testing.clock import ManualClock, SeededDice
from holdfast.testing.post import Post
from holdfast.testing.service import Service
from holdfast.wire.exchange import Done, Failed, Hello, Lingering, Started

AT_ONCE = RetryPolicy(kind="none")
SPEC = JobSpec(name="work", kind="function", target="work", memory_bytes=1)


def a_service() -> Service:
    return Service(ManualClock(), SeededDice(1), term_ms=10_000)


def submit(service: Service, count: int = 1, placing: Placing = ANYWHERE, **wants: Any) -> JobId:
    spec = JobSpec(
        name="work", kind="function", target=wants.pop("target", "work"), placing=placing,
        retry=AT_ONCE, **wants,
    )  # fmt: skip
    items = tuple(b"%d" % n for n in range(count))
    decision = service.do(c.SubmitJob(spec=spec, items=items))
    assert isinstance(decision, Accepted), decision
    service.settle()
    return JobId(str(decision.answer))


def arrive(service: Service, name: str, slots: int = 1, **attributes: str) -> Post:
    worker = Post(service, name=name)
    hello = Hello("host", 1, "1", attributes=tuple(attributes.items()))
    worker.say(slots=slots, hello=hello)
    service.settle()
    return worker


def given(worker: Post) -> list[tuple[str, int, int]]:
    """Job, index and lease of all it was ever given."""
    return [
        (run.job_id, item.index, item.lease_id)
        for reply in worker.replies
        for run in reply.runs
        for item in run.items
    ]


def done(job_id: str, index: int, lease: int) -> tuple[Done, ...]:
    return (Done(JobId(job_id), Index(index), LeaseId(lease), 1, b""),)


def failed(job_id: str, index: int, lease: int) -> tuple[Failed, ...]:
    return (Failed(JobId(job_id), Index(index), LeaseId(lease), 1, "failed", "no", "", None),)


def test_a_task_goes_where_its_constraints_hold() -> None:
    service = a_service()
    plain, fast = arrive(service, "plain"), arrive(service, "fast", disk="ssd")
    job = submit(service, placing=Placing(constraints=(Constraint("disk", "eq", ("ssd",)),)))
    assert (given(plain), given(fast)) == ([], [(job, 0, 1)])


def test_what_preempts_ends_what_is_less_urgent_and_waits_until_it_has_gone() -> None:
    service = a_service()
    worker = arrive(service, "one")
    low = submit(service)
    worker.say(held=(1,), started=(Started(low, Index(0), LeaseId(1), 5),))
    service.settle()
    worker.say(held=(1,))
    high = submit(service, placing=Placing(preempts=True), priority=5)
    assert [(stop.lease_id, stop.verdict) for stop in worker.replies[-1].stops] == [
        (1, "LEASE_LOST")
    ]
    task = (service.coordinator.state.jobs[low].tasks or {})[Index(0)]
    assert (task.state, task.failures, task.losses) == (TaskState.WAITING, 0, 0)
    worker.say(lingering=(Lingering(LeaseId(1), 0, 1_000, 0, 0),), occupied=1)
    service.settle()
    assert [entry[0] for entry in given(worker)] == [low], "its room is not free before it is gone"
    worker.say()
    service.settle()
    assert [entry[0] for entry in given(worker)] == [low, high]


def test_what_does_not_ask_for_it_preempts_nothing() -> None:
    service = a_service()
    worker = arrive(service, "one")
    low = submit(service)
    worker.say(held=(1,))
    submit(service, priority=5)
    assert [entry[0] for entry in given(worker)] == [low]
    assert all(not reply.stops for reply in worker.replies)


@pytest.mark.parametrize(
    ("scope", "name", "wants"),
    [
        ("namespace", "a", {"namespace": "a"}),
        ("user", "ann", {"user": "ann"}),
        ("key", "k", {"placing": Placing(keys=(("k", 0),))}),
    ],
)
def test_a_limit_holds_across_jobs_and_workers(
    scope: str, name: str, wants: dict[str, Any]
) -> None:
    service = a_service()
    service.do(c.SetLimit(scope=scope, name=name, running=3))
    workers = [arrive(service, f"w{n}", slots=2) for n in range(3)]
    submit(service, 4, **wants)
    submit(service, 4, **wants)
    assert sum(len(given(worker)) for worker in workers) == 3


def test_a_rate_lets_so_many_start_in_a_span_and_wakes_for_the_next() -> None:
    service = a_service()
    clock = service.clock
    assert isinstance(clock, ManualClock)
    service.do(c.SetLimit(scope="namespace", name="default", starts=2, per_ms=1_000))
    worker = arrive(service, "one", slots=9)
    submit(service, 9)
    started = []
    for _ in range(4):
        due = service.next_due()
        assert clock.now() < due <= clock.now() + 501
        clock.advance_to(due)
        service.settle()
        held = tuple(lease for _, _, lease in given(worker))
        started.append(len(held))
        if worker.service.exchanges.workers[worker.name].send is None:
            worker.say(slots=9, held=held)
            service.settle()
    assert started == [1, 2, 3, 4]


def test_resolution_000_25_a_retry_avoids_the_worker_that_failed_it() -> None:
    service = a_service()
    one = arrive(service, "one")
    job = submit(service, retries=2)
    one.hear(failed=failed(job, 0, 1))
    assert len(given(one)) == 2, "there is no other"
    two = arrive(service, "two")
    one.say(failed=failed(job, 0, 2))
    service.settle()
    assert (len(given(one)), [entry[:2] for entry in given(two)]) == (2, [(job, 0)])


def test_resolution_000_25_a_worker_that_fails_what_goes_well_elsewhere_is_cordoned() -> None:
    service = a_service()
    bad, good = arrive(service, "bad"), arrive(service, "good")
    state = service.coordinator.state
    for _ in range(6):
        if "bad" in state.cordoned:
            break
        before = len(given(bad))
        job = submit(service, retries=1)
        if len(given(bad)) == before:
            # The good one was first; whatever it is given it does.
            _, index, lease = given(good)[-1]
            good.say(done=done(job, index, lease))
            service.settle()
            good.say()
            service.settle()
            continue
        _, index, lease = given(bad)[-1]
        bad.say(failed=failed(job, index, lease))
        service.settle()
        bad.say()
        service.settle()
        _, index, lease = given(good)[-1]
        good.say(done=done(job, index, lease))
        service.settle()
        good.say()
        service.settle()
    assert "went well on other workers" in state.cordoned["bad"]
    assert "good" not in state.cordoned


def test_two_namespaces_share_what_comes_free() -> None:
    service = a_service()
    worker = arrive(service, "one", slots=4)
    first = submit(service, 100, namespace="first")
    second = submit(service, 100, namespace="second")
    assert {entry[0] for entry in given(worker)} == {first}
    held = [lease for _, _, lease in given(worker)]
    for _ in range(2):
        lease = held.pop(0)
        index = next(i for _, i, known in given(worker) if known == lease)
        worker.say(slots=4, held=tuple(held), done=done(first, index, lease))
        service.settle()
        held = [known for _, _, known in given(worker) if known == lease + 4 or known in held]
        worker.say(slots=4, held=tuple(held))
        service.settle()
    assert [entry[0] for entry in given(worker)][4:6] == [second, second]


def test_a_weight_is_a_namespaces_and_nobody_elses() -> None:
    service = a_service()
    service.do(c.SetLimit(scope="namespace", name="same", weight=3))
    service.do(c.SetLimit(scope="user", name="same", running=1))
    arrive(service, "one", slots=4)
    held = [submit(service, 9, namespace="same"), submit(service, 9, namespace="other")]
    active = [service.coordinator.state.jobs[job].active for job in held]
    assert active == [4, 0], "the first was alone"
    look = service.exchanges.placement.outlook(service.exchanges.workers.values())
    shape = shape_of(service.coordinator.state.jobs[held[0]])
    other = shape_of(service.coordinator.state.jobs[held[1]])
    assert look.shares().of_one(shape) * 3 == pytest.approx(look.shares().of_one(other))


def test_an_operator_may_have_nobody_cordoned_and_nothing_grow_urgent() -> None:
    service = a_service()
    service.exchanges.adjust(Settings(aging_ms=0, cordon_after=0))
    bad, good = arrive(service, "bad"), arrive(service, "good")
    state, clock = service.coordinator.state, service.clock
    assert isinstance(clock, ManualClock)
    for _ in range(12):
        job = submit(service, 2, retries=1)
        for worker, does in ((bad, failed), (good, done)):
            mine = [entry for entry in given(worker) if entry[0] == job]
            for _, index, lease in mine:
                kind = "failed" if worker is bad else "done"
                worker.say(**{kind: does(job, index, lease)})
                service.settle()
                worker.say()
                service.settle()
    assert not state.cordoned
    clock.advance(10**9)
    look = service.exchanges.placement.outlook(())
    assert all(look.rank_of(row) == row.priority for row in look.rows)


# --- rounds that are cut ------------------------------------------------------------------------


def a_cut_service(most_picks: int) -> Service:
    return Service(ManualClock(), SeededDice(1), term_ms=10_000, most_picks=most_picks)


def test_what_one_round_may_not_give_out_the_next_does_at_once() -> None:
    service = a_cut_service(3)
    arrive(service, "v", slots=4)
    service.do(c.SubmitJob(spec=SPEC, items=(b"",) * 4))
    service.turn()
    assert len(service.coordinator.state.holders[("v", 1)].leases) == 3
    assert service.next_due() == service.clock.now()
    service.synced()
    service.turn()
    assert len(service.coordinator.state.holders[("v", 1)].leases) == 4
    assert service.next_due() > service.clock.now()


def test_an_idle_worker_hears_of_all_parts_of_a_round_in_one_answer() -> None:
    service = a_cut_service(2)
    posts = [arrive(service, name, slots=4) for name in ("v", "w")]
    before = [len(post.replies) for post in posts]
    submit(service, 9)
    for post, number in zip(posts, before, strict=True):
        (reply,) = post.replies[number:]
        assert len(reply.runs) == 4


def test_whoever_reported_something_is_answered_within_a_cut_round() -> None:
    service = a_cut_service(1)
    worker = arrive(service, "v", slots=3)
    job_id = submit(service, 1)
    ((_, index, lease),) = given(worker)
    service.do(c.SubmitJob(spec=SPEC, items=(b"",) * 3))
    worker.say(slots=3, done=done(job_id, index, lease))
    before = len(worker.replies)
    service.turn()
    service.synced()
    (reply,) = worker.replies[before:]
    assert len(reply.runs) == 1
    assert service.next_due() == service.clock.now()


def test_what_nobody_listened_for_between_two_parts_is_told_with_the_next_answer() -> None:
    service = a_cut_service(1)
    worker = arrive(service, "v", slots=2)
    worker.say(slots=2)
    service.settle()
    service.do(c.SubmitJob(spec=SPEC, items=(b"",) * 2))
    service.turn()
    service.synced()
    parked = service.exchanges.workers[worker.name]
    assert len(parked.runs) == 1
    parked.send = None
    worker.say(slots=2, seen=worker.number - 1)
    service.settle()
    assert len(given(worker)) == 2
    assert len({lease for _, _, lease in given(worker)}) == 2
    assert "AttemptsReleased" not in {
        type(event).__name__ for record in service.records() for event in record.events
    }


def test_the_parts_of_a_long_round_are_told_before_its_end() -> None:
    service = a_cut_service(1)
    posts = [arrive(service, f"w{number}") for number in range(MOST_PARTS + 1)]
    before = sum(len(post.replies) for post in posts)
    service.do(c.SubmitJob(spec=SPEC, items=(b"",) * len(posts)))
    for _ in range(MOST_PARTS):
        assert sum(len(post.replies) for post in posts) == before
        service.turn()
        service.synced()
    assert sum(len(post.replies) for post in posts) == before + MOST_PARTS


def test_whoever_was_given_something_hears_of_it_although_the_rest_was_taken_away() -> None:
    service = a_cut_service(1)
    worker = arrive(service, "v", slots=2)
    service.do(c.SubmitJob(spec=SPEC, items=(b"",)))
    taken = service.do(c.SubmitJob(spec=SPEC, items=(b"",)))
    assert isinstance(taken, Accepted)
    service.turn()
    service.synced()
    assert given(worker) == []
    service.do(c.KillJob(job_id=JobId(str(taken.answer))))
    # Somebody looks at what waits: whoever has nothing left leaves the line.
    state = service.coordinator.state
    assert state.ready.rows(state.jobs, service.clock.now()) == []
    assert not state.ready.queues
    service.settle()
    assert len(given(worker)) == 1


def test_what_is_foreseen_is_never_cut() -> None:
    service = a_cut_service(1)
    arrive(service, "v", slots=3)
    job_id = submit(service, 1)
    crew = LiveCrew(service.coordinator.state, service.exchanges)
    service.do(c.SubmitJob(spec=SPEC, items=(b"",) * 2))
    placed = Foresight(crew.outlook()).placed
    assert job_id not in placed
    assert [len(indices) for indices in placed.values()] == [2]
