"""What people ask of class runtimes: the command that declares one, what it would change, views.

A runtime is kept as bytes that only its own room reads. Reading many takes a while, so that views
are made of copies, aside from whoever owns the state.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct, structs

from holdfast.coordinator.views import View, Wall, rfc3339
from holdfast.core import commands_resources as r
from holdfast.core import events as e
from holdfast.core.decide.resources import put
from holdfast.core.decision import Reason, Refused
from holdfast.core.events import AnyEvent
from holdfast.core.ids import Instant, Position
from holdfast.core.resource import Pairs, Resource
from holdfast.core.state import State
from holdfast.runtimes.documents import resource_document
from holdfast.runtimes.happenings import Happening
from holdfast.runtimes.kept import read_resource
from holdfast.runtimes.manifest import ClassRuntime, declared, decode_stored, encode
from holdfast.runtimes.resource import KIND

CREATED: Final = "created"
CONFIGURED: Final = "configured"
UNCHANGED: Final = "unchanged"
DELETING: Final = "deleting"
DELETED: Final = "deleted"

NORMAL: Final = "Normal"
WARNING: Final = "Warning"


class Foreseen(Struct, frozen=True):
    """What a declaration would change: what holds, None where there is none, and what would."""

    change: str
    before: View | None
    after: View


def declaring(runtime: ClassRuntime) -> r.PutResource:
    """The command that makes or replaces a runtime."""
    expects = None if runtime.expects is None else Position(runtime.expects)
    return r.PutResource(
        kind=KIND, name=runtime.name, spec=encode(runtime.spec), expects=expects,
        labels=tuple(runtime.labels.items()), annotations=tuple(runtime.annotations.items()),
    )  # fmt: skip


def deleting(name: str) -> r.MarkResourceDeleted:
    """The command that has a runtime taken down."""
    return r.MarkResourceDeleted(kind=KIND, name=name)


def foreseen(state: State, runtime: ClassRuntime, now: Instant) -> Foreseen | Refused:
    """What declaring it would come to. Nothing is recorded."""
    command = declaring(runtime)
    decision = put(state, command, now)
    if isinstance(decision, Refused):
        return decision
    known = state.resources.get((KIND, runtime.name))
    before = None
    if known is not None:
        spec = decode_stored(known.spec)
        before = declared(spec, dict(known.labels), dict(known.annotations))
    after = declared(runtime.spec, runtime.labels, runtime.annotations)
    return Foreseen(change_of(decision.events), before, after)


def change_of(events: Iterable[AnyEvent]) -> str:
    """What a record did to a runtime that was declared, or that shall go."""
    for event in events:
        if isinstance(event, e.ResourcePut):
            return CREATED if event.generation == 1 else CONFIGURED
        if isinstance(event, e.ResourceLabelled):
            return CONFIGURED
        if isinstance(event, e.ResourceRemoved):
            return DELETED
    return UNCHANGED


def copies(
    state: State, after: str = "", most: int | None = None, *, labels: Pairs = ()
) -> list[Resource]:
    """Runtimes as they stand, by name, from behind `after` on; those with all these labels."""
    wanted = frozenset(labels)
    known = sorted(
        name
        for (kind, name), kept in state.resources.items()
        if kind == KIND and name > after and wanted <= frozenset(kept.labels)
    )
    return [copied(state, name) for name in known[:most]]


def copied(state: State, name: str) -> Resource:
    """A runtime as it stands; what happens to it later does not show in the copy."""
    return structs.replace(state.resources[(KIND, name)])


def version_of(state: State, name: str) -> int:
    """The position of the last change of a runtime; zero where there is none."""
    known = state.resources.get((KIND, name))
    return 0 if known is None else int(known.version)


def no_runtime(name: str) -> Refused:
    return Refused(Reason.NOT_FOUND, f"there is no runtime {name[:200]}")


def happening_view(happening: Happening, wall: Wall) -> View:
    """Something that was told about a runtime, and how often."""
    return {
        "type": WARNING if happening.is_warning else NORMAL,
        "reason": happening.reason,
        "message": happening.message,
        "count": happening.count,
        "first_at": rfc3339(wall(happening.first_at)),
        "last_at": rfc3339(wall(happening.last_at)),
    }


def runtime_view(kept: Resource, wall: Wall) -> View:
    """A runtime as it is shown and can be applied again."""
    return resource_document(read_resource(kept), lambda at: rfc3339(wall(at)))
