"""The watch objects to every way history can lie, and to nothing that happens."""

from collections.abc import Callable
from random import Random

import msgspec
import pytest

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decision import Accepted
from holdfast.core.freeze import freeze, thaw
from holdfast.core.ids import Index, Instant, JobId, LeaseId, Position, WorkerId
from holdfast.core.record import Record
from holdfast.core.watch import Watch
from holdfast.core.watch_start import touched, watch_from
from holdfast.testing.stages import JOB, STAGES, Stage, stage_of
from holdfast.testing.strategies import any_command, pass_time
from holdfast.testing.world import MAIL, POST, World

W = WorkerId("w")


def told(stage: Stage, *events: e.AnyEvent, at: int | None = None) -> set[str]:
    """What the watch says when this record comes next, whether or not it could be folded."""
    now = stage.world.now if at is None else Instant(at)
    record = Record(now, "Test", "test", "", "", events)
    place = Position(len(stage.world.log) + 1)
    return {violation.name for violation in stage.world.watch.feed(place, record)}


def end_of(stage: Stage, **changes: object) -> e.End:
    """The end that a release of the current attempt would write, with lies in it."""
    probe = stage_of("running")
    decision = probe.world.release(JOB, 0, probe.lease_id)
    assert isinstance(decision, Accepted)
    (event,) = decision.events
    assert isinstance(event, e.AttemptsReturned)
    return msgspec.structs.replace(event.ends[0], **{"lease_id": stage.lease_id, **changes})


def commit_of(stage: Stage, **changes: object) -> e.TasksCompleted:
    probe = stage_of("running")
    decision = probe.world.commit(JOB, 0, probe.lease_id)
    assert isinstance(decision, Accepted)
    (event,) = decision.events
    assert isinstance(event, e.TasksCompleted)
    true = {"lease_id": stage.lease_id}
    commit = msgspec.structs.replace(event.commits[0], **{**true, **changes})
    return msgspec.structs.replace(event, commits=(commit,))


def grant_of(stage: Stage, **changes: object) -> e.LeasesGranted:
    grant = e.LeasesGranted(
        job_id=JOB, worker=W, incarnation=1, slot=0, indices=(Index(0),), attempts=(1,),
        first_lease=stage.world.state.next_lease, expires_at=Instant(0), alone=False,
    )  # fmt: skip
    return msgspec.structs.replace(grant, **changes)


def returned(stage: Stage, **changes: object) -> e.AttemptsReturned:
    return e.AttemptsReturned(job_id=JOB, ends=(end_of(stage, **changes),))


def quarantined(stage: Stage, **changes: object) -> e.TasksQuarantined:
    return e.TasksQuarantined(job_id=JOB, ends=(end_of(stage, **changes),))


def retried(generation: int) -> Callable[[Stage], e.TasksRetried]:
    spans = (e.Span(Index(0), Index(0)),)
    return lambda _: e.TasksRetried(job_id=JOB, generation=generation, spans=spans)


def extended(stage: Stage, ms: int) -> e.LeasesExtended:
    until = Instant(stage.world.now + ms)
    return e.LeasesExtended(worker=W, incarnation=1, until=until, exceptions=())


def failed_try(stage: Stage) -> e.DeliveryFailed:
    return e.DeliveryFailed(
        job_id=JOB, index=Index(0), number=0, tries=1, not_before=stage.world.now, error=""
    )


OPENED = e.LogOpened(log_id="log", epoch=1, version="", host="", pid=1, torn_bytes=0)
FAILED = {"reason": "failed", "charged": "failures", "failures": 1}

LIES: dict[str, tuple[str, str, Callable[[Stage], e.AnyEvent]]] = {
    "an epoch opened twice": ("L2", "fresh", lambda _: OPENED),
    "a commit of a waiting task": ("J2", "aside", commit_of),
    "a grant of a running task": ("S5", "running", lambda s: grant_of(s, attempts=(2,))),
    "a grant of a finished task": ("J3", "succeeded", lambda s: grant_of(s, attempts=(2,))),
    "a second end of a quarantined task": ("J3", "quarantined", returned),
    "a retry of what a person killed": ("J3", "killed by a person", retried(2)),
    "a retry of what succeeded": ("J3", "succeeded", retried(2)),
    "a generation that was skipped": ("J3", "quarantined", retried(3)),
    "a job forgotten before its end": (
        "J3", "running", lambda _: e.JobsForgotten(job_ids=(JOB,)),
    ),
    "an attempt that was skipped": ("J5", "aside", lambda s: grant_of(s, attempts=(3,))),
    "an attempt counted twice": ("J5", "aside", lambda s: grant_of(s, attempts=(1,))),
    "a lease id used again": (
        "S3", "aside", lambda s: grant_of(s, attempts=(2,), first_lease=LeaseId(1)),
    ),
    "a start under another lease": (
        "S4",
        "leased",
        lambda s: e.AttemptsStarted(
            job_id=JOB, starts=(e.Start(Index(0), LeaseId(s.lease_id + 1), Instant(1)),)
        ),
    ),
    "an end under another lease": (
        "S4", "running", lambda s: returned(s, lease_id=LeaseId(s.lease_id + 1)),
    ),
    "an end of another attempt": ("S4", "running", lambda s: returned(s, attempt=2)),
    "an expiry before its time": (
        "S5",
        "running by time",
        lambda s: returned(s, reason="lease_expired", charged="losses", losses=1),
    ),
    "an expiry of what does not end by time": (
        "S5", "running", lambda s: returned(s, reason="lease_expired", charged="losses", losses=1),
    ),
    "a lease that ended before it began": (
        "S5", "fresh", lambda s: grant_of(s, expires_at=Instant(s.world.now - 1)),
    ),
    "a worker gone with its leases": (
        "S5", "running", lambda _: e.WorkerLost(worker=W, incarnation=1, error=""),
    ),
    "a renewal that shortens": ("S6", "running by time", lambda s: extended(s, 1)),
    "a renewal of what ran out": ("S6", "running past its time", lambda s: extended(s, 10**6)),
    "an opening that rearms nothing": (
        "S7", "running past its time", lambda _: msgspec.structs.replace(OPENED, epoch=2),
    ),
    "an opening that leaves a lease its old term": (
        "S7", "running by time", lambda _: msgspec.structs.replace(OPENED, epoch=2),
    ),
    "a second commit": ("C1", "succeeded", commit_of),
    "a second commit of what still owes": ("C1", "committed, owing one", commit_of),
    "a commit under another lease": (
        "C2", "running", lambda s: commit_of(s, lease_id=LeaseId(s.lease_id + 1)),
    ),
    "a commit of another attempt": ("C2", "running", lambda s: commit_of(s, attempt=2)),
    "a commit past its time": ("C2", "running past its time", commit_of),
    "an abort of what committed": ("C3", "committed, owing one", returned),
    "a task done before its last delivery": (
        "C4", "committed, owing two", lambda _: e.TasksDone(job_id=JOB, indices=(Index(0),)),
    ),
    "a last delivery that does not end it": (
        "C4",
        "committed, owing one",
        lambda _: e.EffectsDelivered(job_id=JOB, settled=(e.Settled(Index(0), 0),)),
    ),
    "a delivery of what is not owed": (
        "C4",
        "committed, owing two",
        lambda _: e.EffectsDelivered(job_id=JOB, settled=(e.Settled(Index(0), 2),)),
    ),
    "a delivery of what has not committed": (
        "J2",
        "running",
        lambda _: e.EffectsDelivered(job_id=JOB, settled=(e.Settled(Index(0), 0),)),
    ),
    "a try of what is parked": ("C4", "committed, its entry parked", failed_try),
    "a try that was not counted": ("C4", "committed, its delivery failed", failed_try),
    "a try of a block": ("C4", "committed, in its block", failed_try),
    "a second parking": (
        "C4",
        "committed, its entry parked",
        lambda _: e.EffectsParked(job_id=JOB, parked=(e.Parked(Index(0), 0, 0, ""),)),
    ),
    "a block that runs again": (
        "C4",
        "committed, in its block",
        lambda _: e.EffectsRetried(job_id=JOB, settled=(e.Settled(Index(0), 0),)),
    ),
    "a failure that charges nothing": ("B2", "running", lambda s: returned(s, reason="failed")),
    "a release that charges": (
        "B2", "running", lambda s: returned(s, charged="failures", failures=1),
    ),
    "a failure charged twice": (
        "B2", "running", lambda s: returned(s, **{**FAILED, "failures": 2}),
    ),
    "a charge to both budgets": ("B2", "running", lambda s: returned(s, **FAILED, losses=1)),
    "a commit that charges": ("B2", "running", lambda s: commit_of(s, failures=1)),
    "a spent budget that goes on": (
        "B4", "running", lambda s: returned(s, **{**FAILED, "failures": 2}),
    ),
    "a quarantine with budget left": ("B4", "running", lambda s: quarantined(s, **FAILED)),
    "a job submitted twice": (
        "J2",
        "fresh",
        lambda s: s.world.records()[1][1].events[0],
    ),
    "items after the seal": (
        "J2",
        "fresh",
        lambda _: e.TasksAdded(job_id=JOB, first=Index(1), items=(b"x",), digest=b""),
    ),
    "a second seal": ("J2", "fresh", lambda _: e.JobSealed(job_id=JOB, count=1, interrupted=False)),
    "a job stopped and its task left alive": (
        "J2", "fresh", lambda _: e.JobCancelled(job_id=JOB, cause="cancelled", reason=""),
    ),
    "a task that is not there": (
        "J2", "fresh", lambda s: grant_of(s, indices=(Index(9),)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_named(lie: str) -> None:
    name, at, make = LIES[lie]
    stage = stage_of(at)
    assert name in told(stage, make(stage))


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_named_by_a_watch_that_began_in_the_middle(lie: str) -> None:
    name, at, make = LIES[lie]
    stage = stage_of(at)
    event = make(stage)
    stage.world.watch = watch_from(thaw(freeze(stage.world.state)))
    assert name in told(stage, event)


def test_a_gap_and_a_clock_that_goes_back_are_named() -> None:
    watch = Watch()
    record = Record(Instant(10), "Test", "test", "", "", (OPENED,))
    assert watch.feed(Position(1), record) == ()
    empty = msgspec.structs.replace(record, events=())
    assert {v.name for v in watch.feed(Position(3), empty)} == {"L1"}
    early = msgspec.structs.replace(record, at=Instant(9), events=())
    assert {v.name for v in watch.feed(Position(4), early)} == {"L1"}


def test_an_event_about_a_job_that_never_was_is_a_violation_not_a_crash() -> None:
    record = Record(Instant(1), "Test", "test", "", "", (e.JobDue(job_id=JobId("x")),))
    assert Watch().feed(Position(1), record) == ()
    sealed = e.JobSealed(job_id=JobId("x"), count=1, interrupted=False)
    record = msgspec.structs.replace(record, events=(sealed,))
    (violation,) = Watch().feed(Position(1), record)
    assert "check itself failed" in violation.text


@pytest.mark.parametrize("name", STAGES)
def test_the_watch_has_nothing_to_say_of_what_happens(name: str) -> None:
    world = stage_of(name).world
    watch = Watch()
    assert [watch.feed(place, record) for place, record in world.records()] == [()] * len(world.log)


@pytest.mark.parametrize("seed", range(6))
def test_a_watch_that_began_anywhere_has_nothing_to_say_of_what_happens(seed: int) -> None:
    world, dice = World(), Random(seed)
    for _ in range(120):
        pass_time(world, dice)
        world.do(any_command(world, dice))
    assert world.troubles() == ()
    records = world.records()
    for start in range(1, len(records), 9):
        watch = watch_from(thaw(freeze(world.replayed(start))))
        assert [watch.feed(*told) for told in records[start:]] == [()] * (len(records) - start)


def test_what_was_never_leased_is_not_remembered_one_by_one() -> None:
    world = World()
    world.submit("j", 5)
    world.grant("j", 0, 1)
    assert touched(world.state) == 2


def test_one_mistake_is_told_once() -> None:
    stage = stage_of("aside")
    assert told(stage, grant_of(stage, attempts=(3,))) == {"J5"}
    stage.world.log.append(b"")
    start = e.Start(Index(0), stage.world.state.next_lease, Instant(1))
    assert told(stage, e.AttemptsStarted(job_id=JOB, starts=(start,))) == set()


def test_a_long_life_is_watched_to_its_end() -> None:
    world = World()
    world.submit("j", 2)
    first, second = world.grant("j", 0, 1, term_ms=1_000)
    world.did(c.ExtendLeases(worker=W, incarnation=1, term_ms=5_000))
    world.commit("j", 0, first)
    world.commit("j", 1, second, owed=(MAIL, POST))
    for entry in (1, 0):
        world.confirm(JOB, 1, entry)
    world.sleep(10)
    world.tick(keep_finished=0, keep_finished_ms=0)
    assert world.state.jobs == {}
    assert world.troubles() == ()
