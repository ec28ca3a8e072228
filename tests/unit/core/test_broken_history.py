"""History that cannot be: each event is impossible as a whole, however good the rest of it is."""

import msgspec
import pytest

from holdfast.core import events as e
from holdfast.core.apply import FOLDS
from holdfast.core.errors import BrokenInvariant
from holdfast.core.ids import NEVER, Index, Instant, JobId, LeaseId, Position, WorkerId
from holdfast.core.invariants import check
from holdfast.core.spec import JobSpec, RetryPolicy
from holdfast.testing.stages import JOB
from holdfast.testing.world import MAIL, POST, World

V, W = WorkerId("v"), WorkerId("w")
OPEN, DONE = JobId("open"), JobId("done")
SPEC = JobSpec(name="n", kind="k", target="t", retries=1, retry=RetryPolicy(kind="none"))
SUCCEEDED, RUNNING, LEASED, ASIDE, OWING, BAD, FRESH, OTHERS = range(8)
LEASES = {RUNNING: 2, LEASED: 3, OWING: 5, OTHERS: 7}


def world_of_every_kind() -> World:
    """A job with a task in every state, named by the constants above, an open job and one done."""
    world = World()
    world.submit(JOB, items=(b"item",) * 8, spec=SPEC)
    leases = world.grant(JOB, SUCCEEDED, RUNNING, LEASED, ASIDE, OWING, BAD, term_ms=10_000)
    world.commit(JOB, SUCCEEDED, leases[SUCCEEDED])
    world.start(JOB, RUNNING, leases[RUNNING])
    world.release(JOB, ASIDE, leases[ASIDE])
    world.commit(JOB, OWING, leases[OWING], owed=(MAIL, POST))
    world.fail(JOB, BAD, leases[BAD])
    world.grant(JOB, OTHERS, worker=V)
    (again,) = world.grant(JOB, BAD)
    world.fail(JOB, BAD, again)
    world.start(JOB, OTHERS, LEASES[OTHERS], worker=V)
    world.submit(OPEN, items=(b"a",), sealed=False)
    world.submit(DONE, key="k", digest=b"d")
    (lease,) = world.grant(DONE)
    world.commit(DONE, 0, lease)
    return world


def end(index: int, lease: int | None = None) -> e.End:
    lease_id = LeaseId(LEASES.get(index, 0) if lease is None else lease)
    return e.End(
        index=Index(index), lease_id=lease_id, attempt=1, reason="released", worker=W,
        granted=Position(3), started_at=NEVER, previous=Position(0), charged="", failures=0,
        losses=0, strays=0, not_before=NEVER, error="", traceback="", exit_code=None,
    )  # fmt: skip


def commit(index: int, lease: int | None = None) -> e.Commit:
    lease_id = LeaseId(LEASES.get(index, 0) if lease is None else lease)
    return e.Commit(Index(index), lease_id, 1, Position(3), Instant(5), Position(0), 0, 0, b"")


def granted(*indices: int, first: int = 99, attempts: int | None = None) -> e.LeasesGranted:
    count = len(indices) if attempts is None else attempts
    return e.LeasesGranted(
        job_id=JOB, worker=W, incarnation=1, slot=0, first_lease=LeaseId(first), alone=False,
        indices=tuple(map(Index, indices)), attempts=(1,) * count, expires_at=NEVER,
    )  # fmt: skip


def started(*starts: tuple[int, int]) -> e.AttemptsStarted:
    made = tuple(e.Start(Index(i), LeaseId(lease), Instant(5)) for i, lease in starts)
    return e.AttemptsStarted(job_id=JOB, starts=made)


def completed(*commits: e.Commit, worker: WorkerId = W) -> e.TasksCompleted:
    return e.TasksCompleted(job_id=JOB, worker=worker, incarnation=1, commits=commits)


def committed(made: e.Commit) -> e.TaskCommitted:
    return e.TaskCommitted(job_id=JOB, worker=W, incarnation=1, commit=made, owed=(MAIL,))


def returned(*ends: e.End) -> e.AttemptsReturned:
    return e.AttemptsReturned(job_id=JOB, ends=ends)


def quarantined(*ends: e.End) -> e.TasksQuarantined:
    return e.TasksQuarantined(job_id=JOB, ends=ends)


def spans_of(*spans: tuple[int, int]) -> tuple[e.Span, ...]:
    return tuple(e.Span(Index(first), Index(last)) for first, last in spans)


def killed(*spans: tuple[int, int], ends: tuple[e.End, ...] = ()) -> e.TasksKilled:
    return e.TasksKilled(job_id=JOB, cause="x", spans=spans_of(*spans), ends=ends, stopped=())


def unschedulable(*spans: tuple[int, int]) -> e.TasksUnschedulable:
    return e.TasksUnschedulable(job_id=JOB, spans=spans_of(*spans), reason="")


def retried(*spans: tuple[int, int]) -> e.TasksRetried:
    return e.TasksRetried(job_id=JOB, generation=2, spans=spans_of(*spans))


def settled(index: int, *numbers: int) -> tuple[e.Settled, ...]:
    return tuple(e.Settled(Index(index), number) for number in numbers)


def delivered(index: int, *numbers: int) -> e.EffectsDelivered:
    return e.EffectsDelivered(job_id=JOB, settled=settled(index, *numbers))


def discarded(index: int, *numbers: int) -> e.EffectsDiscarded:
    return e.EffectsDiscarded(job_id=JOB, settled=settled(index, *numbers), reason="")


def sent_again(index: int, *numbers: int) -> e.EffectsRetried:
    return e.EffectsRetried(job_id=JOB, settled=settled(index, *numbers))


def parked(index: int, *numbers: int) -> e.EffectsParked:
    made = tuple(e.Parked(Index(index), number, 1, "") for number in numbers)
    return e.EffectsParked(job_id=JOB, parked=made)


def undelivered(index: int, number: int) -> e.DeliveryFailed:
    return e.DeliveryFailed(
        job_id=JOB, index=Index(index), number=number, tries=1, not_before=NEVER, error=""
    )


def moved(index: int) -> e.TaskRescheduled:
    return e.TaskRescheduled(
        job_id=JOB, index=Index(index), not_before=NEVER, not_before_wall=NEVER
    )


def added(job_id: JobId, first: int) -> e.TasksAdded:
    return e.TasksAdded(job_id=job_id, first=Index(first), items=(b"x",), digest=b"")


def sealed(job_id: JobId, count: int) -> e.JobSealed:
    return e.JobSealed(job_id=job_id, count=count, interrupted=False)


IMPOSSIBLE: dict[str, e.Event] = {
    "a lease id given before": granted(FRESH, first=8),
    "a grant of a task twice": granted(FRESH, ASIDE, FRESH),
    "a grant of one that waits twice": granted(ASIDE, ASIDE),
    "a grant beside a leased one": granted(FRESH, LEASED),
    "a grant beside a finished one": granted(ASIDE, SUCCEEDED),
    "a grant beside a committed one": granted(ASIDE, OWING),
    "a grant past the end": granted(FRESH, 8),
    "a grant before the beginning": granted(FRESH, -1),
    "a grant of fewer attempts": granted(FRESH, ASIDE, attempts=1),
    "a grant of more attempts": granted(FRESH, attempts=2),
    "a start beside one of another lease": started((LEASED, 3), (RUNNING, 3)),
    "a start of what runs": started((RUNNING, 2)),
    "a start of what waits": started((LEASED, 3), (ASIDE, 4)),
    "a start under a former lease": started((LEASED, 2)),
    "a start of a task twice": started((LEASED, 3), (LEASED, 3)),
    "a completion beside one that only was leased": completed(commit(RUNNING), commit(LEASED)),
    "a completion beside one of another worker": completed(commit(RUNNING), commit(OTHERS)),
    "a completion beside one that waits": completed(commit(RUNNING), commit(ASIDE, 4)),
    "a completion beside one under no lease": completed(commit(RUNNING), commit(ASIDE, 0)),
    "a completion under a former lease": completed(commit(RUNNING, 1)),
    "a completion of a task twice": completed(commit(RUNNING), commit(RUNNING)),
    "a completion by one who holds nothing": completed(commit(RUNNING), worker=WorkerId("x")),
    "a commit of what only was leased": committed(commit(LEASED)),
    "a commit under a former lease": committed(commit(RUNNING, 1)),
    "a commit of what has committed": committed(commit(OWING)),
    "a commit under no lease": committed(commit(ASIDE, 0)),
    "a commit that owes nothing": e.TaskCommitted(
        job_id=JOB, worker=W, incarnation=1, commit=commit(RUNNING), owed=()
    ),
    "a delivery beside one that is not owed": delivered(OWING, 0, 2),
    "a delivery of what runs": delivered(RUNNING, 0),
    "a delivery twice": delivered(OWING, 0, 0),
    "a delivery past the end": delivered(8, 0),
    "a discard of what is not owed": discarded(OWING, 1, 2),
    "a parking beside one that is not owed": parked(OWING, 0, 2),
    "a parking twice": parked(OWING, 0, 0),
    "a failed try of what is not owed": undelivered(OWING, 2),
    "a failed try of what succeeded": undelivered(SUCCEEDED, 0),
    "a retry of an entry that is not owed": sent_again(OWING, 0, 2),
    "a done task that owes more": e.TasksDone(job_id=JOB, indices=(Index(OWING),)),
    "a done task that runs": e.TasksDone(job_id=JOB, indices=(Index(RUNNING),)),
    "a return beside one of another lease": returned(end(RUNNING), end(LEASED, 2)),
    "a return beside one that waits": returned(end(RUNNING), end(ASIDE, 4)),
    "a return beside one under no lease": returned(end(RUNNING), end(ASIDE, 0)),
    "a return beside one that committed": returned(end(RUNNING), end(OWING)),
    "a return of a task twice": returned(end(RUNNING), end(RUNNING)),
    "a quarantine beside one that waits": quarantined(end(LEASED), end(FRESH)),
    "a quarantine of a task twice": quarantined(end(LEASED), end(LEASED)),
    "a kill beside one of another lease": killed((FRESH, FRESH), ends=(end(RUNNING, 3),)),
    "a kill of leased ones as if they waited": killed((LEASED, ASIDE)),
    "a kill of the same twice": killed((ASIDE, ASIDE), (ASIDE, ASIDE)),
    "a kill backwards": killed((FRESH, FRESH), (ASIDE, ASIDE)),
    "a kill of less than nothing": killed((FRESH, ASIDE)),
    "a kill past the end": killed((8, 8)),
    "a kill before the beginning": killed((-2, -1)),
    "a leased one that nobody took": unschedulable((ASIDE, ASIDE), (LEASED, LEASED)),
    "a finished one that nobody took": unschedulable((BAD, BAD)),
    "a retry of the same twice": retried((BAD, BAD), (BAD, BAD)),
    "a retry beside what succeeded": retried((SUCCEEDED, SUCCEEDED), (BAD, BAD)),
    "a retry beside what waits": retried((BAD, FRESH)),
    "a retry past the end": retried((BAD, BAD), (8, 8)),
    "a retry before the beginning": retried((-3, -3), (BAD, BAD)),
    "a leased task that moves": moved(LEASED),
    "a finished task that moves": moved(SUCCEEDED),
    "a task past the end that moves": moved(8),
    "a task before the beginning that moves": moved(-1),
    "a task due that was not dated": e.TaskDue(job_id=JOB, index=Index(ASIDE)),
    "a job due that was not dated": e.JobDue(job_id=JOB),
    "items after the seal": added(JOB, 8),
    "items over others": added(OPEN, 0),
    "items after a gap": added(OPEN, 2),
    "a second seal": sealed(JOB, 8),
    "a seal of another count": sealed(OPEN, 2),
    "a cancel of what is done": e.JobCancelled(job_id=DONE, cause="cancelled", reason=""),
    "a worker gone that holds leases": e.WorkerLost(worker=W, incarnation=1, error=""),
    "a renewal that shortens": e.LeasesExtended(
        worker=W, incarnation=1, until=Instant(5), exceptions=()
    ),
    "a job forgotten beside one that lives": e.JobsForgotten(job_ids=(DONE, JOB)),
    "a job forgotten twice": e.JobsForgotten(job_ids=(DONE, DONE)),
    "a job forgotten that never was": e.JobsForgotten(job_ids=(DONE, JobId("x"))),
    "a key forgotten that never was": e.KeysForgotten(keys=("k", "x")),
    "an epoch that was opened before": e.LogOpened(
        log_id="log", epoch=1, version="", host="", pid=1, torn_bytes=0
    ),
    "a job submitted twice": e.JobSubmitted(
        job_id=JOB, spec=SPEC, key="", digest=b"", count=1, items=(), shared=b"", sealed=True,
        not_before=NEVER, not_before_wall=NEVER, times_out_at=NEVER, deadline_wall=NEVER,
        schedule_by=NEVER,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_an_event_with_one_thing_that_cannot_be_changes_nothing_at_all(name: str) -> None:
    world = world_of_every_kind()
    assert world.troubles() == ()
    before, leasable = world.fingerprint(), world.leasable()
    event = IMPOSSIBLE[name]
    with pytest.raises(BrokenInvariant):
        FOLDS[type(event)](world.state, event, Position(99), world.now)
    assert world.fingerprint() == before
    assert check(world.state) == ()
    assert world.leasable() == leasable


def test_a_task_is_done_once_and_only_when_it_owes_nothing() -> None:
    world = world_of_every_kind()
    last, done = delivered(OWING, 0, 1), e.TasksDone(job_id=JOB, indices=(Index(OWING),) * 2)
    FOLDS[type(last)](world.state, last, Position(99), world.now)
    with pytest.raises(BrokenInvariant):
        FOLDS[type(done)](world.state, done, Position(99), world.now)
    once = e.TasksDone(job_id=JOB, indices=(Index(OWING),))
    FOLDS[type(once)](world.state, once, Position(99), world.now)
    assert check(world.state) == ()


@pytest.mark.parametrize("kind", [e.TasksAdded, e.JobSealed, e.TasksRetried, e.JobDue])
def test_an_event_about_a_job_that_never_was_is_impossible(kind: type[e.Event]) -> None:
    world = world_of_every_kind()
    sample = next(event for event in IMPOSSIBLE.values() if isinstance(event, kind))
    stray = msgspec.structs.replace(sample, job_id=JobId("nobody"))
    with pytest.raises(BrokenInvariant, match="nobody"):
        FOLDS[kind](world.state, stray, Position(99), world.now)
