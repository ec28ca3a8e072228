"""Every state meets every event: it moves by the table, or the event is impossible and nothing
changes. The tables, the folds, the renderers and the watch name the same events."""

from collections.abc import Callable, Iterator
from itertools import product
from typing import get_args

import pytest

from holdfast.core import attempt, lease, task
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.apply import FOLDS
from holdfast.core.attempt import AttemptStatus, EndReason
from holdfast.core.decide import DECIDERS
from holdfast.core.errors import BrokenInvariant, ImpossibleEvent
from holdfast.core.freeze import fingerprint
from holdfast.core.ids import NEVER, NOWHERE, Index, Instant, LeaseId, Position, WorkerId
from holdfast.core.job import state_of
from holdfast.core.lease import LeaseState
from holdfast.core.lineage import Hole
from holdfast.core.schedule import Definition, Timing
from holdfast.core.seen import MOVES
from holdfast.core.spec import JobSpec
from holdfast.core.state import State
from holdfast.core.task import TaskState
from holdfast.core.transactions import RENDERERS
from holdfast.core.watch import JUDGES
from holdfast.testing.stages import JOB, STAGES, Stage, stage_of
from holdfast.testing.strategies import MAKERS
from holdfast.testing.world import MAIL

WORKER = WorkerId("w")
TERMS = JobSpec(name="work", kind="function", target="work", priority=9)
BLOCKED = ("fresh in a blocked job", "aside in a blocked job")


def an_end(stage: Stage) -> e.End:
    return e.End(
        index=Index(0), lease_id=stage.lease_id, attempt=1, reason=EndReason.RELEASED,
        worker=WORKER, granted=NOWHERE, started_at=NEVER, previous=NOWHERE, charged="",
        failures=0, losses=0, strays=0, not_before=NEVER, error="", traceback="", exit_code=None,
    )  # fmt: skip


def a_commit(stage: Stage) -> e.Commit:
    return e.Commit(Index(0), stage.lease_id, 1, NOWHERE, NEVER, NOWHERE, 0, 0, b"")


def a_grant(stage: Stage) -> e.LeasesGranted:
    records = stage.world.state.jobs[JOB].tasks or {}
    number = records[Index(0)].attempt + 1 if Index(0) in records else 1
    return e.LeasesGranted(
        job_id=JOB, worker=WORKER, incarnation=1, slot=0, indices=(Index(0),), alone=False,
        first_lease=stage.world.state.next_lease, attempts=(number,), expires_at=NEVER,
    )  # fmt: skip


def _killed(end: e.End) -> e.TasksKilled:
    return e.TasksKilled(job_id=JOB, cause="cancelled", spans=(), ends=(end,), stopped=())


def a_kill(stage: Stage) -> e.TasksKilled:
    if stage.state is TaskState.WAITING:
        spans = (e.Span(Index(0), Index(0)),)
        return e.TasksKilled(job_id=JOB, cause="cancelled", spans=spans, ends=(), stopped=())
    return _killed(an_end(stage))


def put_aside(*ends: e.End, spans: tuple[e.Span, ...] = ()) -> e.TasksSetAside:
    return e.TasksSetAside(
        job_id=JOB, cause="operator", spans=spans, ends=ends, stopped=(), note=""
    )


def a_purge(stage: Stage) -> e.TasksPurged:
    ends = stage.world.state.jobs[JOB].ends or (NOWHERE,)
    named = (e.Stopped(Index(0), Position(ends[0])),)
    if stage.state is TaskState.UNSCHEDULABLE:
        return e.TasksPurged(job_id=JOB, purged=(), unplaced=named, reason="x")
    return e.TasksPurged(job_id=JOB, purged=named, unplaced=(), reason="x")


def a_setting_aside(stage: Stage) -> e.TasksSetAside:
    return put_aside(spans=ONE) if stage.state is TaskState.WAITING else put_aside(an_end(stage))


A_DEFINITION = Definition(
    timing=Timing(every_ms=1_000), spec=JobSpec(name="", kind="", target=""), count=1
)
ONE = (e.Span(Index(0), Index(0)),)
ENTRY = (e.Settled(Index(0), 0),)

# What befalls a task. Each maker names task j/0, under the lease it is or was last held by.
TASK_EVENTS: dict[type[e.Event], Callable[[Stage], e.Event]] = {
    e.LeasesGranted: a_grant,
    e.AttemptsStarted: lambda stage: e.AttemptsStarted(
        job_id=JOB, starts=(e.Start(Index(0), stage.lease_id, Instant(1)),)
    ),
    e.TasksCompleted: lambda stage: e.TasksCompleted(
        job_id=JOB, worker=WORKER, incarnation=1, commits=(a_commit(stage),)
    ),
    e.TaskCommitted: lambda stage: e.TaskCommitted(
        job_id=JOB, worker=WORKER, incarnation=1, commit=a_commit(stage), owed=(MAIL,)
    ),
    e.EffectsDelivered: lambda _: e.EffectsDelivered(job_id=JOB, settled=ENTRY),
    e.DeliveryFailed: lambda stage: e.DeliveryFailed(
        job_id=JOB, index=Index(0), number=0, tries=2, not_before=stage.world.now, error=""
    ),
    e.EffectsParked: lambda _: e.EffectsParked(
        job_id=JOB, parked=(e.Parked(Index(0), 0, 2, "boom"),)
    ),
    e.EffectsRetried: lambda _: e.EffectsRetried(job_id=JOB, settled=ENTRY),
    e.EffectsDiscarded: lambda _: e.EffectsDiscarded(job_id=JOB, settled=ENTRY, reason=""),
    e.TasksDone: lambda _: e.TasksDone(job_id=JOB, indices=(Index(0),)),
    e.AttemptsReturned: lambda stage: e.AttemptsReturned(job_id=JOB, ends=(an_end(stage),)),
    e.TasksQuarantined: lambda stage: e.TasksQuarantined(job_id=JOB, ends=(an_end(stage),)),
    e.TasksKilled: a_kill,
    e.TasksSetAside: a_setting_aside,
    e.TasksPurged: a_purge,
    e.TasksUnschedulable: lambda _: e.TasksUnschedulable(job_id=JOB, spans=ONE, reason=""),
    e.TaskRescheduled: lambda _: e.TaskRescheduled(
        job_id=JOB, index=Index(0), not_before=NEVER, not_before_wall=NEVER
    ),
    e.TaskDue: lambda _: e.TaskDue(job_id=JOB, index=Index(0)),
    e.TasksRetried: lambda _: e.TasksRetried(job_id=JOB, generation=2, spans=ONE),
    e.TasksRestored: lambda _: e.TasksRestored(
        job_id=JOB, generation=2, spans=ONE, items=(b"item",), shared=b""
    ),
}

# What may befall a task with or without an attempt, told of its attempt.
OF_ATTEMPTS: dict[type[e.Event], Callable[[e.End], e.Event]] = {
    e.TasksKilled: _killed,
    e.TasksSetAside: put_aside,
}

# What befalls a job, a worker or the log; no task moves by these alone.
OTHER_EVENTS: dict[type[e.Event], Callable[[Stage], e.Event]] = {
    e.LogOpened: lambda _: e.LogOpened(
        log_id="log", epoch=9, version="", host="", pid=1, torn_bytes=0
    ),
    e.JobSubmitted: lambda _: e.JobSubmitted(
        job_id=JOB, spec=JobSpec(name="", kind="", target=""), key="", digest=b"", count=1,
        items=(), shared=b"", sealed=True, not_before=NEVER, not_before_wall=NEVER,
        times_out_at=NEVER, deadline_wall=NEVER, schedule_by=NEVER,
    ),
    e.TasksAdded: lambda _: e.TasksAdded(job_id=JOB, first=Index(1), items=(b"x",), digest=b""),
    e.JobSealed: lambda _: e.JobSealed(job_id=JOB, count=1, interrupted=False),
    e.LeasesExtended: lambda stage: e.LeasesExtended(
        worker=WORKER, incarnation=1, until=Instant(stage.world.now + 10**6), exceptions=()
    ),
    e.LeasesRearmed: lambda stage: e.LeasesRearmed(until=Instant(stage.world.now + 10**6)),
    e.JobCancelled: lambda _: e.JobCancelled(job_id=JOB, cause="cancelled", reason=""),
    e.JobDue: lambda _: e.JobDue(job_id=JOB),
    e.TaskForced: lambda _: e.TaskForced(
        job_id=JOB, index=Index(0), source="LEASED", target="WAITING", reason=""
    ),
    e.OperationBegun: lambda _: e.OperationBegun(
        operation_id="op-9", verb="cancel_jobs", request=b"", digest=b"", key="", asked_by="ann",
        reason="", total=1, undoes="",
    ),
    e.OperationEnded: lambda _: e.OperationEnded(operation_id="op-9", outcomes=(("jobs", 1),)),
    e.WorkerLost: lambda _: e.WorkerLost(worker=WORKER, incarnation=1, error=""),
    e.JobsForgotten: lambda _: e.JobsForgotten(job_ids=(JOB,)),
    e.KeysForgotten: lambda _: e.KeysForgotten(keys=("no such key",)),
    e.SnapshotInstalled: lambda _: e.SnapshotInstalled(at_position=Position(1), state_hash=""),
    e.CircuitCounted: lambda _: e.CircuitCounted(kind="function", name="work", failures=1),
    e.CircuitOpened: lambda _: e.CircuitOpened(
        kind="function", name="work", failures=1, cooldown_ms=9, until=NEVER, cause=""
    ),
    e.CircuitHalfOpened: lambda _: e.CircuitHalfOpened(kind="function", name="work", cause=""),
    e.CircuitProbed: lambda _: e.CircuitProbed(
        kind="function", name="work", job_id=JOB, index=Index(0), lease_id=LeaseId(1)),
    e.CircuitClosed: lambda _: e.CircuitClosed(kind="function", name="work", cause=""),
    e.LogForked: lambda s: e.LogForked(
        log_id="fork", origin="log", at_position=s.world.state.position, head=b"",
        head_position=NOWHERE, kind="fork", hole=Hole(), reason="", epoch=99,
        next_lease=LeaseId(1), next_job=1,
    ),
    e.LogResumed: lambda _: e.LogResumed(suspended="fork"),
    e.Repaired: lambda _: e.Repaired(findings=("broken",), deeds=("mended",)),
    e.RequestNoted: lambda _: e.RequestNoted(key="r1", digest=b""),
    e.RequestsForgotten: lambda _: e.RequestsForgotten(keys=("no such request",)),
    e.WorkerCordoned: lambda _: e.WorkerCordoned(worker=WORKER, reason=""),
    e.WorkerUncordoned: lambda _: e.WorkerUncordoned(worker=WORKER),
    e.QueuePaused: lambda _: e.QueuePaused(queue="default", reason=""),
    e.QueueResumed: lambda _: e.QueueResumed(queue="default"),
    e.EndpointRegistered: lambda stage: e.EndpointRegistered(
        job_id=JOB, index=Index(0), lease_id=stage.lease_id, name="web", address="host:1",
        metadata=(),
    ),
    e.EndpointRemoved: lambda stage: e.EndpointRemoved(
        job_id=JOB, index=Index(0), lease_id=stage.lease_id, name="web"),
    e.TokenIssued: lambda _: e.TokenIssued(
        token_id="t", name="n", digest=b"d", scopes=("read",), worker="", expires_wall=Instant(0)),
    e.TokenRevoked: lambda _: e.TokenRevoked(token_id="t"),
    e.TokensExpired: lambda _: e.TokensExpired(token_ids=("t",)),
    e.JobUnblocked: lambda _: e.JobUnblocked(job_id=JOB, schedule_by=NEVER),
    e.JobRespecified: lambda _: e.JobRespecified(job_id=JOB, spec=TERMS),
    e.LimitSet: lambda _: e.LimitSet(
        scope="user", name="ann", running=1, starts=0, per_ms=0, weight=1),
    e.LimitCleared: lambda _: e.LimitCleared(scope="user", name="ann"),
    e.ScheduleSet: lambda _: e.ScheduleSet(
        name="s", definition=A_DEFINITION, next_wall=Instant(10**7)),
    e.ScheduleRemoved: lambda _: e.ScheduleRemoved(name="s"),
    e.SchedulePaused: lambda _: e.SchedulePaused(name="s", reason=""),
    e.ScheduleResumed: lambda _: e.ScheduleResumed(name="s", next_wall=Instant(10**7)),
    e.ScheduleFired: lambda _: e.ScheduleFired(
        name="s", at_wall=Instant(10**6), next_wall=Instant(10**7), job_id=JOB, cause="due"),
    e.ScheduleSkipped: lambda _: e.ScheduleSkipped(
        name="s", from_wall=Instant(1), until_wall=Instant(2), count=2, why="missed",
        next_wall=Instant(3)),
    e.ResourcePut: lambda _: e.ResourcePut(kind="k", name="n", generation=2, spec=b""),
    e.ResourceStatusPut: lambda _: e.ResourceStatusPut(kind="k", name="n", status=b""),
    e.ResourceLabelled: lambda _: e.ResourceLabelled(kind="k", name="n", labels=(), annotations=()),
    e.ResourceFinalizersSet: lambda _: e.ResourceFinalizersSet(kind="k", name="n", finalizers=()),
    e.ResourceDeletionMarked: lambda _: e.ResourceDeletionMarked(kind="k", name="n"),
    e.ResourceRemoved: lambda _: e.ResourceRemoved(kind="k", name="n"),
}  # fmt: skip


# What the state of a committed task alone does not tell: who still owes is not done, what is
# parked is neither tried nor parked again, and a block is never tried again.
PARKED, IN_BLOCK = "committed, its entry parked", "committed, in its block"
OWED_SAVE: dict[type[e.Event], tuple[str, ...]] = {
    e.DeliveryFailed: (PARKED, IN_BLOCK),
    e.EffectsParked: (PARKED,),
    e.EffectsRetried: (IN_BLOCK,),
    e.TasksDone: tuple(name for name in STAGES if name.startswith("committed")),
}


def fold(stage: Stage, event: e.Event) -> None:
    state = stage.world.state
    FOLDS[type(event)](state, event, Position(state.position + 1), stage.world.now)


def is_possible(name: str, stage: Stage, event: type[e.Event]) -> bool:
    """The table, and the six things a state alone does not tell."""
    if event not in task.TRANSITIONS[stage.state]:
        return False
    if event is e.LeasesGranted:
        return name not in BLOCKED
    if event is e.TaskDue:
        return name == "dated"
    if event is e.TasksRetried:
        return name in (
            "quarantined", "set aside", "killed by a limit", "killed by its dependency",
            "unschedulable",
        )  # fmt: skip
    if event is e.TasksRestored:
        return name == "killed by a person"
    return name not in OWED_SAVE.get(event, ())


@pytest.mark.parametrize(("name", "event"), list(product(STAGES, TASK_EVENTS)))
def test_every_task_moves_by_the_table_or_the_event_is_impossible(
    name: str, event: type[e.Event]
) -> None:
    stage = stage_of(name)
    state, before = stage.world.state, stage.world.fingerprint()
    if is_possible(name, stage, event):
        fold(stage, TASK_EVENTS[event](stage))
        assert state_of(state.jobs[JOB], Index(0)) is task.TRANSITIONS[stage.state][event]
    else:
        with pytest.raises(ImpossibleEvent):
            fold(stage, TASK_EVENTS[event](stage))
        assert fingerprint(state) == before


@pytest.mark.parametrize(("name", "event"), list(product(STAGES, OTHER_EVENTS)))
def test_no_event_about_something_else_moves_a_task(name: str, event: type[e.Event]) -> None:
    stage = stage_of(name)
    state, before = stage.world.state, stage.world.fingerprint()
    cells = bytes(state.jobs[JOB].states)
    try:
        fold(stage, OTHER_EVENTS[event](stage))
    except BrokenInvariant:
        assert fingerprint(state) == before
    if event is not e.JobsForgotten:
        assert bytes(state.jobs[JOB].states)[: len(cells)] == cells


def status_of(state: State, lease_id: LeaseId) -> AttemptStatus:
    """The fate of the attempt under this lease, read from its task."""
    record = (state.jobs[JOB].tasks or {}).get(Index(0))
    if record is not None and record.lease_id == lease_id:
        is_leased = record.state is TaskState.LEASED
        return AttemptStatus.LEASED if is_leased else AttemptStatus.IN_PROGRESS
    current = state_of(state.jobs[JOB], Index(0))
    if current is TaskState.COMMITTED:
        return AttemptStatus.COMMITTED
    return AttemptStatus.DONE if current is TaskState.SUCCEEDED else AttemptStatus.ABORTED


# One stage for each fate of an attempt, and the events that can befall one.
ATTEMPTS = {
    AttemptStatus.LEASED: ("leased", "leased alone", "leased by time", "leased in a gang"),
    AttemptStatus.IN_PROGRESS: ("running", "running by time", "running in a gang"),
    AttemptStatus.COMMITTED: ("committed, owing one", "committed, owing two", PARKED, IN_BLOCK),
    AttemptStatus.DONE: ("succeeded",),
    AttemptStatus.ABORTED: ("aside", "backing off", "quarantined", "killed by a person"),
}
ATTEMPT_EVENTS = [kind for row in attempt.TRANSITIONS.values() for kind in row]


def attempt_pairs() -> Iterator[tuple[AttemptStatus, str, type[e.Event]]]:
    for status, names in ATTEMPTS.items():
        for name, event in product(names, dict.fromkeys(ATTEMPT_EVENTS)):
            yield status, name, event


@pytest.mark.parametrize(("status", "name", "event"), list(attempt_pairs()))
def test_every_attempt_moves_by_its_table_or_the_event_is_impossible(
    status: AttemptStatus, name: str, event: type[e.Event]
) -> None:
    stage = stage_of(name)
    state, before = stage.world.state, stage.world.fingerprint()
    assert status_of(state, stage.lease_id) is status
    made = TASK_EVENTS[event](stage)
    if event in OF_ATTEMPTS:
        made = OF_ATTEMPTS[event](an_end(stage))
    target = attempt.TRANSITIONS[status].get(event)
    if target is not None and name not in OWED_SAVE.get(event, ()):
        fold(stage, made)
        assert status_of(state, stage.lease_id) is target
    else:
        with pytest.raises(ImpossibleEvent):
            fold(stage, made)
        assert fingerprint(state) == before


LEASE_EVENTS = list(dict.fromkeys(kind for row in lease.TRANSITIONS.values() for kind in row))
LIVE = ("leased", "leased by time", "running", "running by time")
ENDED = ("aside", "backing off", "committed, owing one", "succeeded", "quarantined")


def is_live(stage: Stage) -> bool:
    holder = stage.world.state.holders.get((WORKER, 1))
    return holder is not None and stage.lease_id in holder.leases


@pytest.mark.parametrize(("name", "event"), list(product((*LIVE, *ENDED), LEASE_EVENTS)))
def test_every_lease_lives_and_dies_by_its_table(name: str, event: type[e.Event]) -> None:
    stage = stage_of(name)
    before = stage.world.fingerprint()
    assert is_live(stage) == (name in LIVE)
    status = LeaseState.LIVE if name in LIVE else LeaseState.ENDED
    makers = {**OTHER_EVENTS, **TASK_EVENTS}
    made = makers[event](stage)
    if event in OF_ATTEMPTS:
        made = OF_ATTEMPTS[event](an_end(stage))
    target = lease.TRANSITIONS[status].get(event)
    if target is None and event in (e.LeasesExtended, e.LeasesRearmed):
        # These name no lease: what has ended is not among those they reach.
        fold(stage, made)
        assert not is_live(stage)
        assert stage.world.fingerprint() == before
    elif target is None or (event in TASK_EVENTS and not is_possible(name, stage, event)):
        with pytest.raises(ImpossibleEvent):
            fold(stage, made)
        assert stage.world.fingerprint() == before
    else:
        fold(stage, made)
        assert is_live(stage) == (target is LeaseState.LIVE)


def test_every_state_has_a_row() -> None:
    assert set(task.TRANSITIONS) == set(TaskState)
    assert set(attempt.TRANSITIONS) == set(AttemptStatus)
    assert set(lease.TRANSITIONS) == set(LeaseState)


def test_every_event_is_folded_rendered_and_sampled() -> None:
    assert set(e.EVENT_TYPES) == set(get_args(e.AnyEvent))
    assert set(FOLDS) == set(RENDERERS) == set(e.EVENT_TYPES)
    assert {**TASK_EVENTS, **OTHER_EVENTS}.keys() == set(e.EVENT_TYPES)


def test_every_command_has_a_decision_and_can_be_thrown() -> None:
    assert set(DECIDERS) == set(MAKERS) == set(c.COMMAND_TYPES)


def test_the_watch_knows_the_same_moves_as_the_table() -> None:
    table: dict[type[e.Event], dict[str, str]] = {}
    for source, row in task.TRANSITIONS.items():
        for event, target in row.items():
            table.setdefault(event, {})[source.name] = target.name
    assert {kind: dict.fromkeys(sources, to) for kind, (sources, to) in MOVES.items()} == table
    assert set(MOVES) <= set(JUDGES)


def test_finished_tasks_leave_only_by_a_retry_or_for_good() -> None:
    for state in task.FINISHED:
        assert set(task.TRANSITIONS[state]) <= {
            e.TasksRetried, e.TasksPurged, e.TasksRestored,
        }  # fmt: skip
        assert task.TRANSITIONS[state].get(e.TasksPurged, TaskState.KILLED) is TaskState.KILLED
    assert task.TRANSITIONS[TaskState.SUCCEEDED] == {}
