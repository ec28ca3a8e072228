"""The history of resources, watched: generations go up one by one, and nothing goes that is still
wanted or not cleaned up."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec import Struct

from holdfast.core import events as e
from holdfast.core.ids import Instant
from holdfast.core.resource import Pairs
from holdfast.core.violation import Finding


class SeenResource(Struct):
    """A resource as its events tell it."""

    generation: int = 0
    spec: bytes | None = None
    status: bytes = b""
    finalizers: tuple[str, ...] = ()
    deleted: bool = False
    marks: tuple[Pairs, Pairs] = ((), ())


def _put(watch: Any, event: e.ResourcePut, at: Instant) -> Iterator[Finding]:
    """R2: the generation is one more with each spec that says something else, and never goes back
    while the resource lives."""
    seen = watch.resources.setdefault((event.kind, event.name), SeenResource())
    if event.generation != seen.generation + 1 or event.spec == seen.spec or seen.deleted:
        yield _name(event), f"R2 generation {event.generation} follows {seen.generation}"
    seen.generation, seen.spec = event.generation, event.spec


def _labelled(watch: Any, event: e.ResourceLabelled, at: Instant) -> Iterator[Finding]:
    seen = watch.resources[(event.kind, event.name)]
    marks = (event.labels, event.annotations)
    if marks == seen.marks or seen.deleted:
        yield _name(event), "R2 labels were written that say what was said"
    seen.marks = marks


def _status(watch: Any, event: e.ResourceStatusPut, at: Instant) -> Iterator[Finding]:
    seen = watch.resources[(event.kind, event.name)]
    if event.status == seen.status:
        yield _name(event), "R2 a status was written that says what was said"
    seen.status = event.status


def _finalizers(watch: Any, event: e.ResourceFinalizersSet, at: Instant) -> Iterator[Finding]:
    """R3: who has to clean up is known before the deletion."""
    seen = watch.resources[(event.kind, event.name)]
    if seen.deleted and [name for name in event.finalizers if name not in seen.finalizers]:
        yield _name(event), f"R3 {event.finalizers} came after its deletion"
    seen.finalizers = event.finalizers


def _marked(watch: Any, event: e.ResourceDeletionMarked, at: Instant) -> Iterator[Finding]:
    seen = watch.resources[(event.kind, event.name)]
    if seen.deleted:
        yield _name(event), "R3 it was deleted twice"
    seen.deleted = True


def _removed(watch: Any, event: e.ResourceRemoved, at: Instant) -> Iterator[Finding]:
    """R3: what goes was deleted, and nobody has to clean up after it."""
    seen = watch.resources.pop((event.kind, event.name))
    if not seen.deleted or seen.finalizers:
        yield _name(event), f"R3 it went, deleted {seen.deleted}, with {seen.finalizers}"


def _name(event: Any) -> str:
    return f"{event.kind}/{event.name}"


RESOURCE_JUDGES: Final[dict[type[e.Event], Callable[[Any, Any, Instant], Iterator[Finding]]]] = {
    e.ResourcePut: _put,
    e.ResourceLabelled: _labelled,
    e.ResourceStatusPut: _status,
    e.ResourceFinalizersSet: _finalizers,
    e.ResourceDeletionMarked: _marked,
    e.ResourceRemoved: _removed,
}
