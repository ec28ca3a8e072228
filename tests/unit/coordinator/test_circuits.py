"""Circuits in a coordinator: what is open is given to nobody, what is half-open to one."""

import msgspec
import pytest

from holdfast.coordinator.circuits import circuit_views
from holdfast.coordinator.crews import LiveCrew
from holdfast.coordinator.surroundings import Surroundings
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.circuit import CircuitState
from holdfast.core.decision import Accepted
from holdfast.core.ids import Index, JobId
from holdfast.core.placing import Placing
from holdfast.core.spec import CircuitPolicy, JobSpec, RetryBudget, RetryPolicy
from holdfast.scheduler.explain import explain
from holdfast.scheduler.reasons import Reason
from holdfast.testing.clock import ManualClock
from holdfast.testing.owing import (
    COURIER,
    RUNNER,
    Runner,
    a_service,
    came,
    debt,
    effect,
    names,
    pass_time,
    say,
)
from holdfast.testing.post import Post
from holdfast.testing.service import Service
from holdfast.wire.delivery import Bounced
from holdfast.wire.exchange import Done, Failed, Item, Released
from holdfast.wire.sinks import FileSink

COOLDOWN_MS = 60_000
SPEC = JobSpec(
    name="work", kind="function", target="m:f", retries=100,
    retry=RetryPolicy(kind="none"), circuit=CircuitPolicy(2, COOLDOWN_MS),
)  # fmt: skip


def submit(service: Service, count: int, spec: JobSpec = SPEC) -> JobId:
    decision = service.do(c.SubmitJob(spec=spec, count=count))
    assert isinstance(decision, Accepted)
    service.settle()
    return JobId(str(decision.answer))


def given(post: Post, before: int) -> list[tuple[JobId, Item]]:
    runs = [run for reply in post.replies[before:] for run in reply.runs]
    return [(run.job_id, item) for run in runs for item in run.items]


def offer(post: Post, slots: int, **said: object) -> list[tuple[JobId, Item]]:
    """Say it with so many slots, and see what comes at once."""
    before = len(post.replies)
    post.say(slots=slots, hello=RUNNER, **said)  # type: ignore[arg-type]
    post.service.settle()
    return given(post, before)


def wait(post: Post, ms: int, slots: int = 2) -> list[tuple[JobId, Item]]:
    """What comes while so much time passes, to one who keeps asking and begins nothing."""
    before, clock = len(post.replies), post.service.clock
    assert isinstance(clock, ManualClock)
    for _ in range(0, ms, 1_000):
        clock.advance(1_000)
        held = tuple(item.lease_id for _, item in given(post, before))
        offer(post, slots, held=held)
    return given(post, before)


def failures(*held: tuple[JobId, Item]) -> tuple[Failed, ...]:
    return tuple(
        Failed(job, item.index, item.lease_id, 1, "failed", "boom", "", None) for job, item in held
    )


def circuit_state(service: Service, kind: str = "function", name: str = "m:f") -> str:
    known = service.coordinator.state.circuits.get((kind, name))
    return "CLOSED" if known is None else known.state.value


def why(service: Service, job_id: JobId, index: int = 0) -> list[Reason]:
    crew = LiveCrew(service.coordinator.state, service.exchanges)
    clock = service.clock
    here = Surroundings(service.coordinator.state, clock.now(), clock.wall(), crew)
    situation = here.situation(service.coordinator.state.jobs[job_id], Index(index))
    return list(explain(situation))


def an_open_one() -> tuple[Service, Post, JobId]:
    """Two of four slots failed, and the circuit is open."""
    service = a_service()
    job_id = submit(service, 8)
    post = Post(service)
    held = offer(post, 2)
    assert len(held) == 2
    assert offer(post, 2, failed=failures(*held)) == []
    assert circuit_state(service) == "OPEN"
    return service, post, job_id


def test_an_open_function_is_given_to_nobody_and_others_are() -> None:
    service, post, _ = an_open_one()
    other = submit(service, 1, msgspec.structs.replace(SPEC, target="m:other"))
    assert [job for job, _ in offer(post, 2)] == [other]
    assert service.troubles == []


def test_it_half_opens_by_itself_and_is_tried_with_one_whoever_asks() -> None:
    service, post, _ = an_open_one()
    assert wait(post, COOLDOWN_MS - 1_000) == []
    second = Post(service, name="second")
    assert offer(second, 4) == []
    tried = wait(post, 3_000) + given(second, 0)
    assert len(tried) == 1
    assert circuit_state(service) == "HALF_OPEN"
    assert service.troubles == []


def test_a_trial_that_goes_well_lets_everything_start() -> None:
    service, post, _ = an_open_one()
    ((job, item),) = wait(post, COOLDOWN_MS)
    done = Done(job, item.index, item.lease_id, 1, b"")
    assert len(offer(post, 2, done=(done,))) >= 2
    assert circuit_state(service) == "CLOSED"
    assert service.troubles == []


def test_a_trial_that_fails_waits_for_twice_as_long() -> None:
    service, post, _ = an_open_one()
    tried = wait(post, COOLDOWN_MS)
    assert len(tried) == 1
    assert offer(post, 2, failed=failures(*tried)) == []
    assert wait(post, 2 * COOLDOWN_MS - 1_000) == []
    assert circuit_state(service) == "OPEN"
    assert len(wait(post, 1_000)) == 1
    assert circuit_state(service) == "HALF_OPEN"


def test_what_had_not_begun_is_asked_back_when_it_opens() -> None:
    service = a_service()
    quick = msgspec.structs.replace(SPEC, circuit=CircuitPolicy(1, COOLDOWN_MS))
    job_id = submit(service, 4, quick)
    post = Post(service)
    held = offer(post, 4)
    assert len(held) == 4
    first, *rest = held
    leases = tuple(item.lease_id for _, item in rest)
    offer(post, 4, failed=failures(first), held=leases)
    recalled = [lease for reply in post.replies for lease in reply.recalls]
    assert sorted(recalled) == sorted(leases)
    back = tuple(Released(job_id, item.index, item.lease_id, False) for _, item in rest)
    assert offer(post, 4, released=back) == []
    # They are asked back once, however often somebody looks.
    service.settle()
    assert len([x for reply in post.replies for x in reply.recalls]) == 3
    assert service.troubles == []


def test_a_gang_can_be_what_tries_it() -> None:
    service, post, job_id = an_open_one()
    service.do(c.KillJob(job_id=job_id, cause="cancelled"))
    gang = submit(service, 2, msgspec.structs.replace(SPEC, placing=Placing(gang=True)))
    assert [job for job, _ in wait(post, COOLDOWN_MS)] == [gang, gang]
    assert service.troubles == []


def test_explain_says_when_it_half_opens_and_what_to_type() -> None:
    service, post, job_id = an_open_one()
    wait(post, 10_000)
    (reason,) = [r for r in why(service, job_id, 5) if r.code == "circuit_open"]
    assert reason.sentence.startswith(
        "Circuit function/m:f is open and half-opens in 50.0s, after 2 failures in a row: task "
    )
    assert reason.command == "holdfast circuit close function/m:f"
    assert reason.until == service.clock.wall() + 50_000
    wait(post, 50_000)
    told = " ".join(r.sentence for r in why(service, job_id, 7))
    assert "is half-open: it is tried with one task at a time, at last" in told


def test_explain_tells_of_what_a_person_opened() -> None:
    service = a_service()
    job_id = submit(service, 1)
    service.do(c.OpenCircuit(kind="function", name="m:f", reason="moving house"))
    (reason,) = [r for r in why(service, job_id) if r.code == "circuit_open"]
    said = "Circuit function/m:f is open until somebody closes it: opened by hand: moving house."
    assert (reason.sentence, reason.until) == (said, 0)
    offered = offer(Post(service), 1)
    assert offered == []
    service.do(c.CloseCircuit(kind="function", name="m:f"))
    service.settle()
    assert [r.code for r in why(service, job_id)] == ["held"]


def test_explain_tells_a_retry_that_waits_for_the_budget_from_a_mere_pause() -> None:
    service = a_service()
    spec = msgspec.structs.replace(
        SPEC, circuit=CircuitPolicy(), retry_budget=RetryBudget(1, 600_000)
    )
    job_id = submit(service, 2, spec)
    post = Post(service)
    held = offer(post, 2)
    offer(post, 0, failed=failures(*held))
    (reason,) = [r for r in why(service, job_id, 1) if r.code == "retry_budget"]
    assert reason.sentence == (
        "Its job retries at most 1 times in 10m 0s, and the budget has room for it in 10m 0s."
    )
    assert reason.command == f"holdfast task reschedule {job_id}/1 --now"
    assert "retry_budget" not in {r.code for r in why(service, job_id, 0)}


def test_views_tell_what_is_held_against_whom() -> None:
    service, _, job_id = an_open_one()
    (view,) = circuit_views(service.coordinator.state, lambda at: at)
    assert view["id"] == "function/m:f"
    assert (view["state"], view["failures"], view["cooldown_ms"]) == ("OPEN", 2, COOLDOWN_MS)
    assert view["cause"] == f"task {job_id}/1 failed: boom"
    assert view["until"] is not None
    assert view["probe"] is None


# --- sinks ----------------------------------------------------------------------------------------

SINKS = {"ledger": FileSink(path="/ledger", tries=50, first_wait="1ms", circuit="2/30s")}


def a_sink() -> tuple[Service, Post, JobId]:
    """Four entries are owed to a sink of which two bounced in a row."""
    service = a_service()
    service.sinks = dict(SINKS)
    service.crash()
    job_id = Runner(service).commit((effect(),) * 4)
    courier = Post(service, name="courier")
    assert names(say(courier, hello=COURIER)) == ["0.0", "0.1", "0.2", "0.3"]
    bounced = tuple(Bounced(debt(job_id, 0, number), "no answer") for number in range(2))
    carried = tuple(debt(job_id, 0, number) for number in (2, 3))
    say(courier, bounced=bounced, carrying=carried)
    assert circuit_state(service, "sink", "ledger") == "OPEN"
    back = tuple(Bounced(name, "not begun", is_untried=True) for name in carried)
    say(courier, bounced=back)
    return service, courier, job_id


def wait_for(post: Post, ms: int) -> list[str]:
    """What is dealt out while so much time passes, to one who waits."""
    before = len(came(post))
    clock = post.service.clock
    assert isinstance(clock, ManualClock)
    for _ in range(0, ms, 1_000):
        clock.advance(1_000)
        say(post)
    return came(post)[before:]


def test_an_open_sink_is_given_nothing_and_a_half_open_one_a_single_entry() -> None:
    service, courier, job_id = a_sink()
    assert wait_for(courier, 29_000) == []
    owing = service.coordinator.state.debts.find(debt(job_id, 0, 2))
    assert owing is not None
    why_not = service.exchanges.deliveries.standings()(owing).why
    assert why_not.startswith("circuit sink/ledger is open: effect ")
    (dealt,) = wait_for(courier, 1_000)
    name = debt(job_id, 0, int(dealt[2]))
    say(courier, carrying=(name,))
    assert wait_for_carrying(courier, name) == []
    assert sorted([dealt, *names(say(courier, delivered=(name,)))]) == ["0.0", "0.1", "0.2", "0.3"]
    assert circuit_state(service, "sink", "ledger") == "CLOSED"
    assert service.troubles == []


def wait_for_carrying(post: Post, name: object) -> list[str]:
    before = len(came(post))
    for _ in range(5):
        post.service.clock.advance(1_000)  # type: ignore[attr-defined]
        say(post, carrying=(name,))
    return came(post)[before:]


def test_a_sink_that_fails_its_trial_waits_for_twice_as_long() -> None:
    service, courier, job_id = a_sink()
    (dealt,) = wait_for(courier, 30_000)
    say(courier, bounced=(Bounced(debt(job_id, 0, int(dealt[2])), "no answer"),))
    assert wait_for(courier, 59_000) == []
    assert len(wait_for(courier, 1_000)) == 1
    assert service.troubles == []


def test_a_sink_without_a_circuit_is_tried_again_and_again() -> None:
    service = a_service()
    service.sinks = {"ledger": FileSink(path="/l", tries=50, first_wait="1ms", circuit="")}
    service.crash()
    job_id = Runner(service).commit((effect(),))
    courier = Post(service, name="courier")
    say(courier, hello=COURIER)
    for _ in range(10):
        say(courier, bounced=(Bounced(debt(job_id), "no answer"),))
        wait_for(courier, 1_000)
    assert came(courier) == ["0.0"] * 11
    assert service.coordinator.state.circuits == {}


# --- crashes --------------------------------------------------------------------------------------


def play(crash_at: int, *, by_snapshot: bool = False) -> Service:
    """A function that fails until the fifth minute, with a crash after one record."""
    service = a_service()
    job_id = submit(service, 6)
    clock = service.clock
    assert isinstance(clock, ManualClock)
    works_at, crashed, incarnation = clock.now() + 300_000, False, 1
    post = Post(service)
    read = 0
    for _ in range(4_000):
        state = service.coordinator.state
        if state.jobs[job_id].unfinished == 0:
            break
        if not crashed and state.position >= crash_at:
            crashed, incarnation, read = True, incarnation + 1, 0
            service.crash(by_snapshot=by_snapshot)
            post = Post(service, incarnation=incarnation)
        held = [pair for reply in post.replies[read:] for run in reply.runs
                for pair in ((run.job_id, item) for item in run.items)]  # fmt: skip
        read = len(post.replies)
        works = clock.now() >= works_at
        post.say(
            slots=2, hello=RUNNER,
            done=tuple(Done(j, i.index, i.lease_id, 1, b"") for j, i in held) if works else (),
            failed=() if works else failures(*held),
        )  # fmt: skip
        service.settle()
        service.check()
        pass_time(service, 1_000)
    assert service.coordinator.state.jobs[job_id].unfinished == 0
    assert service.troubles == []
    return service


def failed(service: Service) -> int:
    """How often the function was tried in vain."""
    returned = [
        x for r in service.records() for x in r.events if isinstance(x, e.AttemptsReturned)
    ]
    return sum(end.charged == "failures" for x in returned for end in x.ends)


def strike(step: int, *, by_snapshot: bool) -> None:
    calm = play(10**9)
    most = failed(calm)
    last = calm.coordinator.state.position
    assert calm.coordinator.state.circuits == {}
    for at in range(2, last, step):
        struck = play(at, by_snapshot=by_snapshot)
        kinds = [type(x) for r in struck.records() for x in r.events]
        assert kinds.count(e.CircuitClosed) == 1
        assert failed(struck) <= most
        assert circuit_state(struck) == CircuitState.CLOSED


@pytest.mark.parametrize("by_snapshot", [False, True])
def test_a_crash_after_some_records_neither_loses_nor_doubles_a_circuit(by_snapshot: bool) -> None:
    strike(9, by_snapshot=by_snapshot)


@pytest.mark.slow
@pytest.mark.parametrize("by_snapshot", [False, True])
def test_a_crash_after_every_record_neither_loses_nor_doubles_a_circuit(by_snapshot: bool) -> None:
    strike(1, by_snapshot=by_snapshot)
