"""Declared resources: opaque bytes with a generation, a version, and finalizers."""

import pytest

from holdfast.core import commands_resources as r
from holdfast.core import events as e
from holdfast.core.decision import Accepted, Decision, Reason, Refused
from holdfast.core.errors import BrokenInvariant
from holdfast.core.freeze import fingerprint, freeze, thaw
from holdfast.core.ids import NEVER, Position
from holdfast.core.invariants import check
from holdfast.core.record import Record
from holdfast.core.resource import (
    MARKS_BYTES_MAX,
    RESOURCES_MAX,
    SPEC_BYTES_MAX,
    STATUS_BYTES_MAX,
    Resource,
)
from holdfast.core.transactions import transaction_of
from holdfast.testing.world import World

KEY = ("Runtime", "greeter")
WHO = {"kind": KEY[0], "name": KEY[1]}


def put(world: World, spec: bytes = b"one", expects: int | None = None) -> Decision:
    seen = None if expects is None else Position(expects)
    return world.do(r.PutResource(**WHO, spec=spec, expects=seen))


def finalize(world: World, *finalizers: str, expects: int | None = None) -> Decision:
    seen = None if expects is None else Position(expects)
    return world.do(r.SetResourceFinalizers(**WHO, finalizers=finalizers, expects=seen))


def status(world: World, content: bytes, expects: int | None = None) -> Decision:
    seen = None if expects is None else Position(expects)
    return world.do(r.PutResourceStatus(**WHO, status=content, expects=seen))


def delete(world: World) -> Decision:
    return world.do(r.MarkResourceDeleted(**WHO))


def names(decision: Decision) -> list[str]:
    assert isinstance(decision, Accepted), decision
    return [type(event).__name__ for event in decision.events]


def refusal(decision: Decision) -> Reason:
    assert isinstance(decision, Refused), decision
    return decision.code


def greeter(world: World) -> Resource:
    return world.state.resources[KEY]


def test_another_spec_is_a_new_generation_and_the_same_again_is_nothing() -> None:
    world = World()
    first = put(world)
    assert isinstance(first, Accepted)
    assert first.answer == world.state.position == greeter(world).version
    assert names(put(world)) == []
    put(world, b"two")
    assert (greeter(world).generation, greeter(world).spec) == (2, b"two")
    assert greeter(world).version == world.state.position
    assert world.troubles() == ()


def test_a_status_has_a_version_and_raises_no_generation() -> None:
    world = World()
    put(world)
    assert names(status(world, b"pending")) == ["ResourceStatusPut"]
    assert names(status(world, b"pending")) == []
    assert (greeter(world).generation, greeter(world).status) == (1, b"pending")
    assert greeter(world).version == world.state.position


def test_labels_alone_raise_no_generation_and_are_recorded_once() -> None:
    world = World()
    one, two = (("tier", "web"),), (("team", "blue"), ("tier", "web"))
    first = r.PutResource(**WHO, spec=b"one", labels=one)
    assert names(world.do(first)) == ["ResourcePut", "ResourceLabelled"]
    assert greeter(world).version == world.state.position
    assert names(world.do(first)) == []
    again = r.PutResource(**WHO, spec=b"one", labels=two[::-1], annotations=(("note", "x"),))
    assert names(world.do(again)) == ["ResourceLabelled"]
    assert (greeter(world).generation, greeter(world).labels) == (1, two)
    assert greeter(world).annotations == (("note", "x"),)
    assert greeter(world).version == world.state.position
    assert names(put(world, b"two")) == ["ResourcePut", "ResourceLabelled"]
    assert greeter(world).labels == greeter(world).annotations == ()
    large = r.PutResource(**WHO, spec=b"two", annotations=(("note", "x" * MARKS_BYTES_MAX),))
    assert refusal(world.do(large)) is Reason.TOO_LARGE
    assert world.troubles() == ()


def test_who_has_not_seen_the_last_change_changes_nothing() -> None:
    world = World()
    assert refusal(put(world, expects=7)) is Reason.CONFLICT
    put(world, expects=0)
    seen = int(greeter(world).version)
    assert refusal(put(world, b"two", expects=0)) is Reason.CONFLICT
    status(world, b"pending", expects=seen)
    before = world.fingerprint()
    assert refusal(put(world, b"two", expects=seen)) is Reason.CONFLICT
    assert refusal(status(world, b"late", expects=seen)) is Reason.CONFLICT
    assert refusal(finalize(world, "cleanup", expects=seen)) is Reason.CONFLICT
    # Also what would change nothing: whoever asks has not seen what there is.
    assert refusal(put(world, expects=seen)) is Reason.CONFLICT
    assert world.fingerprint() == before


def test_one_without_finalizers_goes_in_the_record_that_deletes_it() -> None:
    world = World()
    put(world)
    assert names(delete(world)) == ["ResourceDeletionMarked", "ResourceRemoved"]
    assert refusal(delete(world)) is Reason.NOT_FOUND
    assert refusal(status(world, b"x")) is Reason.NOT_FOUND
    put(world)
    assert greeter(world).generation == 1
    assert world.troubles() == ()


def test_one_with_finalizers_goes_in_the_record_of_the_last_of_them() -> None:
    world = World()
    put(world)
    finalize(world, "cleanup", "audit", "cleanup")
    assert greeter(world).finalizers == ("cleanup", "audit")
    assert names(delete(world)) == ["ResourceDeletionMarked"]
    assert names(delete(world)) == []
    assert greeter(world).deleted_at == world.now
    assert refusal(put(world, b"two")) is Reason.CONFLICT
    assert refusal(finalize(world, "cleanup", "late")) is Reason.CONFLICT
    assert names(status(world, b"deleting")) == ["ResourceStatusPut"]
    assert names(finalize(world, "audit")) == ["ResourceFinalizersSet"]
    assert names(finalize(world)) == ["ResourceFinalizersSet", "ResourceRemoved"]
    assert world.state.resources == {}
    assert world.troubles() == ()


def test_a_resource_has_bounds() -> None:
    world = World()
    assert refusal(put(world, b"x" * (SPEC_BYTES_MAX + 1))) is Reason.TOO_LARGE
    assert refusal(world.do(r.PutResource(kind="", name="x", spec=b""))) is Reason.INVALID
    put(world, b"x" * SPEC_BYTES_MAX)
    assert refusal(status(world, b"x" * (STATUS_BYTES_MAX + 1))) is Reason.TOO_LARGE
    assert refusal(finalize(world, "")) is Reason.INVALID
    for number in range(RESOURCES_MAX - 1):
        key = ("Other", str(number))
        world.state.resources[key] = Resource(
            kind=key[0], name=key[1], spec=b"", generation=1, version=Position(1), created_at=NEVER
        )
    assert refusal(world.do(r.PutResource(kind="One", name="more", spec=b""))) is Reason.TOO_LARGE


def test_resources_survive_a_snapshot_and_are_there_at_any_position() -> None:
    world = World()
    put(world)
    then = world.state.position
    finalize(world, "cleanup")
    status(world, b"available")
    put(world, b"two")
    delete(world)
    again = thaw(freeze(world.state))
    assert again.resources == world.state.resources
    assert fingerprint(again) == world.fingerprint()
    assert world.replayed(then).resources[KEY].spec == b"one"
    assert world.replayed(then).resources[KEY].finalizers == ()


def test_a_transaction_tells_how_large_and_not_what_is_inside() -> None:
    world = World()
    decision = put(world, b"secret")
    assert isinstance(decision, Accepted)
    record = Record(world.now, "PutResource", "ann", "", "", decision.events)
    (action,) = transaction_of(record, world.state.position).actions
    assert (action.action, action.entity) == ("resource_put", "Runtime/greeter")
    assert action.details == {"generation": 1, "bytes": 6}


LIES: dict[str, tuple[str, e.AnyEvent]] = {
    "a generation that was left out": ("R2", e.ResourcePut(**WHO, generation=3, spec=b"two")),
    "a generation that says the same": ("R2", e.ResourcePut(**WHO, generation=2, spec=b"one")),
    "a status that says the same": ("R2", e.ResourceStatusPut(**WHO, status=b"")),
    "labels that say the same": ("R2", e.ResourceLabelled(**WHO, labels=(), annotations=())),
    "one that goes and is wanted": ("R3", e.ResourceRemoved(**WHO)),
}


@pytest.mark.parametrize("lie", LIES)
def test_the_watch_objects_to_a_history_of_resources_that_lies(lie: str) -> None:
    name, event = LIES[lie]
    world = World()
    put(world)
    record = Record(world.now, "Test", "test", "", "", (event,))
    told = world.watch.feed(Position(len(world.log) + 1), record)
    assert name in {violation.name for violation in told}


@pytest.mark.parametrize(
    "event",
    [
        e.ResourcePut(**WHO, generation=3, spec=b"two"),
        e.ResourceRemoved(**WHO),
        e.ResourceStatusPut(kind="Runtime", name="nobody", status=b""),
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_fold_takes_no_impossible_event_about_a_resource(event: e.AnyEvent) -> None:
    world = World()
    put(world)
    before = world.fingerprint()
    with pytest.raises(BrokenInvariant):
        world.append(Record(world.now, "Test", "test", "", "", (event,)))
    assert world.fingerprint() == before


def test_a_resource_that_is_deleted_and_stays_breaks_an_invariant() -> None:
    world = World()
    put(world)
    greeter(world).deleted_at = world.now
    assert [(found.name, found.subject) for found in check(world.state)] == [
        ("R1", "Runtime/greeter")
    ]
