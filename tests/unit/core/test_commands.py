"""Every situation meets every command: it is allowed exactly where it should be, or refused with
a reason; and whatever is refused, late or repeated changes nothing."""

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from holdfast.core import commands as c
from holdfast.core.decide import decide
from holdfast.core.decision import Accepted, Decision, Refused
from holdfast.core.ids import Index, Instant, JobId, LeaseId, Position, WorkerId
from holdfast.core.owed import DebtName
from holdfast.core.placing import After
from holdfast.core.reports import Done, Failed, Released, Started
from holdfast.core.spec import JobSpec
from holdfast.core.task import TaskState
from holdfast.testing.stages import JOB, SPEC, STAGES, TERM_MS, Stage, stage_of
from holdfast.testing.strategies import any_command, command_of, pass_time
from holdfast.testing.throws import ABSURD
from holdfast.testing.world import MAIL, World

GOLDEN = Path(__file__).parents[2] / "golden" / "commands.json"
W, FIRST, NOBODY = WorkerId("w"), Index(0), JobId("nobody")

Who = tuple[WorkerId, int, int]


def reports(worker: WorkerId, incarnation: int, lease: int) -> dict[str, c.Command]:
    """The four things a worker reports, under this lease."""
    at = (JOB, FIRST, LeaseId(lease))
    who = {"worker": worker, "incarnation": incarnation}
    failed = Failed(*at, 0, "failed", "boom", "", 1)
    return {
        "start": c.StartAttempts(**who, started=(Started(*at, 0),)),
        "commit": c.CommitTasks(**who, done=(Done(*at, 0, b"r"),)),
        "commit owing": c.CommitTasks(**who, done=(Done(*at, 0, b"r", (MAIL,)),)),
        "fail": c.FailAttempt(**who, failed=failed, roll=0.0),
        "release": c.ReleaseAttempts(**who, released=(Released(*at, False),)),
        "undelivered": c.ReleaseAttempts(
            **who, released=(Released(*at, False),), reason="undelivered"
        ),
    }


def owed_commands(name: DebtName) -> dict[str, c.Command]:
    """Everything that can be asked about an entry."""
    failed = c.FailDelivery(name=name, error="no answer", most_tries=2, delay_ms=1_000)
    return {
        "confirm": c.ConfirmDeliveries(names=(name,)),
        "fail delivery": failed,
        "fail delivery for good": msgspec.structs.replace(failed, is_final=True),
        "park": c.ParkEffects(names=(name,), error="nobody can"),
        "retry effect": c.RetryEffects(names=(name,)),
        "discard": c.DiscardEffects(names=(name,), reason="not needed"),
    }


def seats(world: World) -> tuple[c.Member, ...]:
    count = world.state.jobs[JOB].count
    return tuple(c.Member(Index(index), W, 1, index + 5, 0) for index in range(count))


def results(world: World) -> tuple[c.Finished, ...]:
    tasks = (world.state.jobs[JOB].tasks or {}).values()
    return tuple(
        c.Finished(t.worker, t.incarnation, Done(JOB, t.index, t.lease_id, 0, b"r")) for t in tasks
    )


def terms(world: World, **changes: Any) -> JobSpec:
    return msgspec.structs.replace(world.state.jobs[JOB].spec, **changes)


def commands_for(stage: Stage) -> dict[str, c.Command]:
    """Every kind of command about task j/0 as it stands."""
    world = stage.world
    return {
        **reports(W, 1, stage.lease_id),
        "open": c.OpenLog(
            log_id="log", epoch=2, version="", host="", pid=2, torn_bytes=0, term_ms=TERM_MS
        ),
        "open, fenced": c.OpenLog(
            log_id="log", epoch=1, version="", host="", pid=2, torn_bytes=0, term_ms=TERM_MS
        ),
        "submit again": c.SubmitJob(job_id=JOB, spec=SPEC, count=1),
        "add": c.AddTasks(job_id=JOB, first=1, items=(b"x",)),
        "seal": c.SealJob(job_id=JOB, count=1),
        "grant": c.GrantLeases(
            job_id=JOB, worker=W, incarnation=1, slot=0, indices=(FIRST,), term_ms=0
        ),
        "extend": c.ExtendLeases(worker=W, incarnation=1, term_ms=10 * TERM_MS),
        "expire": c.ExpireLeases(worker=W, incarnation=1),
        "rearm": c.RearmLeases(term_ms=10 * TERM_MS),
        "lose worker": c.LoseWorker(worker=W, incarnation=1, error="gone"),
        "kill job": c.KillJob(job_id=JOB, reason="enough"),
        "kill task": c.KillTasks(job_id=JOB, indices=(FIRST,), reason="enough"),
        "reschedule": c.RescheduleTask(job_id=JOB, index=FIRST, delay_ms=5),
        "retry": c.RetryTasks(job_id=JOB, indices=(FIRST,)),
        "retry all": c.RetryTasks(job_id=JOB),
        "set aside": c.SetAside(job_id=JOB, indices=(FIRST,)),
        "purge": c.PurgeTasks(job_id=JOB, indices=(FIRST,), reason="old"),
        "force to wait": c.ForceTask(
            job_id=JOB, index=FIRST, target="WAITING", reason="by hand"
        ),
        **owed_commands(DebtName(JOB, FIRST, 0)),
        "snapshot": c.InstallSnapshot(at_position=Position(1), state_hash="x"),
        "settle": c.SettleTies(jobs=(JOB,)),
        "grant gang": c.GrantGang(job_id=JOB, members=seats(world)),
        "commit gang": c.CommitGang(job_id=JOB, members=results(world)),
        "preempt": c.PreemptAttempts(leases=(stage.lease_id,), reason="more urgent work"),
        "preempt by itself": c.PreemptAttempts(leases=(stage.lease_id,), reason="", by=JOB),
        "recover": c.RecoverStalled(
            job_id=JOB, index=FIRST, lease_id=stage.lease_id, error="it hung", delay_ms=60_000
        ),
        "recover another": c.RecoverStalled(
            job_id=JOB, index=FIRST, lease_id=LeaseId(99), error="it hung", delay_ms=60_000
        ),
        "retry under other terms": c.RetryTasks(job_id=JOB, spec=terms(world, retries=5)),
        "retry as another job": c.RetryTasks(job_id=JOB, spec=terms(world, target="other")),
        "limit": c.SetLimit(scope="user", name="ann", running=1),
        "limit nothing": c.SetLimit(scope="user", name="ann"),
        "clear limit": c.ClearLimit(scope="user", name="ann"),
        "come after": c.SubmitJob(spec=SPEC, count=1, after=(After(JOB),)),
        "come after its failure": c.SubmitJob(
            spec=SPEC, count=1, after=(After(JOB, FIRST, "failure"),)
        ),
        "be a child": c.SubmitJob(spec=SPEC, count=1, parent=JOB),
        "stop replica": c.StopReplicas(job_id=JOB, indices=(FIRST,)),
        "end service": c.EndService(job_id=JOB),
        "tick": c.Tick(wall=world.wall),
        "tick, much later": c.Tick(wall=Instant(world.wall + 10**6)),
    }


def outcome(decision: Decision) -> str:
    if isinstance(decision, Refused):
        return f"refused: {decision.code}"
    if decision.events:
        return " ".join(type(event).__name__ for event in decision.events)
    return "lease lost" if decision.answer and isinstance(decision.answer, tuple) else "nothing"


def ask(stage: Stage, command: c.Command) -> str:
    """The outcome, with the proof that a command without events left no trace."""
    before = stage.world.fingerprint()
    decision = decide(stage.world.state, command, stage.world.now)
    assert stage.world.fingerprint() == before
    assert stage.world.do(command) == decision
    if isinstance(decision, Refused) or not decision.events:
        assert stage.world.fingerprint() == before
    assert stage.world.troubles() == ()
    return outcome(decision)


def test_there_is_an_answer_written_down_for_every_stage_and_no_other() -> None:
    assert list(json.loads(GOLDEN.read_text(encoding="utf-8"))) == list(STAGES)


@pytest.mark.parametrize("name", STAGES)
def test_every_command_in_this_state_answers_as_written_down(name: str, blessing: bool) -> None:
    said = {
        asked: ask(stage_of(name), command)
        for asked, command in commands_for(stage_of(name)).items()
    }
    written = json.loads(GOLDEN.read_text(encoding="utf-8")) if GOLDEN.exists() else {}
    if blessing:
        written = {other: written.get(other, {}) for other in STAGES} | {name: said}
        GOLDEN.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    assert said == written[name]


W_, L_, R_ = TaskState.WAITING, TaskState.LEASED, TaskState.RUNNING
C_, IN_BLOCK = TaskState.COMMITTED, "committed, in its block"
PAST = ("running past its time",)
ASLEEP = (
    "fresh in a delayed job", "fresh in a dated job", "backing off", "delayed", "dated",
    "restarting in a service",
)  # fmt: skip
BLOCKED = ("fresh in a blocked job", "aside in a blocked job")
GANG = ("fresh in a gang", "leased in a gang", "running in a gang")
LONE = tuple(name for name in STAGES if name not in GANG)

FOR_GOOD = ("killed by a person", "given up", "given up, never placed")
COMES_BACK = (TaskState.QUARANTINED, TaskState.KILLED, TaskState.UNSCHEDULABLE)

# Where a command about a task may change something, said a second time and by hand: the states,
# and the stages of those states where it may not.
ALLOWED: dict[str, tuple[tuple[TaskState, ...], tuple[str, ...]]] = {
    "start": ((L_,), ()),
    "commit": ((L_, R_), (*PAST, *GANG)),
    "commit owing": ((L_, R_), (*PAST, *GANG)),
    "fail": ((L_, R_), PAST),
    "release": ((L_, R_), PAST),
    "undelivered": ((L_,), ()),
    "grant": ((W_,), (*ASLEEP, *BLOCKED, *GANG)),
    "grant gang": ((W_,), LONE),
    "commit gang": ((L_, R_), LONE),
    "preempt": ((L_, R_), ()),
    "preempt by itself": ((), ()),
    "lose worker": (
        (L_, R_, C_), tuple(name for name in STAGES if "committed" in name and name != IN_BLOCK),
    ),
    "kill job": ((W_, L_, R_), ()),
    "kill task": ((W_, L_, R_), GANG),
    "reschedule": ((W_,), ()),
    "retry": (COMES_BACK, FOR_GOOD),
    "retry all": (COMES_BACK, FOR_GOOD),
    "set aside": ((W_, L_, R_), ()),
    "purge": ((TaskState.QUARANTINED, TaskState.UNSCHEDULABLE), ()),
    "force to wait": ((L_, R_, *COMES_BACK), FOR_GOOD),
    "confirm": ((C_,), ()),
    "fail delivery": ((C_,), ("committed, its entry parked",)),
    "fail delivery for good": ((C_,), ("committed, its entry parked",)),
    "park": ((C_,), ("committed, its entry parked",)),
    "retry effect": ((C_,), ("committed, owing one", "committed, owing two", IN_BLOCK)),
    "discard": ((C_,), (IN_BLOCK,)),
    "retry under other terms": (COMES_BACK, FOR_GOOD),
    "retry as another job": ((), ()),
    "settle": ((), ()),
    "submit again": ((), ()),
    "open, fenced": ((), ()),
}


@pytest.mark.parametrize(("name", "asked"), list(product(STAGES, ALLOWED)))
def test_a_command_changes_something_exactly_where_it_may(name: str, asked: str) -> None:
    stage = stage_of(name)
    states, save = ALLOWED[asked]
    said = ask(stage, commands_for(stage)[asked])
    changed = not said.startswith("refused") and said not in ("nothing", "lease lost")
    assert changed == (stage.state in states and name not in save), said


STRANGERS: dict[str, Callable[[Stage], Who]] = {
    "stale lease": lambda stage: (W, 1, stage.lease_id - 1),
    "lease to come": lambda stage: (W, 1, stage.world.state.next_lease),
    "no lease": lambda stage: (W, 1, 0),
    "nobody at all": lambda stage: (WorkerId(""), 0, 0),
    "another worker": lambda stage: (WorkerId("v"), 1, stage.lease_id),
    "another incarnation": lambda stage: (W, 2, stage.lease_id),
}


@pytest.mark.parametrize(("name", "stranger"), list(product(STAGES, STRANGERS)))
def test_only_the_holder_of_the_current_lease_is_heard(name: str, stranger: str) -> None:
    stage = stage_of(name)
    for command in reports(*STRANGERS[stranger](stage)).values():
        assert ask(stage, command) == "lease lost"


@pytest.mark.parametrize("name", STAGES)
def test_a_job_nobody_knows_is_not_found(name: str) -> None:
    stage = stage_of(name)
    for command in (
        c.AddTasks(job_id=NOBODY, first=0, items=()),
        c.SealJob(job_id=NOBODY, count=0),
        c.GrantLeases(job_id=NOBODY, worker=W, incarnation=1, slot=0, indices=(), term_ms=0),
        c.KillJob(job_id=NOBODY),
        c.KillTasks(job_id=NOBODY, indices=()),
        c.RescheduleTask(job_id=NOBODY, index=FIRST),
        c.RetryTasks(job_id=NOBODY),
        *owed_commands(DebtName(NOBODY, FIRST, 0)).values(),
    ):
        assert ask(stage, command) == "refused: not_found"


@pytest.mark.parametrize(("name", "index"), list(product(STAGES, (2, *ABSURD))))
def test_a_task_that_is_not_there_is_never_touched(name: str, index: int) -> None:
    stage, place = stage_of(name), Index(index)
    for command in (
        c.KillTasks(job_id=JOB, indices=(place,)),
        c.RescheduleTask(job_id=JOB, index=place),
        c.RetryTasks(job_id=JOB, indices=(place,)),
        *owed_commands(DebtName(JOB, place, 0)).values(),
    ):
        assert ask(stage, command) == "refused: not_found"
    grant = c.GrantLeases(
        job_id=JOB, worker=W, incarnation=1, slot=0, indices=(place,), term_ms=0
    )
    assert ask(stage, grant) == "refused: invalid_transition"
    done = Done(JOB, place, stage.lease_id, 0, b"r")
    assert ask(stage, c.CommitTasks(worker=W, incarnation=1, done=(done,))) == "lease lost"


def test_the_same_lease_twice_in_one_batch_counts_once() -> None:
    for name in ("leased", "running"):
        for asked, event in (("commit", "TasksCompleted"), ("release", "AttemptsReturned")):
            stage = stage_of(name)
            command = reports(W, 1, stage.lease_id)[asked]
            if isinstance(command, c.CommitTasks):
                twice: c.Command = c.CommitTasks(worker=W, incarnation=1, done=command.done * 2)
            else:
                assert isinstance(command, c.ReleaseAttempts)
                released = command.released * 2
                twice = c.ReleaseAttempts(worker=W, incarnation=1, released=released)
            assert ask(stage, twice).split()[-1] == event
            assert stage.world.state.jobs[JOB].active == 0


def test_a_batch_of_good_and_late_reports_takes_the_good_ones() -> None:
    world = World()
    world.submit(JOB, 3)
    one, two, three = world.grant(JOB, 0, 1, 2)
    world.release(JOB, 1, two)
    done = tuple(Done(JOB, Index(i), x, 0, b"") for i, x in enumerate((one, two, three)))
    decision = world.do(c.CommitTasks(worker=W, incarnation=1, done=done))
    assert isinstance(decision, Accepted)
    assert [lost.lease_id for lost in decision.answer] == [two]  # type: ignore[attr-defined]
    assert world.state.jobs[JOB].unfinished == 1
    assert world.troubles() == ()


def test_a_grant_that_names_a_task_twice_is_refused_whole() -> None:
    stage = stage_of("fresh")
    twice = c.GrantLeases(
        job_id=JOB, worker=W, incarnation=1, slot=0, indices=(FIRST, FIRST), term_ms=0
    )
    assert ask(stage, twice) == "refused: invalid_transition"


@pytest.mark.parametrize("kind", c.COMMAND_TYPES)
def test_no_command_of_any_kind_ever_raises(kind: type[c.Command], dice: Random) -> None:
    world = World()
    for _ in range(60):
        pass_time(world, dice)
        world.do(any_command(world, dice))
        command = command_of(kind, world, dice)
        before = world.fingerprint()
        decision = world.do(command)
        if isinstance(decision, Refused) or not decision.events:
            assert world.fingerprint() == before
    assert world.troubles() == ()
