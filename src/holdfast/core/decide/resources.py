"""What is declared, by whom it may be changed, and when it goes."""

from holdfast.core import commands_resources as r
from holdfast.core import events as e
from holdfast.core.decide.wishes import is_name
from holdfast.core.decision import Accepted, Decision, Reason, Refused
from holdfast.core.ids import NEVER, Instant, Position
from holdfast.core.resource import (
    FINALIZERS_MAX,
    MARKS_BYTES_MAX,
    RESOURCES_MAX,
    SPEC_BYTES_MAX,
    STATUS_BYTES_MAX,
    Pairs,
    Resource,
    marks_size,
    resource_id,
)
from holdfast.core.state import State

AnyRequest = (
    r.PutResource | r.PutResourceStatus | r.SetResourceFinalizers | r.MarkResourceDeleted
)


def put(state: State, command: r.PutResource, now: Instant) -> Decision:
    """The answer is the version. What says the same again changes nothing."""
    known = state.resources.get((command.kind, command.name))
    called = resource_id(command.kind, command.name)
    if not is_name(command.kind) or not is_name(command.name):
        return Refused(Reason.INVALID, f"a resource called {called[:40]!r}")
    conflict = _conflict(command, known)
    if conflict is not None:
        return conflict
    if len(command.spec) > SPEC_BYTES_MAX:
        return _too_large("spec", len(command.spec), SPEC_BYTES_MAX)
    size = marks_size(command.labels, command.annotations)
    if size > MARKS_BYTES_MAX:
        return _too_large("set of labels and annotations", size, MARKS_BYTES_MAX)
    if known is None:
        if len(state.resources) >= RESOURCES_MAX:
            told = f"there are {RESOURCES_MAX} resources already; delete some of them first"
            return Refused(Reason.TOO_LARGE, told)
        return _changed(state, _declared(command, 1), *_labelled(command, None))
    if known.deleted_at != NEVER:
        told = f"{called} is being deleted; it can be declared again when it is gone"
        return Refused(Reason.CONFLICT, told)
    events = _labelled(command, known)
    if known.spec != command.spec:
        events.insert(0, _declared(command, known.generation + 1))
    return _changed(state, *events) if events else Accepted((), known.version)


def put_status(state: State, command: r.PutResourceStatus, now: Instant) -> Decision:
    """A status does not raise the generation, and is written until the resource is gone."""
    known = _known(state, command)
    if isinstance(known, Refused):
        return known
    if len(command.status) > STATUS_BYTES_MAX:
        return _too_large("status", len(command.status), STATUS_BYTES_MAX)
    if known.status == command.status:
        return Accepted((), known.version)
    told = e.ResourceStatusPut(kind=known.kind, name=known.name, status=command.status)
    return _changed(state, told)


def set_finalizers(state: State, command: r.SetResourceFinalizers, now: Instant) -> Decision:
    known = _known(state, command)
    if isinstance(known, Refused):
        return known
    wanted = tuple(dict.fromkeys(command.finalizers))
    if len(wanted) > FINALIZERS_MAX or not all(map(is_name, wanted)):
        told = f"a resource has at most {FINALIZERS_MAX} finalizers, and each has a name"
        return Refused(Reason.INVALID, told)
    if wanted == known.finalizers:
        return Accepted((), known.version)
    new = [name for name in wanted if name not in known.finalizers]
    if new and known.deleted_at != NEVER:
        told = f"{resource_id(*known.key)} is being deleted; {new[0]!r} comes too late"
        return Refused(Reason.CONFLICT, told)
    events: list[e.AnyEvent] = [
        e.ResourceFinalizersSet(kind=known.kind, name=known.name, finalizers=wanted)
    ]
    if known.deleted_at != NEVER and not wanted:
        events.append(e.ResourceRemoved(kind=known.kind, name=known.name))
    return _changed(state, *events)


def mark_deleted(state: State, command: r.MarkResourceDeleted, now: Instant) -> Decision:
    """Asked a second time, it is answered and changes nothing."""
    known = _known(state, command)
    if isinstance(known, Refused):
        return known
    if known.deleted_at != NEVER:
        return Accepted((), known.version)
    marked = e.ResourceDeletionMarked(kind=known.kind, name=known.name)
    if known.finalizers:
        return _changed(state, marked)
    return _changed(state, marked, e.ResourceRemoved(kind=known.kind, name=known.name))


def _declared(command: r.PutResource, generation: int) -> e.AnyEvent:
    return e.ResourcePut(
        kind=command.kind, name=command.name, generation=generation, spec=command.spec
    )


def _labelled(command: r.PutResource, known: Resource | None) -> list[e.AnyEvent]:
    labels, annotations = _sorted(command.labels), _sorted(command.annotations)
    if (labels, annotations) == (((), ()) if known is None else (known.labels, known.annotations)):
        return []
    return [
        e.ResourceLabelled(
            kind=command.kind, name=command.name, labels=labels, annotations=annotations
        )
    ]


def _sorted(pairs: Pairs) -> Pairs:
    return tuple(sorted(dict(pairs).items()))


def _changed(state: State, *events: e.AnyEvent) -> Accepted:
    """A change is known by the position it gets: that of the next record."""
    return Accepted(events, Position(state.position + 1))


def _known(state: State, command: AnyRequest) -> Resource | Refused:
    known = state.resources.get((command.kind, command.name))
    if known is None:
        called = resource_id(command.kind, command.name)
        return Refused(Reason.NOT_FOUND, f"there is no {called[:200]}")
    return _conflict(command, known) or known


def _conflict(command: AnyRequest, known: Resource | None) -> Refused | None:
    version = Position(0) if known is None else known.version
    if command.expects is None or command.expects == version:
        return None
    called = resource_id(command.kind, command.name)
    stands = "does not exist" if known is None else f"is at version {version}"
    told = f"{called} {stands}, not {command.expects}; look at it again and repeat the change"
    if known is not None and command.expects == 0:
        told = f"{called} exists already, at version {version}"
    return Refused(Reason.CONFLICT, told)


def _too_large(what: str, size: int, most: int) -> Refused:
    return Refused(Reason.TOO_LARGE, f"a {what} of {size} bytes; a resource has at most {most}")
