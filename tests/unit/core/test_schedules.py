"""Schedules in the core: set, fired, skipped and paused, each a record; a repeat adds none."""

import msgspec
import pytest

from holdfast.core import commands as c
from holdfast.core import commands_schedules as s
from holdfast.core import events as e
from holdfast.core.decision import Accepted, Reason, Refused
from holdfast.core.freeze import fingerprint, freeze, thaw
from holdfast.core.ids import Index, Instant, JobId, Position
from holdfast.core.job import JobState, job_state
from holdfast.core.record import Record
from holdfast.core.schedule import SCHEDULED_AT, Definition, Timing
from holdfast.core.spec import JobSpec
from holdfast.core.transactions import transaction_of
from holdfast.testing.world import MAIL, START, World

EVERY = Timing(every_ms=60_000)
FIRST = Instant(START + 60_000)
SECOND = Instant(START + 120_000)
THIRD = Instant(START + 180_000)
STAMP = b"2026-03-29T01:00:00.000Z"


def definition(**changes: object) -> Definition:
    spec = JobSpec(name="report", kind="function", target="m:report")
    made = Definition(timing=EVERY, spec=spec, items=(b"item",))
    return msgspec.structs.replace(made, **changes)


def setting(name: str = "nightly", **changes: object) -> s.SetSchedule:
    made = s.SetSchedule(name=name, definition=definition(), next_wall=FIRST)
    return msgspec.structs.replace(made, **changes)


def firing(at_wall: int = FIRST, next_wall: int = SECOND, **changes: object) -> s.FireSchedule:
    made = s.FireSchedule(
        name="nightly", at_wall=Instant(at_wall), next_wall=Instant(next_wall), stamp=STAMP
    )
    return msgspec.structs.replace(made, **changes)


def a_world(**changes: object) -> World:
    world = World()
    world.did(setting(definition=definition(**changes)))
    return world


def code(decision: object) -> str:
    return decision.code if isinstance(decision, Refused) else "accepted"


def names(events: tuple[e.AnyEvent, ...]) -> list[str]:
    return [type(event).__name__ for event in events]


def survives(world: World) -> None:
    assert fingerprint(world.replayed()) == world.fingerprint()
    thawed = thaw(freeze(world.state))
    assert fingerprint(thawed) == world.fingerprint()
    timers = {
        (schedule.next_wall, name)
        for name, schedule in world.state.schedules.items()
        if schedule.next_wall and not schedule.paused
    }
    assert timers == set(thawed.schedule_timers) <= set(world.state.schedule_timers)
    assert world.troubles() == ()


def test_a_schedule_is_set_once_and_the_same_again_adds_nothing() -> None:
    world = World()
    assert names(world.did(setting())) == ["ScheduleSet"]
    assert world.did(setting(next_wall=SECOND)) == ()
    assert world.state.schedules["nightly"].next_wall == FIRST
    assert dict(world.state.schedules["nightly"].definition.spec.labels) == {"schedule": "nightly"}
    survives(world)


def test_another_definition_under_a_name_in_use_is_refused_unless_it_replaces() -> None:
    world = a_world()
    other = setting(definition=definition(overlap="allow"), next_wall=SECOND)
    before = world.fingerprint()
    assert code(world.do(other)) == Reason.CONFLICT
    assert world.fingerprint() == before
    revision = world.state.schedules["nightly"].revision
    stale = msgspec.structs.replace(other, replace=True, revision=Position(revision + 1))
    assert code(world.do(stale)) == Reason.CONFLICT
    meant = msgspec.structs.replace(other, replace=True, revision=revision)
    assert names(world.did(meant)) == ["ScheduleSet"]
    schedule = world.state.schedules["nightly"]
    assert (schedule.next_wall, schedule.definition.overlap) == (SECOND, "allow")
    assert schedule.revision > revision
    survives(world)


@pytest.mark.parametrize(
    "changes",
    [
        {"name": ""},
        {"name": "a\nb"},
        {"name": "x" * 201},
        {"next_wall": Instant(0)},
        {"next_wall": Instant(-5)},
        {"definition": definition(timing=Timing())},
        {"definition": definition(timing=Timing(cron="* * * * *", every_ms=1_000))},
        {"definition": definition(timing=Timing(every_ms=999))},
        {"definition": definition(timing=Timing(every_ms=-1))},
        {"definition": definition(timing=Timing(cron="* * * * *", zone=""))},
        {"definition": definition(missed="some")},
        {"definition": definition(overlap="")},
        {"definition": definition(items=())},
        {"definition": definition(items=(b"a", b"b"), count=3)},
    ],
    ids=str,
)
def test_a_schedule_that_makes_no_sense_is_refused(changes: dict[str, object]) -> None:
    world = World()
    before = world.fingerprint()
    assert code(world.do(setting(**changes))) == Reason.INVALID
    assert world.fingerprint() == before


def test_a_fire_submits_its_run_in_the_same_record_and_only_once() -> None:
    world = a_world(items=(b"for " + SCHEDULED_AT.encode(),))
    events = world.did(firing())
    assert names(events) == ["JobSubmitted", "ScheduleFired"]
    submitted, fired = events
    assert isinstance(submitted, e.JobSubmitted)
    assert isinstance(fired, e.ScheduleFired)
    assert submitted.items == (b"for " + STAMP,)
    assert fired.job_id == submitted.job_id == world.state.schedules["nightly"].last_job
    assert world.did(firing()) == ()
    assert world.did(firing(next_wall=THIRD)) == ()
    schedule = world.state.schedules["nightly"]
    assert (schedule.last_wall, schedule.next_wall, schedule.runs) == (FIRST, SECOND, 1)
    survives(world)


def test_the_clock_takes_instants_in_their_order() -> None:
    world = a_world()
    assert code(world.do(firing(SECOND, THIRD))) == Reason.INVALID
    assert code(world.do(firing(FIRST, FIRST))) == Reason.INVALID
    assert code(world.do(firing(name="nobody"))) == Reason.NOT_FOUND
    assert code(world.do(firing(cause="backfill"))) == Reason.INVALID
    assert world.state.jobs == {}


def running(world: World) -> JobId:
    """The run of the first instant, under way."""
    world.did(firing())
    job_id = world.state.schedules["nightly"].last_job
    (lease_id,) = world.grant(job_id, 0)
    world.start(job_id, 0, lease_id)
    return job_id


def test_overlap_allow_runs_both() -> None:
    world = a_world(overlap="allow")
    running(world)
    assert names(world.did(firing(SECOND, THIRD))) == ["JobSubmitted", "ScheduleFired"]
    survives(world)


def test_overlap_skip_leaves_the_instant_out_and_says_so() -> None:
    world = a_world(overlap="skip")
    running(world)
    (skipped,) = world.did(firing(SECOND, THIRD))
    assert isinstance(skipped, e.ScheduleSkipped)
    assert (skipped.from_wall, skipped.count, skipped.why) == (SECOND, 1, "overlap")
    assert world.did(firing(SECOND, THIRD)) == ()
    survives(world)


def test_overlap_replace_stops_the_run_before_in_the_same_record() -> None:
    world = a_world(overlap="replace")
    former = running(world)
    events = world.did(firing(SECOND, THIRD))
    assert names(events) == ["JobCancelled", "TasksKilled", "JobSubmitted", "ScheduleFired"]
    job = world.state.jobs[former]
    assert (job_state(job), job.cause) == (JobState.KILLED, "replaced")
    assert len(world.state.jobs) == 2
    survives(world)


@pytest.mark.parametrize("overlap", ["allow", "skip", "replace"])
def test_a_run_that_is_over_is_in_nobodys_way(overlap: str) -> None:
    world = a_world(overlap=overlap)
    job_id = running(world)
    world.commit(job_id, 0, world.task(job_id).lease_id)
    assert names(world.did(firing(SECOND, THIRD))) == ["JobSubmitted", "ScheduleFired"]
    survives(world)


def test_a_run_that_only_owes_deliveries_is_in_nobodys_way() -> None:
    world = a_world(overlap="replace")
    job_id = running(world)
    world.commit(job_id, 0, world.task(job_id).lease_id, owed=(MAIL,))
    assert names(world.did(firing(SECOND, THIRD))) == ["JobSubmitted", "ScheduleFired"]


def test_a_paused_schedule_is_not_fired_by_the_clock_and_goes_on_from_now() -> None:
    world = a_world()
    pause = s.PauseSchedule(name="nightly", reason="holidays")
    assert names(world.did(pause)) == ["SchedulePaused"]
    assert world.did(pause) == ()
    assert code(world.do(firing())) == Reason.INVALID_TRANSITION
    survives(world)
    resume = s.ResumeSchedule(name="nightly", next_wall=THIRD)
    assert names(world.did(resume)) == ["ScheduleResumed"]
    assert world.did(resume) == ()
    assert world.state.schedules["nightly"].next_wall == THIRD
    survives(world)


def test_a_schedule_never_goes_back_behind_what_it_has_taken() -> None:
    world = a_world()
    world.did(firing())
    world.did(s.PauseSchedule(name="nightly"))
    assert code(world.do(s.ResumeSchedule(name="nightly", next_wall=FIRST))) == Reason.INVALID
    again = setting(definition=definition(overlap="allow"), replace=True)
    assert code(world.do(again)) == Reason.INVALID


def test_a_run_by_hand_leaves_the_clock_alone_and_runs_while_paused() -> None:
    world = a_world()
    world.did(s.PauseSchedule(name="nightly"))
    by_hand = firing(START, 0, cause="by_hand")
    assert names(world.did(by_hand)) == ["JobSubmitted", "ScheduleFired"]
    schedule = world.state.schedules["nightly"]
    assert (schedule.next_wall, schedule.last_wall, schedule.runs) == (FIRST, 0, 1)
    survives(world)


def moments(*walls: int) -> tuple[s.Moment, ...]:
    return tuple(s.Moment(Instant(wall), b"%d" % wall) for wall in walls)


def test_a_backfill_is_one_record_and_leaves_out_what_was_run() -> None:
    world = a_world()
    world.did(firing())
    command = s.BackfillSchedule(name="nightly", moments=moments(1_000, 2_000, FIRST))
    events = world.did(command)
    assert names(events) == ["JobSubmitted", "ScheduleFired"] * 2
    fired = [event for event in events if isinstance(event, e.ScheduleFired)]
    assert [(f.at_wall, f.cause) for f in fired] == [(1_000, "backfill"), (2_000, "backfill")]
    schedule = world.state.schedules["nightly"]
    assert (schedule.next_wall, schedule.last_wall, schedule.runs) == (SECOND, FIRST, 3)
    assert schedule.last_job == "1"
    assert world.did(command) == ()
    survives(world)


@pytest.mark.parametrize(
    ("walls", "reason"),
    [((2, 1), Reason.INVALID), ((1, 1), Reason.INVALID), ((0,), Reason.INVALID),
     (tuple(range(1, 1_002)), Reason.TOO_LARGE)],
    ids=["unordered", "twice", "never", "too many"],
)  # fmt: skip
def test_a_backfill_that_makes_no_sense_is_refused(walls: tuple[int, ...], reason: str) -> None:
    world = a_world()
    command = s.BackfillSchedule(name="nightly", moments=moments(*walls))
    assert code(world.do(command)) == reason
    assert world.state.jobs == {}


def test_skipped_instants_are_counted_and_never_come_back() -> None:
    world = a_world()
    skip = s.SkipInstants(
        name="nightly", from_wall=FIRST, until_wall=SECOND, count=2, next_wall=THIRD, why="missed"
    )
    assert names(world.did(skip)) == ["ScheduleSkipped"]
    assert world.did(skip) == ()
    schedule = world.state.schedules["nightly"]
    assert (schedule.last_wall, schedule.next_wall, schedule.skipped) == (SECOND, THIRD, 2)
    survives(world)
    for wrong in ({"count": 0}, {"why": ""}, {"until_wall": SECOND}, {"next_wall": THIRD}):
        third = msgspec.structs.replace(
            skip, from_wall=THIRD, until_wall=THIRD, next_wall=Instant(THIRD + 1)
        )
        assert code(world.do(msgspec.structs.replace(third, **wrong))) == Reason.INVALID


def test_a_removed_schedule_leaves_its_runs() -> None:
    world = a_world()
    job_id = running(world)
    assert names(world.did(s.RemoveSchedule(name="nightly"))) == ["ScheduleRemoved"]
    assert code(world.do(s.RemoveSchedule(name="nightly"))) == Reason.NOT_FOUND
    assert job_state(world.state.jobs[job_id]) is JobState.RUNNING
    survives(world)


def test_a_schedule_made_again_does_not_run_an_instant_that_ran() -> None:
    """Somebody sets the wall clock back, removes the schedule and makes it anew."""
    world = a_world()
    world.did(firing())
    world.did(s.RemoveSchedule(name="nightly"))
    world.did(setting())
    (skipped,) = world.did(firing())
    assert isinstance(skipped, e.ScheduleSkipped)
    assert skipped.why == "known"
    assert len(world.state.jobs) == 1


@pytest.mark.parametrize("kept", range(12))
def test_a_crash_after_any_record_neither_loses_a_run_nor_doubles_it(kept: int) -> None:
    world = a_world(overlap="allow")
    commands: list[c.Command] = [
        firing(FIRST, SECOND),
        firing(START, 0, cause="by_hand", request_key="r", request_digest=b"d"),
        s.BackfillSchedule(name="nightly", moments=moments(1_000, 2_000)),
        firing(SECOND, THIRD),
    ]
    for command in commands:
        world.did(command)
    world.crash(lose=min(kept, len(world.log) - 2))
    for command in commands:
        world.do(command)
    assert len(world.state.jobs) == 5
    assert world.state.schedules["nightly"].next_wall == THIRD
    survives(world)


def test_a_fire_reads_as_a_story() -> None:
    world = a_world()
    world.did(firing())
    position, record = world.records()[-1]
    actions = transaction_of(record, position).actions
    fired = actions[-1]
    assert (fired.action, fired.entity) == ("schedule_fired", "nightly")
    assert fired.details == {"job_id": "1", "at_wall": FIRST, "cause": "due"}


LIES: dict[str, tuple[str, e.AnyEvent]] = {
    "a fire without a run": (
        "T4",
        e.ScheduleFired(
            name="nightly", at_wall=FIRST, next_wall=SECOND, job_id=JobId("9"), cause="due"
        ),
    ),
    "a fire out of turn": (
        "T3",
        e.ScheduleFired(
            name="nightly", at_wall=SECOND, next_wall=THIRD, job_id=JobId("9"), cause="due"
        ),
    ),
    "a run by hand that moves the clock": (
        "T3",
        e.ScheduleFired(
            name="nightly", at_wall=FIRST, next_wall=THIRD, job_id=JobId("9"), cause="by_hand"
        ),
    ),
    "a next instant that has passed": (
        "T2",
        e.ScheduleSkipped(
            name="nightly", from_wall=FIRST, until_wall=SECOND, count=2, why="missed",
            next_wall=SECOND,
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_the_watch_objects_to_a_history_that_lies(lie: str) -> None:
    name, event = LIES[lie]
    world = a_world()
    record = Record(world.now, "Test", "test", "", "", (event,))
    told = world.watch.feed(Position(len(world.log) + 1), record)
    assert name in {violation.name for violation in told}


def test_accepted_fires_answer_with_the_id_of_the_run() -> None:
    world = a_world()
    decision = world.do(firing())
    assert isinstance(decision, Accepted)
    assert decision.answer == "1"
    assert world.state.jobs[JobId("1")].states[Index(0)] == 0
