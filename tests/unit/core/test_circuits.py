"""Circuits: failures in a row open one, time half-opens it, one trial decides."""

from itertools import product

import msgspec
import pytest

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.circuit import (
    LONGEST_COOLDOWN_MS,
    CircuitState,
    circuit_of,
)
from holdfast.core.decision import Accepted, Refused
from holdfast.core.freeze import fingerprint, freeze, thaw
from holdfast.core.ids import Index, JobId, WorkerId
from holdfast.core.owed import DebtName
from holdfast.core.placing import Placing
from holdfast.core.spec import CircuitPolicy, JobSpec, RetryPolicy
from holdfast.testing.world import MAIL, PLAIN, World

COOLDOWN_MS = 60_000
SPEC = JobSpec(
    name="work", kind="function", target="m:f", retries=100,
    retry=RetryPolicy(kind="none"), circuit=CircuitPolicy(3, COOLDOWN_MS),
)  # fmt: skip
KEY = ("function", "m:f")
W = WorkerId("w")


def a_world(count: int = 9, spec: JobSpec = SPEC) -> World:
    world = World()
    world.submit("j", count, spec=spec)
    return world


def fail(world: World, index: int, job: str = "j", **said: str) -> tuple[str, ...]:
    """One attempt of this task that fails; what its record says of circuits."""
    (lease,) = world.grant(job, index)
    decision = world.fail(job, index, lease, **said)
    assert isinstance(decision, Accepted)
    return told(decision.events)


def told(events: tuple[e.AnyEvent, ...]) -> tuple[str, ...]:
    return tuple(type(x).__name__ for x in events if type(x).__name__.startswith("Circuit"))


def opened(world: World) -> None:
    """Three failures in a row, and the circuit is open."""
    for index in range(3):
        fail(world, index)
    assert state_of(world) is CircuitState.OPEN


def half_opened(world: World) -> None:
    opened(world)
    world.sleep(COOLDOWN_MS)
    assert told(world.tick()) == ("CircuitHalfOpened",)


def state_of(world: World, key: tuple[str, str] = KEY) -> CircuitState:
    circuit = world.state.circuits.get(key)
    return CircuitState.CLOSED if circuit is None else circuit.state


def test_failures_in_a_row_open_it_in_the_record_of_the_last() -> None:
    world = a_world()
    assert fail(world, 0) == ("CircuitCounted",)
    assert fail(world, 1) == ("CircuitCounted",)
    assert fail(world, 2) == ("CircuitOpened",)
    circuit = world.state.circuits[KEY]
    assert (circuit.failures, circuit.until) == (3, world.now + COOLDOWN_MS)
    assert circuit.cause == "task j/2 failed: boom"
    assert world.troubles() == ()


def test_a_success_in_between_ends_the_row() -> None:
    world = a_world()
    fail(world, 0)
    fail(world, 1)
    (lease,) = world.grant("j", 2)
    decision = world.commit("j", 2, lease)
    assert isinstance(decision, Accepted)
    assert told(decision.events) == ("CircuitCounted",)
    assert world.state.circuits == {}
    assert fail(world, 3) == ("CircuitCounted",)
    assert world.troubles() == ()


def test_a_report_under_a_lost_lease_ends_no_row() -> None:
    world = a_world()
    fail(world, 0)
    decision = world.commit("j", 0, 999)
    assert isinstance(decision, Accepted)
    assert decision.events == ()
    assert world.state.circuits[KEY].failures == 1


def test_losses_have_no_part_in_it() -> None:
    world = a_world(spec=msgspec.structs.replace(SPEC, circuit=CircuitPolicy(1, 1)))
    assert fail(world, 0, reason="worker_lost") == ()
    (lease,) = world.grant("j", 1)
    world.release("j", 1, lease)
    assert world.state.circuits == {}


def test_it_is_one_for_all_jobs_of_a_function_and_another_for_each_namespace() -> None:
    world = a_world()
    world.submit("k", 9, spec=SPEC)
    other = msgspec.structs.replace(SPEC, namespace="team")
    world.submit("o", 9, spec=other)
    fail(world, 0)
    fail(world, 0, "k")
    fail(world, 0, "o")
    assert fail(world, 1, "k") == ("CircuitOpened",)
    assert world.grant("j", 4) == ()
    assert world.grant("o", 4) != ()
    assert circuit_of(other) == "team/m:f"


def test_names_of_two_namespaces_are_never_the_same() -> None:
    pairs = product(("default", "a", "a/b", "%2F"), ("t", "b/t", "a/t", "/b/t"))
    specs = [msgspec.structs.replace(SPEC, namespace=n, target=t) for n, t in pairs]
    assert len({circuit_of(spec) for spec in specs}) == len(specs)


def test_a_command_has_a_part_only_where_it_asks_for_one() -> None:
    command = msgspec.structs.replace(SPEC, kind="command", target="sh")
    assert circuit_of(command) == "sh"
    assert circuit_of(msgspec.structs.replace(command, circuit=CircuitPolicy())) == ""


def test_an_open_one_leases_nothing_of_the_function_and_all_of_others() -> None:
    world = a_world()
    opened(world)
    refused = world.do(
        c.GrantLeases(job_id=JobId("j"), worker=W, incarnation=1, slot=0, indices=(Index(4),),
                      term_ms=0)
    )  # fmt: skip
    assert isinstance(refused, Refused)
    assert "circuit function/m:f is open" in refused.message
    world.submit("same", 1, spec=msgspec.structs.replace(SPEC, circuit=CircuitPolicy()))
    assert world.grant("same") == ()
    world.submit("other", 1, spec=PLAIN)
    assert world.grant("other") != ()


def test_what_was_under_way_when_it_opened_tells_nothing_new() -> None:
    world = a_world()
    late = world.grant("j", 7, 8)
    opened(world)
    decision = world.fail("j", 7, late[0])
    assert isinstance(decision, Accepted)
    assert told(decision.events) == ()
    decision = world.commit("j", 8, late[1])
    assert isinstance(decision, Accepted)
    assert told(decision.events) == ()
    assert state_of(world) is CircuitState.OPEN


def test_time_half_opens_it_and_one_at_a_time_tries_it() -> None:
    world = a_world()
    opened(world)
    world.sleep(COOLDOWN_MS - 1)
    assert told(world.tick()) == ()
    world.sleep(1)
    assert told(world.tick()) == ("CircuitHalfOpened",)
    assert world.grant("j", 4, 5) == ()
    (lease,) = world.grant("j", 4)
    assert world.state.circuits[KEY].probe is not None
    assert world.grant("j", 5) == ()
    assert world.troubles() == ()
    decision = world.commit("j", 4, lease)
    assert isinstance(decision, Accepted)
    (closed,) = [x for x in decision.events if isinstance(x, e.CircuitClosed)]
    assert closed.cause == "task j/4 committed"
    assert len(world.grant("j", 5, 6)) == 2
    assert world.troubles() == ()


def test_a_trial_that_ends_without_a_verdict_makes_room_for_the_next() -> None:
    world = a_world()
    half_opened(world)
    (lease,) = world.grant("j", 4)
    world.release("j", 4, lease)
    assert state_of(world) is CircuitState.HALF_OPEN
    (lease,) = world.grant("j", 5)
    world.fail("j", 5, lease, reason="worker_lost")
    assert state_of(world) is CircuitState.HALF_OPEN
    assert world.grant("j", 6) != ()
    assert world.troubles() == ()


def test_a_straggler_does_not_decide_a_trial() -> None:
    world = a_world()
    late = world.grant("j", 7, 8)
    half_opened(world)
    world.fail("j", 7, late[0])
    world.commit("j", 8, late[1])
    assert state_of(world) is CircuitState.HALF_OPEN


def test_a_trial_that_fails_opens_it_for_twice_as_long_up_to_ten_minutes() -> None:
    world = a_world()
    half_opened(world)
    waits = []
    for _ in range(6):
        (lease,) = world.grant("j", 4)
        world.fail("j", 4, lease)
        circuit = world.state.circuits[KEY]
        waits.append(circuit.cooldown_ms)
        world.sleep(circuit.cooldown_ms)
        world.tick()
    longest = LONGEST_COOLDOWN_MS
    assert waits == [120_000, 240_000, 480_000, longest, longest, longest]
    assert world.troubles() == ()


def test_a_cooldown_that_was_asked_longer_than_ten_minutes_stays_as_it_is() -> None:
    hour = msgspec.structs.replace(SPEC, circuit=CircuitPolicy(1, 3_600_000))
    world = a_world(spec=hour)
    fail(world, 0)
    world.sleep(3_600_000)
    world.tick()
    fail(world, 1)
    assert world.state.circuits[KEY].cooldown_ms == 3_600_000


def test_a_gang_is_one_trial() -> None:
    gang = msgspec.structs.replace(SPEC, placing=Placing(gang=True))
    world = a_world()
    world.submit("g", 2, spec=gang)
    opened(world)
    assert world.grant_gang("g", "a", "b") == ()
    world.sleep(COOLDOWN_MS)
    world.tick()
    assert len(world.grant_gang("g", "a", "b")) == 2
    assert world.grant("j", 5) == ()
    assert isinstance(world.commit_gang("g"), Accepted)
    assert world.state.circuits == {}
    assert world.troubles() == ()


def test_any_member_of_a_gang_that_fails_fails_the_trial() -> None:
    gang = msgspec.structs.replace(SPEC, placing=Placing(gang=True))
    world = a_world()
    world.submit("g", 2, spec=gang)
    half_opened(world)
    leases = world.grant_gang("g", "a", "b")
    world.fail("g", 1, leases[1], worker="b")
    assert state_of(world) is CircuitState.OPEN
    assert world.troubles() == ()


# --- sinks ----------------------------------------------------------------------------------------


def owing(world: World, count: int) -> None:
    for index in range(count):
        (lease,) = world.grant("j", index)
        world.commit("j", index, lease, owed=(MAIL,))


def bounce(world: World, index: int, *, is_final: bool = False) -> tuple[str, ...]:
    command = c.FailDelivery(
        name=DebtName(JobId("j"), Index(index), 0), error="no answer", most_tries=20, delay_ms=0,
        is_final=is_final, circuit=CircuitPolicy(2, 30_000),
    )  # fmt: skip
    return told(world.did(command))


def test_a_sink_that_fails_in_a_row_opens_and_a_delivery_closes_it() -> None:
    world = a_world()
    owing(world, 4)
    sink = ("sink", "mail")
    assert bounce(world, 0) == ("CircuitCounted",)
    assert bounce(world, 1, is_final=True) == ("CircuitOpened",)
    assert world.state.circuits[sink].cause == "effect j/1.0 failed: no answer"
    assert bounce(world, 2) == ()
    assert told(world.confirm("j", 0, 0)) == ()
    world.sleep(30_000)
    assert told(world.tick()) == ("CircuitHalfOpened",)
    assert bounce(world, 2) == ("CircuitOpened",)
    assert world.state.circuits[sink].cooldown_ms == 60_000
    world.sleep(60_000)
    world.tick()
    assert told(world.confirm("j", 2, 0)) == ("CircuitClosed",)
    assert bounce(world, 3) == ("CircuitCounted",)
    assert world.troubles() == ()


def test_a_delivery_ends_the_row_of_its_sink() -> None:
    world = a_world()
    owing(world, 2)
    bounce(world, 0)
    assert told(world.confirm("j", 1, 0)) == ("CircuitCounted",)
    assert world.state.circuits == {}


# --- people, time, memory -------------------------------------------------------------------------


def test_what_a_person_opened_stays_open_until_a_person_closes_it() -> None:
    world = a_world()
    command = c.OpenCircuit(kind="function", name="m:f", reason="the shop is shut")
    assert told(world.did(command)) == ("CircuitOpened",)
    assert world.did(command) == ()
    world.sleep(10**9)
    assert told(world.tick()) == ()
    assert world.grant("j") == ()
    closing = c.CloseCircuit(kind="function", name="m:f")
    assert told(world.did(closing)) == ("CircuitClosed",)
    assert world.did(closing) == ()
    assert world.grant("j") != ()
    assert world.troubles() == ()


def test_a_person_may_end_a_row_and_keep_open_what_opened_by_itself() -> None:
    world = a_world()
    fail(world, 0)
    assert told(world.did(c.CloseCircuit(kind="function", name="m:f"))) == ("CircuitCounted",)
    opened_at = a_world()
    opened(opened_at)
    opened_at.did(c.OpenCircuit(kind="function", name="m:f"))
    opened_at.sleep(COOLDOWN_MS)
    assert told(opened_at.tick()) == ()
    assert opened_at.troubles() == ()


@pytest.mark.parametrize(("kind", "name"), [("nonsense", "x"), ("sink", ""), ("sink", "a\nb")])
def test_what_is_no_circuit_is_refused(kind: str, name: str) -> None:
    world = a_world()
    assert isinstance(world.do(c.OpenCircuit(kind=kind, name=name)), Refused)
    assert isinstance(world.do(c.CloseCircuit(kind=kind, name=name)), Refused)


def test_a_row_that_nobody_continues_is_forgotten_after_a_day() -> None:
    world = a_world()
    fail(world, 0)
    world.sleep(86_400_000 - 1)
    assert told(world.tick()) == ()
    world.sleep(1)
    assert told(world.tick()) == ("CircuitCounted",)
    assert world.state.circuits == {}


def test_one_that_nothing_comes_to_try_is_closed_after_a_day() -> None:
    world = a_world()
    half_opened(world)
    world.sleep(86_400_000)
    assert told(world.tick()) == ("CircuitClosed",)
    assert world.troubles() == ()


def test_a_snapshot_and_a_replay_have_the_same_circuits() -> None:
    world = a_world()
    half_opened(world)
    world.grant("j", 4)
    for state in (world.replayed(), thaw(freeze(world.state))):
        assert fingerprint(state) == world.fingerprint()
        assert state.circuits == world.state.circuits


def test_a_crash_after_any_record_leaves_the_failure_and_what_it_caused_together() -> None:
    world = a_world()
    half_opened(world)
    (lease,) = world.grant("j", 4)
    world.fail("j", 4, lease)
    for upto in range(1, len(world.log) + 1):
        state = world.replayed(upto)
        circuit, job = state.circuits.get(KEY), state.jobs.get(JobId("j"))
        tasks = (job.tasks or {}).values() if job is not None else ()
        failures = sum(task.failures for task in tasks)
        assert (circuit.failures if circuit else 0) == failures
        assert (circuit is not None and circuit.state is not CircuitState.CLOSED) == (failures > 2)
