"""What a worker was given counts against it until it says that it runs it no more."""

from typing import Any

import pytest

from holdfast.core import commands as c
from holdfast.core.decision import Accepted
from holdfast.core.ids import Index, JobId, LeaseId
from holdfast.core.job import is_finished
from holdfast.core.placing import Constraint, Placing
from holdfast.core.shape import spec_shape
from holdfast.core.spec import JobSpec
from holdfast.scheduler.claims import claim
from holdfast.scheduler.seats import Asker, Claim
from holdfast.testing.clock import ManualClock, SeededDice
from holdfast.testing.post import Post
from holdfast.testing.service import Service
from holdfast.wire.exchange import Done, Failed, Hello, Lingering, Released, Run

TERM_MS = 10_000
MEMORY = 1 << 30
HALF = MEMORY // 2
HELLO = Hello("host", 1, "1")
MOST = HALF + 1
"""More than half of what a worker here has: two of those do not fit."""


class Pair(Post):
    """A worker of two slots."""

    def say(self, **said: Any) -> None:
        super().say(**{"slots": 2, **said})


def a_service() -> Service:
    return Service(ManualClock(), SeededDice(1), term_ms=TERM_MS)


def submit(service: Service, count: int = 1, **wants: Any) -> JobId:
    spec = JobSpec(name="work", kind="function", target="work", **wants)
    items = tuple(b"%d" % n for n in range(count))
    decision = service.do(c.SubmitJob(spec=spec, items=items))
    assert isinstance(decision, Accepted)
    service.settle()
    return JobId(str(decision.answer))


def leases_of(runs: tuple[Run, ...]) -> tuple[int, ...]:
    return tuple(item.lease_id for run in runs for item in run.items)


def given_to(worker: Pair) -> tuple[int, ...]:
    """All leases it was ever given."""
    return tuple(lease for reply in worker.replies for lease in leases_of(reply.runs))


def given(worker: Pair, **said: Any) -> tuple[int, ...]:
    """What it is given for saying so, if anything."""
    before = len(given_to(worker))
    worker.say(**said)
    worker.service.settle()
    return given_to(worker)[before:]


def pass_time(service: Service, ms: int) -> None:
    """Time goes by while the coordinator is at work: it takes its turns, so it was not away."""
    clock = service.clock
    assert isinstance(clock, ManualClock)
    while ms > 0:
        step = min(ms, TERM_MS // 8)
        clock.advance(step)
        service.coordinator.excuse_absence()
        ms -= step


def kill(service: Service, job_id: JobId) -> None:
    service.do(c.KillJob(job_id=job_id))


def lingering(lease: int, slot: int = 0, memory: int = MOST) -> tuple[Lingering, ...]:
    return (Lingering(LeaseId(lease), slot, 1_000, memory, 0),)


def test_what_was_cancelled_keeps_its_memory_until_the_worker_names_it_no_more() -> None:
    service = a_service()
    first = submit(service, memory_bytes=MOST)
    worker = Pair(service)
    assert given(worker) == (1,)
    worker.say(held=(1,))
    kill(service, first)
    submit(service, memory_bytes=MOST)
    assert [stop.lease_id for stop in worker.replies[-1].stops] == [1]
    assert given(worker, lingering=lingering(1)) == ()
    assert given(worker) == (2,)


def test_what_is_on_its_way_to_a_worker_counts_although_it_was_cancelled() -> None:
    service = a_service()
    first = submit(service, memory_bytes=MOST)
    worker = Pair(service)
    given(worker)
    kill(service, first)
    submit(service, memory_bytes=MOST)
    # It overtook the answer with the first task in it, and will still run that.
    assert given(worker, seen=0) == ()
    assert given(worker, seen=2) == (2,)


def test_whoever_may_have_to_let_go_of_something_is_answered_so_that_it_can_say_so() -> None:
    """Its slots are kept for what may be on its way, and it waits for an answer: somebody must
    speak first."""
    service = a_service()
    first = submit(service, 2)
    lost = Pair(service)
    given(lost)
    service.crash()
    hello = Hello("here", 1, "test")
    worker = Pair(service)
    worker.say(hello=hello)
    service.settle()
    kill(service, first)
    submit(service)
    assert [(reply.number, reply.runs) for reply in worker.replies] == [(1, ())]
    assert given(worker) == (3,)


def test_what_lost_its_lease_by_time_keeps_its_place_while_it_is_held() -> None:
    service = a_service()
    submit(service, memory_bytes=MOST)
    frozen, other = Pair(service), Pair(service, name="other")
    given(frozen)
    frozen.say(held=(1,))
    service.settle()
    pass_time(service, TERM_MS)
    submit(service, 2, memory_bytes=MOST)
    assert given_to(frozen) == (1,)
    # Somebody else has room for what it lost.
    assert len(given(other)) == 1


def test_a_timeout_that_was_reported_frees_nothing_while_the_body_runs() -> None:
    service = a_service()
    job_id = submit(service, memory_bytes=MOST, retries=0)
    worker = Pair(service)
    given(worker)
    late = Failed(job_id, Index(0), LeaseId(1), 5, "timed_out", "too long", "", None)
    worker.say(occupied=1, failed=(late,), lingering=lingering(1))
    service.settle()
    small, large = submit(service, memory_bytes=HALF - 1), submit(service, memory_bytes=MOST)
    runs = [run for reply in worker.replies for run in reply.runs]
    assert [run.job_id for run in runs[1:]] == []
    worker.say(occupied=1, lingering=lingering(1))
    service.settle()
    runs = worker.replies[-1].runs
    assert [(run.job_id, run.slot) for run in runs] == [(small, 1)]
    done = Done(small, Index(0), LeaseId(2), 1, b"")
    assert [run.job_id for run in worker.hear(done=(done,)).runs] == [large]


def test_a_slot_that_somebody_lingers_in_is_not_given_away_and_the_others_are() -> None:
    service = a_service()
    submit(service, 2)
    worker = Pair(service)
    told = lingering(77, slot=0, memory=0)
    reply = worker.hear(occupied=1, lingering=told)
    assert [(run.slot, leases_of((run,))) for run in reply.runs] == [(1, (1,))]


def test_a_lease_nobody_remembers_keeps_the_worker_closed_until_it_says_what_it_takes() -> None:
    service = a_service()
    first = submit(service, memory_bytes=MOST)
    worker = Pair(service)
    given(worker)
    worker.say(held=(1,))
    service.settle()
    kill(service, first)
    service.settle()
    service.crash()
    submit(service, memory_bytes=MOST)
    reply = worker.hear(held=(1,))
    assert ([stop.lease_id for stop in reply.stops], reply.runs) == ([1], ())
    assert given(worker, lingering=lingering(1)) == ()
    assert given(worker) == (2,)


def test_what_is_recorded_counts_against_a_limit_beside_what_nobody_remembers() -> None:
    service = a_service()
    keys = Placing(keys=(("tape", 1),))
    first, second = submit(service), submit(service, placing=keys)
    worker = Pair(service)
    assert given(worker) == (1, 2)
    worker.say(held=(1, 2))
    service.settle()
    kill(service, first)
    service.settle()
    service.crash()
    assert is_finished(service.coordinator.state.jobs[first])
    assert not is_finished(service.coordinator.state.jobs[second])
    submit(service, placing=keys)
    # It clings to a lease that nobody remembers, and holds the key beside it.
    worker.say(held=(1, 2))
    assert given(Pair(service, name="other")) == ()


def test_who_has_not_said_who_it_is_is_given_nothing_that_asks_what_it_is_like() -> None:
    service = a_service()
    elsewhere = Placing(constraints=(Constraint("rack", "ne", ("a",)),))
    submit(service, placing=elsewhere)
    worker = Pair(service)
    assert given(worker) == ()
    in_rack_a = Hello("host", 1, "test", attributes=(("rack", "a"),))
    assert given(worker, hello=in_rack_a) == ()
    other = Pair(service, name="other")
    assert given(other, hello=Hello("host", 2, "test", attributes=(("rack", "b"),))) == (1,)


def test_after_a_restart_what_a_worker_holds_is_known_by_its_leases() -> None:
    service = a_service()
    first = submit(service, memory_bytes=MOST)
    worker = Pair(service)
    given(worker)
    service.crash()
    for _ in range(2):
        # The first time it is asked who it is.
        assert given(worker, held=(1,)) == ()
    kill(service, first)
    submit(service, memory_bytes=MOST)
    assert [stop.lease_id for stop in worker.replies[-1].stops] == [1]
    assert given_to(worker) == (1,)


def test_a_later_incarnation_owes_nothing_for_what_its_former_self_ran() -> None:
    service = a_service()
    submit(service, memory_bytes=MOST)
    worker = Pair(service)
    given(worker)
    worker.say(held=(1,), lingering=lingering(1))
    service.settle()
    pass_time(service, TERM_MS)
    service.exchanges.workers[worker.name].send = None
    again = Pair(service, incarnation=2)
    assert given(again) == (2,)


def test_a_bound_on_how_many_run_at_once_counts_those_that_still_run() -> None:
    service = a_service()
    job_id = submit(service, 3, max_parallel=1)
    worker = Pair(service)
    assert given(worker, slots=3) == (1,)
    worker.say(slots=3, held=(1,))
    service.do(c.KillTasks(job_id=job_id, indices=(Index(0),)))
    service.settle()
    assert given(worker, slots=3, lingering=lingering(1, memory=0)) == ()
    assert given(worker, slots=3) == (2,)


def test_a_bound_on_how_many_run_at_once_holds_over_all_workers() -> None:
    service = a_service()
    submit(service, 3, max_parallel=1)
    first, second = Pair(service, name="first"), Pair(service, name="second")
    assert given(first) == (1,)
    # The first one is at work and has not come back: it is no seat to place on, and still counts.
    assert given(second) == ()
    service.crash()
    assert given(second) == ()
    assert given(second) == ()


def test_whoever_still_runs_something_is_no_reason_to_ask_others_for_work() -> None:
    service = a_service()
    job_id = submit(service, 9)
    busy, lame = Pair(service, name="busy"), Pair(service, name="lame")
    busy.hear()
    done = Done(job_id, Index(0), LeaseId(1), 5, b"")
    held = given(busy, done=(done,))
    busy.say(held=held)
    lame.say(lingering=lingering(77, memory=0))
    service.settle()
    assert busy.replies[-1].recalls == ()


@pytest.mark.parametrize("left", [1, 2])
def test_a_slot_that_may_help_another_out_keeps_what_it_takes_while_anything_waits(
    left: int,
) -> None:
    """A lane that is through runs what waits in another of the same job; nobody is told."""
    service = a_service()
    job_id = submit(service, 2)
    worker = Pair(service)
    given(worker)
    quick = tuple(Done(job_id, Index(n), LeaseId(n + 1), 1, b"") for n in range(2))
    given(worker, done=quick)
    given(worker)
    submit(service, 8)
    runs = worker.replies[-1].runs
    assert sorted(run.slot for run in runs) == [0, 1]
    (home,) = [run for run in runs if run.slot == 0]
    (helper,) = [run for run in runs if run.slot == 1]
    over = [*((home, item) for item in home.items[left:]), *((helper, i) for i in helper.items)]
    reports = tuple(Done(run.job_id, item.index, item.lease_id, 1, b"") for run, item in over)
    kept = tuple(item.lease_id for item in home.items[:left])
    worker.hear(held=kept, done=reports)
    submit(service, cpus_milli=500)
    worker.say(held=kept)
    service.settle()
    seat = service.exchanges.workers[worker.name].seat(service.coordinator.state)
    free = sum(slot.shape is None for slot in seat.slots)
    assert (seat.free.cpus_milli, free) == ((0, 0) if left == 2 else (500, 0))


def test_what_is_remembered_of_leases_stays_small() -> None:
    service = a_service()
    job_id = submit(service, 2_000)
    worker = Pair(service)
    runs = worker.hear().runs
    seat = service.exchanges.workers[worker.name]
    most = 0
    while runs:
        reports = tuple(
            Done(job_id, item.index, item.lease_id, 1, b"") for run in runs for item in run.items
        )
        runs = worker.hear(done=reports).runs
        most = max(most, len(seat.granted))
    assert len(given_to(worker)) == 2_000
    assert most < 1_000


def test_a_release_frees_what_it_names_at_once() -> None:
    service = a_service()
    job_id = submit(service, memory_bytes=MOST)
    worker = Pair(service)
    given(worker)
    back = Released(job_id, Index(0), LeaseId(1), False)
    assert given(worker, released=(back,)) == (2,)


# --- seats that rounds go on with ---------------------------------------------------------------


def test_a_seat_is_kept_while_nothing_changes_and_made_anew_when_leases_come_and_go() -> None:
    service = a_service()
    submit(service, 1)
    job_id = submit(service, 1)
    post = Post(service)
    leases = leases_of(post.hear(slots=3, hello=HELLO).runs)
    post.say(slots=3, held=leases)
    service.settle()
    state, worker = service.coordinator.state, service.exchanges.workers[post.name]
    seat = worker.kept_seat(state)
    assert worker.kept_seat(state) is seat
    assert [slot.load for slot in seat.slots] == [1, 1, 0]
    assert worker.is_clean(state)
    kill(service, job_id)
    assert worker.kept_seat(state) == worker.seat(state) != seat
    assert not worker.is_clean(state)


def test_what_a_plan_has_kept_or_given_out_of_a_seat_is_there_again_for_the_next() -> None:
    service = a_service()
    post = Post(service)
    post.say(slots=2, hello=HELLO)
    service.settle()
    state, worker = service.coordinator.state, service.exchanges.workers[post.name]
    shape = spec_shape(JobSpec(name="work", kind="function", target="work"))
    seat = worker.kept_seat(state)
    seat.claims.append(Claim(0, shape, 1, 0.0))
    claim(seat, shape, 2)
    assert seat != worker.seat(state)
    assert worker.kept_seat(state) is seat
    assert seat == worker.seat(state)
    seat.hold(Asker(shape, 0))
    assert worker.kept_seat(state) == worker.seat(state) != seat
