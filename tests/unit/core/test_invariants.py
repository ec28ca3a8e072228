"""Every check finds what it is there to find: each is shown a state broken in its own way."""

from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.core import invariants
from holdfast.core.circuit import Circuit, Probe
from holdfast.core.debts import Place
from holdfast.core.ids import Index, Instant, JobId, LeaseId, Position, WorkerId
from holdfast.core.invariants import CHECKS, check
from holdfast.core.job import Job
from holdfast.core.line import Line
from holdfast.core.lineage import Ancestor
from holdfast.core.owed import Debt, Stored
from holdfast.core.resource import Resource
from holdfast.core.schedule import Definition, Schedule, Timing
from holdfast.core.service import Replica, Service
from holdfast.core.shape import shape_of
from holdfast.core.spec import JobSpec, RetryBudget
from holdfast.core.state import State
from holdfast.core.task import ASIDE, Endpoint, Task, TaskState
from holdfast.core.violation import Finding, found
from holdfast.testing.stages import BEFORE, JOB, STAGES, stage_of
from holdfast.testing.world import World

Break = Callable[[State, Job], object]


def the(job: Job) -> Task:
    return (job.tasks or {})[Index(0)]


def set_cell(index: int, cell: int) -> Break:
    return lambda state, job: job.states.__setitem__(index, cell)


def line_of(state: State) -> Line:
    """The only line there is."""
    (line,) = state.ready.queues.values()
    return line


def put(name: str, value: object) -> Break:
    """Break a field of the job's first task."""
    return lambda state, job: setattr(the(job), name, value)


def put_job(name: str, value: object) -> Break:
    return lambda state, job: setattr(job, name, value)


def put_end(job: Job) -> None:
    """Let a job of one task have succeeded."""
    job.states[0], job.unfinished = TaskState.SUCCEEDED, 0


def a_resource(**fields: Any) -> Break:
    told = {"kind": "k", "name": "n", "spec": b"", "generation": 1, "version": Position(1)}
    resource = Resource(**{**told, "created_at": Instant(1), **fields})
    return lambda state, job: state.resources.update({("k", "n"): resource})


def two_under_one_lease(state: State, job: Job) -> None:
    twin = Task(job.job_id, Index(1), TaskState.RUNNING, lease_id=the(job).lease_id)
    (job.tasks or {})[Index(1)] = twin


WEB = Endpoint("web", "host:1", ())


def an_orphan(state: State, job: Job) -> None:
    state.endpoints["web"] = {the(job).lease_id: the(job)}


def a_schedule(**broken: object) -> Break:
    """A sound schedule beside the job, but for what is broken about it."""

    def put_it(state: State, job: Job) -> None:
        definition = Definition(timing=Timing(every_ms=1_000), spec=job.spec, count=1)
        schedule = Schedule(
            name="s", definition=definition, created_at=Instant(1), updated_at=Instant(1),
            next_wall=Instant(9),
        )  # fmt: skip
        state.schedules["s"] = schedule
        state.set_schedule_timer(schedule)
        assert check(state) == ()
        for name, value in broken.items():
            setattr(schedule, name, value)

    return put_it


def place_of(state: State) -> Place:
    """The only place there is."""
    (place,) = state.debts.places.values()
    return place


def twin_entries(state: State, job: Job) -> None:
    the(job).owed[1].number = 0


def a_circuit(**changes: Any) -> Break:
    def plant(state: State, job: Job) -> None:
        fields = {"kind": "sink", "name": "ledger", **changes}
        state.circuits[("sink", "ledger")] = Circuit(**fields)

    return plant


def a_spent_budget(state: State, job: Job) -> None:
    job.spec = msgspec.structs.replace(job.spec, retry_budget=RetryBudget(1, 1_000))
    state.retries_away[job.job_id] = [Instant(1), Instant(2)]


PLANTED: dict[str, tuple[str, str, Break]] = {
    "a schedule goes back": ("T1", "fresh", a_schedule(last_wall=Instant(9))),
    "a schedule that nobody looks at": ("T1", "fresh", a_schedule(next_wall=Instant(10))),
    "a schedule under another name": ("T1", "fresh", a_schedule(name="other")),
    "a schedule of the future": ("T1", "fresh", a_schedule(revision=Position(10**9))),
    "a cell outside the states": ("J1", "fresh", set_cell(0, 99)),
    "a record without its cell": ("J1", "running", set_cell(0, TaskState.LEASED)),
    "a record that is missing": ("J1", "running", lambda state, job: (job.tasks or {}).clear()),
    "a record of another task": ("J1", "aside", put("index", Index(7))),
    "an endpoint nobody registered": ("S8", "running", an_orphan),
    "an endpoint nobody finds": ("S8", "running", put("endpoints", (WEB,))),
    "an endpoint after its lease": ("S8", "aside", put("endpoints", (WEB,))),
    "a lost count of unfinished": ("J4", "fresh", put_job("unfinished", 0)),
    "a lost count of active": ("J4", "running", put_job("active", 0)),
    "a lost count of quarantined": ("J4", "quarantined", put_job("quarantined", 0)),
    "an end without a place": ("J4", "succeeded", put_job("ends", array("Q", [0]))),
    "columns that are gone": ("J4", "succeeded", put_job("ends", None)),
    "a fresh task behind the cursor": ("J6", "fresh", put_job("cursor", 1)),
    "a job nobody looks at": ("J6", "fresh", lambda state, job: state.ready.queues.clear()),
    "a waiting task in no line": ("J6", "aside", put_job("due", None)),
    "a back-off without an alarm": ("J6", "backing off", put_job("later", None)),
    "a dated task without a timer": (
        "J6", "dated", lambda state, job: state.wall_timers.clear(),
    ),
    "a sleeping job without an alarm": (
        "J6", "fresh in a delayed job", lambda state, job: state.ready.sleeping.clear(),
    ),
    "a commit that owes nothing": ("J6", "committed, owing one", put("owed", ())),
    "a held task nobody holds": ("J6", "running", lambda state, job: state.holders.clear()),
    "a limit without a timer": ("J6", "fresh", put_job("times_out_at", Instant(5))),
    "a lease the index lacks": ("J7", "running", lambda state, job: state.holders.clear()),
    "a slot counted twice": (
        "J7", "running", lambda state, job: state.holders[(WorkerId("w"), 1)].load.update({0: 2}),
    ),
    "an expiry the tick would miss": (
        "J7",
        "running by time",
        lambda state, job: setattr(state.holders[(WorkerId("w"), 1)], "soonest", Instant(10**9)),
    ),
    "an open job that is not known": (
        "J7", "fresh in an open job", lambda state, job: state.open_jobs.clear(),
    ),
    "a finished job that is not known": (
        "J7", "succeeded", lambda state, job: state.finished.clear(),
    ),
    "a finished job known twice": (
        "J7", "succeeded", lambda state, job: state.finished.append(job.job_id),
    ),
    "a job twice in line": (
        "J7", "fresh", lambda state, job: line_of(state).add(job.position, job.job_id),
    ),
    "a job in the wrong line": (
        "J7",
        "fresh",
        lambda state, job: state.ready.queues.update({(5, shape_of(job)): line_of(state)}),
    ),
    "a key that finds nothing": ("J7", "fresh", put_job("key", "nightly")),
    "two tasks under one lease": ("S1", "running", two_under_one_lease),
    "a waiting task with a lease": ("S2", "aside", put("lease_id", LeaseId(1))),
    "a running task without a lease": ("S2", "running", put("lease_id", LeaseId(0))),
    "a waiting task with a worker": ("S2", "aside", put("worker", WorkerId("w"))),
    "a running task without a start": ("S2", "running", put("started_at", Instant(0))),
    "a lease id still to come": ("S3", "running", lambda s, job: setattr(s, "next_lease", 1)),
    "a commit without its place": ("C1", "committed, owing one", put("committed", Position(0))),
    "a commit behind the log": ("C1", "committed, owing one", put("committed", Position(99))),
    "a waiting task that owes": ("C1", "aside", put("owed", (Debt(0, "effect", "mail", ""),))),
    "a commit that could run again": ("C1", "committed, owing one", put_job("payloads", [b"x"])),
    "two entries under one number": ("C1", "committed, owing two", twin_entries),
    "an entry in no book": ("C4", "committed, owing two", lambda s, job: s.debts._known.clear()),
    "an entry that nobody delivers": (
        "C4", "committed, owing one", lambda s, job: place_of(s).ready.clear(),
    ),
    "a try nobody is woken for": (
        "C4", "committed, its delivery failed", lambda s, job: place_of(s).asleep.clear(),
    ),
    "a count of entries that is wrong": (
        "C4", "committed, owing one", lambda s, job: setattr(place_of(s), "owed", 2),
    ),
    "a parked entry that could go": (
        "C4", "committed, its entry parked", lambda s, job: setattr(place_of(s), "parked", 0),
    ),
    "a block that nobody runs": (
        "C4", "committed, in its block", lambda s, job: s.debts.blocks.clear(),
    ),
    "a stored result of a task without one": (
        "C5", "running", lambda s, job: s.remember_stored(job, Index(0), Stored(b"x", 1)),
    ),
    "a stored result nobody lists": (
        "C5", "succeeded", put_job("stored", {Index(0): Stored(b"x", 1)}),
    ),
    "a blocked job that is held": ("J8", "running", put_job("blocked", True)),
    "a tie in no book": (
        "J8", "fresh in a blocked job", lambda state, job: state.dependents.clear(),
    ),
    "a tie in a book alone": (
        "J8", "fresh", lambda state, job: state.dependents.update({BEFORE: {JOB: None}}),
    ),
    "an awaited task in a book alone": (
        "J8", "fresh", lambda state, job: state.awaited.update({BEFORE: {Index(0): {JOB: None}}}),
    ),
    "a job to wait for that is gone": (
        "J8", "fresh in a blocked job", lambda state, job: state.jobs.pop(BEFORE),
    ),
    "a child without its parent": ("J8", "fresh", put_job("parent", BEFORE)),
    "a job that nobody unblocks": (
        "J8", "fresh in a blocked job", lambda state, job: put_end(state.jobs[BEFORE]),
    ),
    "half a gang": ("G1", "leased in a gang", put_job("active", 1)),
    "half a gang's commits": (
        "G1", "fresh in a gang", set_cell(0, TaskState.SUCCEEDED),
    ),
    "a gang that is still open": ("G1", "fresh in a gang", put_job("sealed", False)),
    "more failures than the budget": ("B1", "backing off", put("failures", 2)),
    "more losses than the budget": ("B1", "backing off", put("losses", 2)),
    "a negative budget": ("B1", "backing off", put("failures", -1)),
    "negative strays": ("B1", "backing off", put("strays", -1)),
    "more charges than attempts": ("B3", "backing off", put("attempt", 0)),
    "retries counted that nothing bounds": (
        "B5", "backing off", lambda state, job: state.retries_away.update({JOB: [Instant(1)]})
    ),
    "more retries than the budget": ("B5", "backing off", a_spent_budget),
    "a circuit with nothing against it": ("F1", "fresh", a_circuit()),
    "a closed circuit that half-opens": ("F1", "fresh", a_circuit(failures=1, until=Instant(9))),
    "a circuit of the future": ("F1", "fresh", a_circuit(failures=1, since=Instant(10**12))),
    "a closed circuit on trial": (
        "F1", "fresh", a_circuit(failures=1, probe=Probe(JOB, Index(0), LeaseId(1)))
    ),
    "an ancestor of the future": (
        "L8", "fresh", lambda s, job: setattr(s, "lineage", (Ancestor("old", Position(99)),))
    ),
    "a log that is its own ancestor": (
        "L8", "fresh", lambda s, job: setattr(s, "lineage", (Ancestor("log", Position(1)),))
    ),
    "a log suspended without a fork": (
        "L8", "fresh", lambda s, job: setattr(s, "suspended", "fork")
    ),
    "a lease of a suspended log": (
        "L9", "running", lambda s, job: setattr(s, "suspended", "fork")
    ),
    "a circuit under another name": ("F1", "fresh", a_circuit(name="other", failures=1)),
    "a book for what is no service": ("B6", "running", put_job("service", Service(JOB))),
    "a service without a book": ("B6", "running in a service", put_job("service", None)),
    "a replica in the book that is not there": (
        "B6", "running in a service",
        lambda s, job: job.service.replicas.update({Index(7): Replica(1, 1)}),
    ),
    "a replica that never ended": (
        "B6", "running in a service",
        lambda s, job: job.service.replicas.update({Index(0): Replica()}),
    ),
    "a replica that owes too much": (
        "B6", "restarting in a service",
        lambda s, job: setattr(job.service.replicas[Index(0)], "whole_at", Instant(10**12)),
    ),
    "a fall in the future": (
        "B6", "fresh",
        lambda s, job: s.falls.update({"web": {WorkerId("w"): (Instant(10**12),)}}),
    ),
    "a resource under another name": ("R1", "fresh", a_resource(name="other")),
    "a resource changed in the future": ("R1", "fresh", a_resource(version=Position(99))),
    "a resource that is deleted and stays": ("R1", "fresh", a_resource(deleted_at=Instant(1))),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_breakage_is_named(planted: str) -> None:
    name, at, break_it = PLANTED[planted]
    state = stage_of(at).world.state
    assert check(state) == ()
    break_it(state, state.jobs[JOB])
    assert name in {violation.name for violation in check(state)}


def test_every_check_has_a_planted_breakage() -> None:
    assert {name for name, _, _ in PLANTED.values()} == set(CHECKS)


@pytest.mark.parametrize("name", STAGES)
def test_nothing_is_wrong_with_any_stage(name: str) -> None:
    assert check(stage_of(name).world.state) == ()


def test_a_check_that_raises_is_a_violation_itself() -> None:
    state = stage_of("running").world.state
    state.jobs[JOB].tasks = {Index(0): None}  # type: ignore[dict-item]
    names = {violation.name for violation in check(state)}
    assert {"J1", "S2", "B1"} <= names
    assert all("check itself failed" in v.text for v in check(state) if v.subject == "check")


def test_what_was_found_before_a_check_raised_is_kept() -> None:
    def half() -> Iterator[Finding]:
        yield "task", "broken"
        raise ValueError("worse")

    violations = found("X1", half)
    assert [v.subject for v in violations] == ["task", "check"]


@pytest.mark.slow
def test_a_million_tasks_are_checked_at_the_speed_of_memory() -> None:
    world = World()
    world.submit("big", 1_000_000)
    for first in range(0, 5_000, 100):
        leases = world.grant("big", *range(first, first + 100))
        world.release("big", first, leases[0])
    assert check(world.state) == ()
    world.state.jobs[JobId("big")].states[999_999] = ASIDE
    assert {violation.name for violation in check(world.state)} >= {"J1"}


def test_the_page_of_invariants_links_to_a_function_that_is_there_for_every_name() -> None:
    page = (Path(__file__).parents[3] / "docs" / "invariants.md").read_text(encoding="utf-8")
    for name, function in CHECKS.items():
        assert f"| {name} |" in page
        assert f"`{function.__name__}`" in page
    watched = ("J2", "J3", "J5", "S4", "S5", "S6", "S7", "C2", "C3", "C4", "B2", "B4", "L1")
    for other in (*watched, "T2", "T3", "T4"):
        assert f"| {other} |" in page
    for number in range(1, 5):
        assert f"INV_00{number}" in page
    assert invariants.__doc__


def test_an_empty_state_and_a_state_of_many_jobs_are_both_sound() -> None:
    assert check(State()) == ()
    world = World()
    for number in range(50):
        world.submit(f"j{number}", 3, spec=JobSpec(name="n", kind="k", target="t", priority=number))
    assert check(world.state) == ()
