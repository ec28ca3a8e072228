"""The table of circuits, met by every event, and what the watch says to lies about them."""

from itertools import product

import msgspec
import pytest

from holdfast.core import events as e
from holdfast.core.apply import apply
from holdfast.core.circuit import TRANSITIONS, CircuitState
from holdfast.core.errors import ImpossibleEvent
from holdfast.core.ids import Index, Instant, JobId, LeaseId, Position, WorkerId
from holdfast.core.record import Record
from holdfast.core.spec import CircuitPolicy, JobSpec, RetryPolicy
from holdfast.core.watch_circuits import STEPS
from holdfast.testing.world import World

SPEC = JobSpec(
    name="work", kind="function", target="m:f", retries=9, retry=RetryPolicy(kind="none"),
    circuit=CircuitPolicy(1, 5),
)  # fmt: skip


def an_open_one() -> World:
    """One failure was enough."""
    world = World()
    world.submit("j", 9, spec=SPEC)
    (lease,) = world.grant("j", 0)
    world.fail("j", 0, lease)
    return world


def a_half_open_one() -> World:
    world = an_open_one()
    world.sleep(5)
    world.tick()
    return world


def state_of(world: World) -> CircuitState:
    circuit = world.state.circuits.get(("sink", "s"))
    return CircuitState.CLOSED if circuit is None else circuit.state


SAMPLES: dict[type[e.Event], e.AnyEvent] = {
    e.CircuitCounted: e.CircuitCounted(kind="sink", name="s", failures=1),
    e.CircuitOpened: e.CircuitOpened(
        kind="sink", name="s", failures=1, cooldown_ms=5, until=Instant(1_000_005), cause="x"
    ),
    e.CircuitHalfOpened: e.CircuitHalfOpened(kind="sink", name="s", cause="x"),
    e.CircuitProbed: e.CircuitProbed(
        kind="sink", name="s", job_id=JobId("j"), index=Index(0), lease_id=LeaseId(1)
    ),
    e.CircuitClosed: e.CircuitClosed(kind="sink", name="s", cause="x"),
}
WAYS: dict[CircuitState, tuple[type[e.Event], ...]] = {
    CircuitState.CLOSED: (),
    CircuitState.OPEN: (e.CircuitOpened,),
    CircuitState.HALF_OPEN: (e.CircuitOpened, e.CircuitHalfOpened),
}


@pytest.mark.parametrize(("state", "event"), list(product(CircuitState, SAMPLES)))
def test_every_pair_moves_by_the_table_or_is_impossible(
    state: CircuitState, event: type[e.Event]
) -> None:
    world = World()
    for kind in WAYS[state]:
        world.append(Record(world.now, "Test", "test", "", "", (SAMPLES[kind],)))
    assert state_of(world) is state
    target = TRANSITIONS[state].get(event)
    before = world.fingerprint()
    record = Record(world.now, "Test", "test", "", "", (SAMPLES[event],))
    position = Position(world.state.position + 1)
    if target is None:
        with pytest.raises(ImpossibleEvent):
            apply(world.state, record, position)
        assert world.fingerprint() == before
    else:
        apply(world.state, record, position)
        assert state_of(world) is target


def test_the_watch_knows_the_same_steps_as_the_table() -> None:
    assert set(TRANSITIONS) == set(CircuitState)
    table = {
        (source.value.lower().replace("_", "-"), event): target.value.lower().replace("_", "-")
        for source, row in TRANSITIONS.items()
        for event, target in row.items()
    }
    steps = {
        (source, event): target
        for event, (sources, target) in STEPS.items()
        for source in sources
    }
    assert table == steps


def said(world: World, *events: e.AnyEvent) -> set[str]:
    """What the watch says when this record comes next."""
    record = Record(world.now, "Test", "test", "", "", events)
    return {v.name for v in world.watch.feed(Position(len(world.log) + 1), record)}


def a_grant(world: World, *indices: int) -> e.LeasesGranted:
    return e.LeasesGranted(
        job_id=JobId("j"), worker=WorkerId("w"), incarnation=1, slot=0,
        first_lease=world.state.next_lease, indices=tuple(map(Index, indices)),
        attempts=(1,) * len(indices), expires_at=Instant(0), alone=False,
    )  # fmt: skip


def test_the_watch_objects_to_a_lease_through_an_open_circuit() -> None:
    world = an_open_one()
    assert said(world, a_grant(world, 5)) == {"F2"}


def test_the_watch_objects_to_more_than_a_trial_through_a_half_open_one() -> None:
    world = a_half_open_one()
    grant = a_grant(world, 5)
    probe = e.CircuitProbed(
        kind="function", name="m:f", job_id=JobId("j"), index=Index(5), lease_id=grant.first_lease
    )
    assert said(world, grant) == {"F2"}
    world = a_half_open_one()
    assert said(world, grant, probe) == set()
    world = a_half_open_one()
    world.grant("j", 4)
    again = msgspec.structs.replace(grant, first_lease=world.state.next_lease)
    lease = msgspec.structs.replace(probe, lease_id=again.first_lease)
    assert said(world, again, lease) == {"F1"}


@pytest.mark.parametrize(
    "lie",
    [
        SAMPLES[e.CircuitHalfOpened],
        SAMPLES[e.CircuitClosed],
        SAMPLES[e.CircuitProbed],
        e.CircuitCounted(kind="sink", name="s", failures=2),
        e.CircuitCounted(kind="sink", name="s", failures=0),
        e.CircuitOpened(
            kind="sink", name="s", failures=1, cooldown_ms=5, until=Instant(7), cause=""
        ),
    ],
    ids=lambda lie: type(lie).__name__,
)
def test_the_watch_objects_to_steps_that_cannot_be(lie: e.AnyEvent) -> None:
    assert said(World(), lie) == {"F1"}
