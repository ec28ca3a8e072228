"""Folds of the events about declared resources."""

from typing import Any

from holdfast.core import events as e
from holdfast.core.errors import BrokenInvariant, ImpossibleEvent
from holdfast.core.ids import NEVER, Instant, Position
from holdfast.core.resource import Resource, resource_id
from holdfast.core.state import State


def resource_put(state: State, event: e.ResourcePut, position: Position, at: Instant) -> None:
    known = state.resources.get((event.kind, event.name))
    if event.generation != (1 if known is None else known.generation + 1):
        raise _impossible(event, f"not before generation {event.generation}")
    if known is None:
        state.resources[(event.kind, event.name)] = Resource(
            kind=event.kind,
            name=event.name,
            spec=event.spec,
            generation=1,
            version=position,
            created_at=at,
        )
        return
    if known.deleted_at != NEVER:
        raise _impossible(event, "being deleted")
    known.spec, known.generation, known.version = event.spec, event.generation, position


def labelled(state: State, event: e.ResourceLabelled, position: Position, at: Instant) -> None:
    known = _known(state, event)
    if known.deleted_at != NEVER:
        raise _impossible(event, "being deleted")
    known.labels, known.annotations = event.labels, event.annotations
    known.version = position


def status_put(state: State, event: e.ResourceStatusPut, position: Position, at: Instant) -> None:
    known = _known(state, event)
    known.status, known.version = event.status, position


def finalizers_set(
    state: State, event: e.ResourceFinalizersSet, position: Position, at: Instant
) -> None:
    known = _known(state, event)
    if known.deleted_at != NEVER and not set(event.finalizers) <= set(known.finalizers):
        raise _impossible(event, "being deleted")
    known.finalizers, known.version = event.finalizers, position


def deletion_marked(
    state: State, event: e.ResourceDeletionMarked, position: Position, at: Instant
) -> None:
    known = _known(state, event)
    if known.deleted_at != NEVER:
        raise _impossible(event, "being deleted already")
    known.deleted_at, known.version = at, position


def removed(state: State, event: e.ResourceRemoved, position: Position, at: Instant) -> None:
    known = _known(state, event)
    if known.deleted_at == NEVER or known.finalizers:
        raise _impossible(event, "still wanted" if not known.deleted_at else "not cleaned up")
    del state.resources[known.key]


def _known(state: State, event: Any) -> Resource:
    known = state.resources.get((event.kind, event.name))
    if known is None:
        called = resource_id(event.kind, event.name)
        raise BrokenInvariant(f"an event names {called}, which does not exist")
    return known


def _impossible(event: Any, stands: str) -> ImpossibleEvent:
    return ImpossibleEvent(resource_id(event.kind, event.name), stands, event)
