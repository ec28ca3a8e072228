"""FM-003, the retry storm: a service goes down, and everything that needs it comes again at once.

The same story is told without a guard and with one, through the real coordinator, in virtual time:
forty tasks call a service that is down for ten minutes.
"""

from bisect import bisect_left

import msgspec
from msgspec import Struct

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decision import Accepted
from holdfast.core.ids import JobId
from holdfast.core.job import JobState, job_state
from holdfast.core.owed import EFFECT, Entry
from holdfast.core.spec import CircuitPolicy, JobSpec, RetryBudget, RetryPolicy
from holdfast.testing.clock import ManualClock, SeededDice
from holdfast.testing.owing import COURIER, RUNNER, Runner, pass_time
from holdfast.testing.post import Post
from holdfast.testing.service import Service
from holdfast.wire.delivery import Bounced
from holdfast.wire.exchange import Done, Failed
from holdfast.wire.sinks import FileSink

MINUTE_MS = 60_000
DOWN_MS = 10 * MINUTE_MS
TASKS = 40
SLOTS = 20
PLAIN = JobSpec(
    name="call", kind="function", target="shop:call", retries=10_000,
    retry=RetryPolicy(kind="fixed", delay_ms=1_000, jitter=0.0),
)  # fmt: skip


class Outage(Struct):
    """What the service saw: when it was called while it was down, and how the job ended."""

    calls: list[int]
    state: JobState
    closed: int
    troubles: list[str]

    def most_in(self, span_ms: int) -> int:
        """The most calls within any such span."""
        calls = self.calls
        return max(bisect_left(calls, at + span_ms) - n for n, at in enumerate(calls))


def outage(spec: JobSpec) -> Outage:
    """Run the job on workers that call a service which is down for ten minutes."""
    clock = ManualClock()
    service = Service(clock, SeededDice(3), term_ms=10_000)
    decision = service.do(c.SubmitJob(spec=spec, count=TASKS))
    assert isinstance(decision, Accepted)
    job_id = JobId(str(decision.answer))
    post = Post(service)
    up_at, read, calls = clock.now() + DOWN_MS, 0, list[int]()
    for _ in range(3_600):
        if service.coordinator.state.jobs[job_id].unfinished == 0:
            break
        runs = [run for reply in post.replies[read:] for run in reply.runs]
        read = len(post.replies)
        held = [(run.job_id, item) for run in runs for item in run.items]
        is_up = clock.now() >= up_at
        calls += [] if is_up else [clock.now()] * len(held)
        post.say(
            slots=SLOTS, hello=RUNNER,
            done=tuple(Done(j, i.index, i.lease_id, 1, b"") for j, i in held if is_up),
            failed=tuple(
                Failed(j, i.index, i.lease_id, 1, "failed", "refused", "", None)
                for j, i in held
                if not is_up
            ),
        )  # fmt: skip
        service.settle()
        pass_time(service, 1_000)
    service.check()
    closed = [x for r in service.records() for x in r.events if isinstance(x, e.CircuitClosed)]
    state = job_state(service.coordinator.state.jobs[job_id])
    return Outage(calls, state, len(closed), service.troubles)


def test_fm_003_without_a_guard_retries_storm_the_service_all_the_time() -> None:
    seen = outage(PLAIN)
    # Backoff alone does not help: the more tasks, the more calls, every second of the outage.
    assert len(seen.calls) > 5_000
    assert seen.most_in(MINUTE_MS) > 500
    assert seen.state is JobState.SUCCEEDED
    assert seen.troubles == []


def test_fm_003_with_a_circuit_a_service_that_is_down_is_asked_once_in_a_while() -> None:
    seen = outage(msgspec.structs.replace(PLAIN, circuit=CircuitPolicy(5, MINUTE_MS)))
    # Those that were under way when it opened, then one trial after one, two and four minutes.
    assert len(seen.calls) <= SLOTS + 4
    assert seen.calls[-1] > seen.calls[0] + 5 * MINUTE_MS
    assert sum(at > seen.calls[0] + 1_000 for at in seen.calls) <= 4
    assert (seen.closed, seen.state) == (1, JobState.SUCCEEDED)
    assert seen.troubles == []


def test_fm_003_with_a_retry_budget_no_minute_has_more_retries_and_nothing_is_lost() -> None:
    seen = outage(msgspec.structs.replace(PLAIN, retry_budget=RetryBudget(10, MINUTE_MS)))
    retries = Outage(seen.calls[TASKS:], seen.state, 0, [])
    # What the budget lets come due waits a moment for its turn, so two spans may touch.
    assert retries.most_in(MINUTE_MS - 2_000) <= 10
    assert len(seen.calls) <= TASKS + 10 * (DOWN_MS // MINUTE_MS + 1)
    assert seen.state is JobState.SUCCEEDED
    assert seen.troubles == []


def deliveries(circuit: str) -> tuple[int, int]:
    """How often a sink that is down for ten minutes is tried with a hundred entries, and how many
    of them are owed when it has been up for a while."""
    clock = ManualClock()
    sink = FileSink(path="/ledger", tries=10_000, first_wait="1s", longest_wait="2s",
                    circuit=circuit)  # fmt: skip
    service = Service(clock, SeededDice(3), term_ms=10_000, sinks={"ledger": sink})
    Runner(service).commit((Entry(EFFECT, "ledger", "", b"x"),) * 100)
    courier, read, tried = Post(service, name="courier"), 0, 0
    up_at = clock.now() + DOWN_MS
    courier.say(slots=0, hello=COURIER)
    service.settle()
    for _ in range(1_300):
        parcels = [p for reply in courier.replies[read:] for p in reply.parcels]
        read = len(courier.replies)
        named = [d.name for p in parcels for d in p.deliveries]
        is_up = clock.now() >= up_at
        tried += 0 if is_up else len(named)
        bounced = () if is_up else tuple(Bounced(name, "refused") for name in named)
        courier.say(slots=0, delivered=tuple(named) if is_up else (), bounced=bounced)
        service.settle()
        clock.advance(1_000)
        service.settle()
    assert service.troubles == []
    return tried, len(service.coordinator.state.debts)


def test_fm_003_without_a_circuit_a_sink_that_is_down_is_stormed() -> None:
    tried, owed = deliveries("")
    assert tried > 10_000
    assert owed == 0


def test_fm_003_with_a_circuit_a_sink_that_is_down_is_left_in_peace() -> None:
    tried, owed = deliveries("5/30s")
    # The hundred that were in hand, then one entry after every cooldown.
    assert tried <= 100 + 6
    assert owed == 0
