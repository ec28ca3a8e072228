"""Quarantine by decision: what it reaches, what it leaves, and what history keeps of it."""

import msgspec
import pytest

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decision import Accepted, Reason, Refused
from holdfast.core.ids import Index, JobId, LeaseId, Position
from holdfast.core.job import JobState, counts, job_state, state_of
from holdfast.core.moves import moves_of
from holdfast.core.placing import ALL_TASKS, SUCCESS, After, Placing
from holdfast.core.record import Record
from holdfast.core.spec import JobSpec, RetryPolicy
from holdfast.core.task import FINISHED, TaskState
from holdfast.core.transactions import transaction_of
from holdfast.testing.stages import JOB, STAGES, stage_of
from holdfast.testing.world import World

AGAIN = JobSpec(name="n", kind="k", target="t", retries=1, retry=RetryPolicy(kind="none"))
GANG = JobSpec(name="n", kind="k", target="t", placing=Placing(gang=True))


def aside(*indices: int, job_id: str = JOB, cause: str = "operator") -> c.SetAside:
    return c.SetAside(
        job_id=JobId(job_id), indices=tuple(map(Index, indices)), cause=cause, note="look at it"
    )


def worn() -> World:
    """Of five tasks, 0 succeeded, 1 runs its second attempt, 2 waits for its second, 3 is leased
    for the first time, and 4 was never touched."""
    world = World()
    world.submit(JOB, 5, spec=AGAIN)
    leases = world.grant(JOB, 0, 1, 2, 3)
    world.commit(JOB, 0, leases[0])
    world.fail(JOB, 1, leases[1])
    world.fail(JOB, 2, leases[2])
    (again,) = world.grant(JOB, 1)
    world.start(JOB, 1, again)
    return world


def told_by(world: World, command: c.Command) -> e.TasksSetAside:
    (event,) = world.did(command)
    assert isinstance(event, e.TasksSetAside)
    assert world.troubles() == ()
    assert msgspec.json.encode(world.replayed().jobs[JOB].states) == msgspec.json.encode(
        world.state.jobs[JOB].states
    )
    return event


def test_every_unfinished_task_is_put_aside_and_charged_nothing() -> None:
    world = worn()
    past = world.task(JOB, 2).previous
    event = told_by(world, aside(0, 1, 2, 3, 4))
    assert event.spans == (e.Span(Index(2), Index(2)), e.Span(Index(4), Index(4)))
    assert event.stopped == (e.Stopped(Index(2), past),)
    charged = [(end.index, end.charged, end.failures) for end in event.ends]
    assert charged == [(1, "", 1), (3, "", 0)]
    job = world.state.jobs[JOB]
    assert counts(job)[TaskState.QUARANTINED] == job.quarantined == 4
    assert job_state(job) is JobState.FAILED


@pytest.mark.parametrize("name", STAGES)
def test_in_every_state_it_is_put_aside_or_left_as_it_ended(name: str) -> None:
    stage = stage_of(name)
    before, fingerprint = stage.state, stage.world.fingerprint()
    decision = stage.world.do(aside(0))
    after = state_of(stage.world.state.jobs[JOB], Index(0))
    if before is TaskState.COMMITTED:
        assert isinstance(decision, Refused)
        assert decision.code is Reason.INVALID_TRANSITION
    elif before in FINISHED:
        assert decision == Accepted((), 0)
    else:
        assert after is TaskState.QUARANTINED
        assert stage.world.troubles() == ()
        return
    assert stage.world.fingerprint() == fingerprint


def test_whoever_ran_it_has_lost_its_lease_and_a_retry_counts_on() -> None:
    world = worn()
    lease_id = world.task(JOB, 1).lease_id
    told_by(world, aside(1))
    late = world.commit(JOB, 1, lease_id)
    assert isinstance(late, Accepted)
    assert late.events == ()
    world.did(c.RetryTasks(job_id=JOB, indices=(Index(1),)))
    (again,) = world.grant(JOB, 1)
    assert world.task(JOB, 1).attempt == 3
    assert again > lease_id
    assert (world.task(JOB, 1).failures, world.state.jobs[JOB].generation) == (0, 2)
    assert world.troubles() == ()


def test_an_item_keeps_its_payload_for_the_retry() -> None:
    world = World()
    world.submit(JOB, items=(b"a", b"b"))
    told_by(world, aside(0, 1))
    assert world.state.jobs[JOB].payloads == [b"a", b"b"]


def test_a_gang_goes_whole() -> None:
    world = World()
    world.submit(JOB, 2, spec=GANG)
    assert len(world.grant_gang(JOB, "v", "w")) == 2
    event = told_by(world, aside(1))
    assert [end.index for end in event.ends] == [0, 1]


def test_who_waits_for_the_task_is_told() -> None:
    world = World()
    world.submit(JOB, 1)
    world.submit("k", 1, after=(After(JOB, ALL_TASKS, SUCCESS),))
    told_by(world, aside(0))
    world.settle()
    assert job_state(world.state.jobs[JobId("k")]) is JobState.FAILED


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (aside(0, cause="boredom"), Reason.INVALID),
        (aside(9), Reason.NOT_FOUND),
        (aside(0, job_id="nobody"), Reason.NOT_FOUND),
    ],
)
def test_what_cannot_be_put_aside_is_refused_and_changes_nothing(
    command: c.SetAside, code: Reason
) -> None:
    world = worn()
    before = world.fingerprint()
    decision = world.do(command)
    assert isinstance(decision, Refused)
    assert decision.code is code
    assert world.fingerprint() == before


def test_the_second_time_adds_nothing() -> None:
    world = worn()
    told_by(world, aside(1, 4))
    assert world.do(aside(1, 4)) == Accepted((), 0)


def test_the_record_reads_as_what_was_done() -> None:
    world = worn()
    told_by(world, aside(1, 4))
    position, record = world.records()[-1]
    actions = [(a.action, a.entity) for a in transaction_of(record, position).actions]
    assert ("task_set_aside", "j/4") in actions
    assert ("task_set_aside", "j/1") in actions
    assert ("task_killed", "j/1") in actions
    # Whoever held it or did not: the reason is that of the decision.
    moves = {move.tasks: (move.target, move.reason) for move in moves_of(record)}
    assert moves == dict.fromkeys(("j/1", "j/4"), ("QUARANTINED", "look at it"))


LIES = {
    "a lease that is not current": ("S4", {"lease_id": LeaseId(99)}, {}),
    "a charge": ("B2", {"charged": "failures", "failures": 2}, {}),
    "a charge that is not told": ("B2", {"losses": 1}, {}),
    "no cause": ("B4", {}, {"cause": ""}),
    "a held task told as waiting": (
        "J2", {}, {"ends": (), "spans": (e.Span(Index(1), Index(1)),)},
    ),
    "a task that succeeded": ("J3", {}, {"ends": (), "spans": (e.Span(Index(0), Index(0)),)}),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_the_watch_objects_to_a_setting_aside_with(lie: str) -> None:
    name, of_end, of_event = LIES[lie]
    world = worn()
    twin = worn()
    decision = twin.do(aside(1))
    assert isinstance(decision, Accepted)
    (event,) = decision.events
    assert isinstance(event, e.TasksSetAside)
    end = msgspec.structs.replace(event.ends[0], **of_end)
    event = msgspec.structs.replace(event, **{"ends": (end,), **of_event})
    record = Record(world.now, "Test", "test", "", "", (event,))
    told = world.watch.feed(Position(len(world.log) + 1), record)
    assert name in {violation.name for violation in told}
