"""What the scheduler promises, shown one by one through the real coordinator and the agents of real
workers, in virtual time."""

from collections import Counter
from itertools import pairwise

import pytest

from holdfast.coordinator.settings import Settings
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decision import Reason, Refused
from holdfast.core.ids import Instant, JobId
from holdfast.core.job import JobState
from holdfast.core.placing import PACK, SPREAD
from holdfast.testing.yard import Hand, Yard

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE


def jain(values: list[float]) -> float:
    return sum(values) ** 2 / (len(values) * sum(value * value for value in values))


def held_ms(yard: Yard, until: int) -> Counter[str]:
    """For how long the slots were held, by namespace."""
    since: dict[tuple[str, int], tuple[int, str]] = {}
    held: Counter[str] = Counter()
    for at, event in yard.events():
        if isinstance(event, e.LeasesGranted):
            namespace = yard.state.jobs[event.job_id].spec.namespace
            since.update({(event.job_id, index): (at, namespace) for index in event.indices})
        elif isinstance(event, e.TasksCompleted):
            for commit in event.commits:
                began, namespace = since.pop((event.job_id, commit.index))
                held[namespace] += at - began
    for began, namespace in since.values():
        held[namespace] += until - began
    return held


@pytest.mark.slow
def test_five_namespaces_hold_the_same_whoever_came_first_and_asks_for_most() -> None:
    yard = Yard([Hand(slots=3), Hand(slots=2)], takes_ms=20 * SECOND)
    counts = {"a": 90, "b": 40, "c": 40, "d": 30, "e": 30}
    for namespace, count in counts.items():
        yard.submit(count, namespace=namespace)
        yard.run_for(25 * SECOND)
    start = yard.clock.now()
    before = held_ms(yard, start)
    yard.run_for(6 * MINUTE)
    held = held_ms(yard, yard.clock.now())
    assert jain([float(held[name] - before[name]) for name in counts]) >= 0.95
    assert sum((held - before).values()) >= 0.95 * 5 * 6 * MINUTE, "and nothing stood idle"


def test_weights_decide_what_each_holds() -> None:
    yard = Yard([Hand(slots=4), Hand(slots=3)], takes_ms=10 * SECOND)
    yard.do(c.SetLimit(scope="namespace", name="much", weight=6))
    for namespace in ("much", "little"):
        yard.submit(200, namespace=namespace)
    yard.run_for(4 * MINUTE)
    held = held_ms(yard, yard.clock.now())
    assert 5 < held["much"] / held["little"] < 7


@pytest.mark.parametrize(
    ("aging_ms", "begins"),
    [(MINUTE, True), pytest.param(0, False, marks=pytest.mark.slow)],
    ids=["ages", "not"],
)
def test_what_is_not_urgent_begins_in_its_time_because_it_waits(
    aging_ms: int, begins: bool
) -> None:
    yard = Yard([Hand(slots=2)], settings=Settings(aging_ms=aging_ms))
    yard.submit(900, priority=2)
    patient = yard.submit(1)
    since = yard.clock.now()
    yard.run_for(6 * MINUTE)
    grants = yard.grants(patient)
    assert bool(grants) == begins
    assert all(2 * MINUTE < one.at - since <= 4 * MINUTE for one in grants)


def test_what_is_large_is_not_starved_by_a_stream_of_what_is_small() -> None:
    settings = Settings(aging_ms=MINUTE)
    yard = Yard([Hand(slots=4), Hand(slots=4)], takes_ms=7 * SECOND, settings=settings)
    # Never do two of them end at once.
    for _ in range(8):
        yard.submit(1)
        yard.run_for(850)
    stream = yard.submit(600)
    large = yard.submit(2, cpus_milli=4_000)
    yard.run_for(4 * MINUTE)
    assert yard.state_of(stream) is JobState.RUNNING
    assert yard.state_of(large) is JobState.SUCCEEDED


def test_a_rate_is_kept_in_every_span_and_used_up() -> None:
    yard = Yard([Hand(slots=8)])
    yard.do(c.SetLimit(scope="namespace", name="default", starts=3, per_ms=10 * SECOND))
    job_id = yard.submit(30)
    yard.run_for(2 * MINUTE)
    starts = [one.at for one in yard.grants(job_id)]
    assert len(starts) == 30
    assert yard.state_of(job_id) is JobState.SUCCEEDED
    # As many as a bucket that was full could hold, and what came in meanwhile.
    for first, at in enumerate(starts):
        for place, later in enumerate(starts[first:], start=1):
            assert place <= 3 + (later - at) * 3 / (10 * SECOND) + 0.001


def test_what_shall_begin_later_begins_then() -> None:
    yard = Yard([Hand(slots=2)])
    start = yard.clock.now()
    delayed = yard.submit(1, ties={"delay_ms": 30 * SECOND})
    wall = Instant(yard.clock.wall() + 90 * SECOND)
    dated = yard.submit(1, ties={"not_before_wall": wall})
    yard.run_for(HOUR)
    (first,), (second,) = yard.grants(delayed), yard.grants(dated)
    assert 30 * SECOND <= first.at - start < 31 * SECOND
    assert 90 * SECOND <= second.at - start < 92 * SECOND


def test_what_nobody_takes_in_time_is_unschedulable_with_the_reasons() -> None:
    yard = Yard([Hand(slots=2)], takes_ms=MINUTE)
    yard.submit(2)
    late = yard.submit(1, schedule_timeout_ms=30 * SECOND)
    never = yard.submit(1, schedule_timeout_ms=10 * SECOND, cpus_milli=64_000)
    fits = yard.submit(1, schedule_timeout_ms=5 * MINUTE)
    yard.run_for(10 * MINUTE)
    assert yard.state_of(fits) is JobState.SUCCEEDED
    for job_id, said in ((late, "is busy"), (never, "needs 64 cpus")):
        assert yard.state_of(job_id) is JobState.UNSCHEDULABLE
        assert yard.grants(job_id) == []
        (reason,) = [
            event.reason for _, event in yard.events()
            if isinstance(event, e.TasksUnschedulable) and event.job_id == job_id
        ]  # fmt: skip
        assert said in reason


@pytest.mark.parametrize(("spread", "workers"), [(SPREAD, 3), (PACK, 1)])
def test_tasks_are_spread_or_packed(spread: str, workers: int) -> None:
    yard = Yard([Hand(slots=4), Hand(slots=4), Hand(slots=4)])
    job_id = yard.submit(3, spread=spread)
    yard.run_for(MINUTE)
    assert len({one.worker for one in yard.grants(job_id)}) == workers


def test_a_worker_that_fails_what_goes_well_elsewhere_is_cordoned_and_nobody_else() -> None:
    settings = Settings(cordon_after=3)
    yard = Yard([Hand(slots=2, failing=1.0), Hand(slots=2), Hand(slots=2)], settings=settings)
    jobs = [yard.submit(4, retries=3) for _ in range(6)]
    yard.run_for(30 * MINUTE)
    assert {yard.state_of(job_id) for job_id in jobs} == {JobState.SUCCEEDED}
    assert list(yard.state.cordoned) == ["w0"]
    assert "went well on other workers" in yard.state.cordoned["w0"]
    cordoned_at = next(at for at, event in yard.events() if isinstance(event, e.WorkerCordoned))
    assert all(one.at <= cordoned_at for one in yard.grants() if one.worker == "w0")


def test_a_retry_goes_to_another_worker() -> None:
    yard = Yard([Hand(failing=1.0), Hand()], settings=Settings(cordon_after=0))
    jobs = [yard.submit(1, retries=1) for _ in range(8)]
    yard.run_for(10 * MINUTE)
    assert {yard.state_of(job_id) for job_id in jobs} == {JobState.SUCCEEDED}
    for job_id in jobs:
        assert all(one.worker != other.worker for one, other in pairwise(yard.grants(job_id)))


def test_under_one_key_a_job_is_kept_replaced_or_refused() -> None:
    yard = Yard([Hand(slots=2)], takes_ms=MINUTE)

    def again(existing: str) -> JobId | Refused:
        command = c.SubmitJob(
            spec=yard.state.jobs[first].spec, key="k", items=(b"0",), existing=existing
        )
        decision = yard.do(command)
        return decision if isinstance(decision, Refused) else JobId(str(decision.answer))

    first = yard.submit(1, ties={"key": "k", "unique_for_ms": HOUR})
    yard.run_for(SECOND)
    assert again("keep") == first
    refused = again("refuse")
    assert isinstance(refused, Refused)
    assert refused.code is Reason.CONFLICT
    second = again("replace")
    assert isinstance(second, str)
    yard.run_for(2 * MINUTE)
    assert (yard.state_of(first), yard.state_of(second)) == (JobState.KILLED, JobState.SUCCEEDED)
    assert yard.state.jobs[first].cause == "replaced"


def test_children_end_with_their_parent_wherever_they_run() -> None:
    yard = Yard([Hand(slots=2), Hand(slots=2)], takes_ms=10 * MINUTE)
    parent = yard.submit(1)
    child = yard.submit(2, ties={"parent": parent})
    apart = yard.submit(1, ties={"parent": parent, "detached": True})
    yard.run_for(SECOND)
    yard.do(c.KillJob(job_id=parent))
    yard.run_for(MINUTE)
    states = [yard.state_of(job_id) for job_id in (parent, child, apart)]
    assert states == [JobState.KILLED, JobState.KILLED, JobState.RUNNING]
    # Their slots are free for others once the workers have let go.
    yard.run_for(20 * MINUTE)
    assert yard.state_of(apart) is JobState.SUCCEEDED
    assert yard.state_of(yard.submit(1)) is JobState.RUNNING
