"""Giving up what waits for an operator: it never comes back, and its job may leave memory."""

import msgspec
import pytest

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decision import Accepted, Reason, Refused
from holdfast.core.errors import ImpossibleEvent
from holdfast.core.ids import Index, JobId, Position
from holdfast.core.job import JobState, job_reason, job_state, state_of
from holdfast.core.placing import Placing
from holdfast.core.record import Record
from holdfast.core.spec import JobSpec, RetryPolicy
from holdfast.core.task import TaskState
from holdfast.testing.stages import JOB, STAGES, stage_of
from holdfast.testing.world import World

PLAIN = JobSpec(name="n", kind="k", target="t", retry=RetryPolicy(kind="none"), retries=0)
GANG = msgspec.structs.replace(PLAIN, placing=Placing(gang=True))


def purge(*indices: int, job_id: str = JOB, reason: str = "old") -> c.PurgeTasks:
    return c.PurgeTasks(job_id=JobId(job_id), indices=tuple(map(Index, indices)), reason=reason)


def failed() -> World:
    """Of three items, 0 succeeded and 1 and 2 are in quarantine; the job is over."""
    world = World()
    world.submit(JOB, spec=PLAIN, items=(b"a", b"b", b"c"))
    for index, lease_id in enumerate(world.grant(JOB, 0, 1, 2)):
        (world.fail if index else world.commit)(JOB, index, lease_id)
    return world


def test_what_is_given_up_is_killed_and_holds_its_job_no_more() -> None:
    world = failed()
    place = (world.state.jobs[JOB].ends or ())[1]
    (event,) = world.did(purge(0, 1))
    assert event == e.TasksPurged(
        job_id=JOB, purged=(e.Stopped(Index(1), Position(place)),), unplaced=(), reason="old"
    )
    job = world.state.jobs[JOB]
    assert state_of(job, Index(1)) is TaskState.KILLED
    assert (job.quarantined, job.payloads) == (1, [None, None, b"c"])
    assert world.tick(keep_finished=0, keep_finished_ms=0) == ()
    world.did(purge(2))
    assert job.payloads is None
    assert world.troubles() == ()
    assert world.tick(keep_finished=0, keep_finished_ms=0) == (
        e.JobsForgotten(job_ids=(JOB,)),
    )
    assert world.troubles() == ()


def test_how_the_job_ended_stays_as_it_was() -> None:
    world = failed()
    before = (job_state(world.state.jobs[JOB]), job_reason(world.state.jobs[JOB]))
    world.did(purge(1, 2))
    assert (job_state(world.state.jobs[JOB]), job_reason(world.state.jobs[JOB])) == before
    assert before == (JobState.FAILED, "quarantined")


def test_it_never_comes_back() -> None:
    world = failed()
    world.did(purge(1))
    refused = world.do(c.RetryTasks(job_id=JOB, indices=(Index(1),)))
    assert isinstance(refused, Refused)
    assert refused.code is Reason.INVALID_TRANSITION
    (retried,) = world.did(c.RetryTasks(job_id=JOB))
    assert isinstance(retried, e.TasksRetried)
    assert retried.spans == (e.Span(Index(2), Index(2)),)
    assert world.troubles() == ()


@pytest.mark.parametrize("name", STAGES)
def test_only_what_waits_for_an_operator_is_given_up(name: str) -> None:
    stage = stage_of(name)
    before, waits = stage.world.fingerprint(), stage.state in (
        TaskState.QUARANTINED, TaskState.UNSCHEDULABLE,
    )  # fmt: skip
    decision = stage.world.do(purge(0))
    assert isinstance(decision, Accepted)
    assert decision.answer == waits
    assert stage.world.troubles() == ()
    assert (stage.world.fingerprint() != before) == waits


def test_a_gang_is_given_up_whole() -> None:
    world = World()
    world.submit(JOB, 2, spec=GANG)
    world.did(c.SetAside(job_id=JOB, indices=(Index(0),)))
    decision = world.do(purge(1))
    assert isinstance(decision, Accepted)
    assert decision.answer == 2
    assert world.troubles() == ()


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (purge(1, reason="  "), Reason.INVALID),
        (purge(9), Reason.NOT_FOUND),
        (purge(0, job_id="nobody"), Reason.NOT_FOUND),
    ],
)
def test_what_cannot_be_given_up_is_refused(command: c.PurgeTasks, code: Reason) -> None:
    decision = failed().do(command)
    assert isinstance(decision, Refused)
    assert decision.code is code


@pytest.mark.parametrize(
    "purged",
    [
        (e.Stopped(Index(1), Position(1)),),
        (e.Stopped(Index(0), Position(3)),),
        (e.Stopped(Index(9), Position(3)),),
    ],
    ids=["another end", "succeeded", "no such task"],
)
def test_an_impossible_purge_changes_nothing(purged: tuple[e.Stopped, ...]) -> None:
    world = failed()
    before = world.fingerprint()
    event = e.TasksPurged(job_id=JOB, purged=purged, unplaced=(), reason="old")
    with pytest.raises(ImpossibleEvent):
        world.append(Record(world.now, "Test", "test", "", "", (event,)))
    assert world.fingerprint() == before


@pytest.mark.parametrize("keeps", [True, False], ids=["twice over", "from elsewhere"])
def test_a_task_given_up_twice_over_or_from_elsewhere_is_impossible(keeps: bool) -> None:
    world = failed()
    (event,) = failed().did(purge(1))
    assert isinstance(event, e.TasksPurged)
    purged = event.purged if keeps else ()
    twice = msgspec.structs.replace(event, purged=purged, unplaced=event.purged)
    with pytest.raises(ImpossibleEvent):
        world.append(Record(world.now, "Test", "test", "", "", (twice,)))


def test_the_watch_objects_to_a_return_of_what_was_given_up() -> None:
    world = failed()
    world.did(purge(1))
    spans = (e.Span(Index(1), Index(1)),)
    back = e.TasksRetried(job_id=JOB, generation=2, spans=spans)
    record = Record(world.now, "Test", "test", "", "", (back,))
    told = world.watch.feed(Position(len(world.log) + 1), record)
    assert "J3" in {violation.name for violation in told}


def test_the_watch_objects_to_a_force_that_did_not_come_true() -> None:
    world = failed()
    forced = e.TaskForced(
        job_id=JOB, index=Index(1), source="QUARANTINED", target="WAITING", reason=""
    )
    record = Record(world.now, "Test", "test", "", "", (forced,))
    told = world.watch.feed(Position(len(world.log) + 1), record)
    assert {violation.name for violation in told} == {"J2"}


def seen(world: World, *indices: int, job_id: str = JOB) -> tuple[c.Picked, ...]:
    ends = world.state.jobs[JobId(job_id)].ends or ()
    return tuple(c.Picked(JobId(job_id), Index(i), Position(ends[i])) for i in indices)


def test_001_25_tasks_of_many_jobs_come_back_in_one_record_and_count_on() -> None:
    world = failed()
    world.submit("k", spec=PLAIN)
    world.fail("k", 0, *world.grant("k"))
    picked = (*seen(world, 0, 1, 2), *seen(world, 0, job_id="k"))
    decision = world.do(c.RetryQuarantined(picked=picked))
    assert isinstance(decision, Accepted)
    assert decision.answer == 3
    assert [event.generation for event in decision.events if isinstance(event, e.TasksRetried)] == [
        2, 2,
    ]  # fmt: skip
    world.grant(JOB, 1)
    assert world.task(JOB, 1).attempt == 2
    assert world.troubles() == ()


@pytest.mark.parametrize("verb", ["retry", "purge"])
def test_what_failed_again_since_it_was_seen_is_left_alone(verb: str) -> None:
    world = failed()
    picked = (*seen(world, 1), c.Picked(JobId("nobody"), Index(0), Position(3)))
    world.did(c.RetryTasks(job_id=JOB, indices=(Index(1),)))
    world.fail(JOB, 1, *world.grant(JOB, 1))
    before = world.fingerprint()
    command: c.Command = c.RetryQuarantined(picked=picked)
    if verb == "purge":
        command = c.PurgeQuarantined(picked=picked, reason="old")
    assert world.do(command) == Accepted((), 0)
    assert world.fingerprint() == before


def test_many_are_given_up_for_one_reason() -> None:
    world = failed()
    decision = world.do(c.PurgeQuarantined(picked=seen(world, 1, 2), reason="old"))
    assert isinstance(decision, Accepted)
    assert decision.answer == 2
    refused = world.do(c.PurgeQuarantined(picked=(), reason=""))
    assert isinstance(refused, Refused)
    assert refused.code is Reason.INVALID
