"""How facts about declared resources are told."""

from collections.abc import Iterator
from typing import Any, Final

from holdfast.core import events as e
from holdfast.core.action import Action, Details, Renderer
from holdfast.core.record import Record
from holdfast.core.resource import resource_id


def _put(event: e.ResourcePut, record: Record) -> Iterator[Action]:
    told: Details = {"generation": event.generation, "bytes": len(event.spec)}
    yield Action("resource_put", _name(event), told)


def _labelled(event: e.ResourceLabelled, record: Record) -> Iterator[Action]:
    told: Details = {
        "labels": ",".join(f"{key}={value}" for key, value in event.labels),
        "annotations": len(event.annotations),
    }
    yield Action("resource_labelled", _name(event), told)


def _status(event: e.ResourceStatusPut, record: Record) -> Iterator[Action]:
    yield Action("resource_status_put", _name(event), {"bytes": len(event.status)})


def _finalizers(event: e.ResourceFinalizersSet, record: Record) -> Iterator[Action]:
    told: Details = {"finalizers": ",".join(event.finalizers)}
    yield Action("resource_finalizers_set", _name(event), told)


def _marked(event: e.ResourceDeletionMarked, record: Record) -> Iterator[Action]:
    yield Action("resource_deletion_marked", _name(event), {})


def _removed(event: e.ResourceRemoved, record: Record) -> Iterator[Action]:
    yield Action("resource_removed", _name(event), {})


def _name(event: Any) -> str:
    return resource_id(event.kind, event.name)


RESOURCES: Final[dict[type[e.Event], Renderer]] = {
    e.ResourcePut: _put,
    e.ResourceLabelled: _labelled,
    e.ResourceStatusPut: _status,
    e.ResourceFinalizersSet: _finalizers,
    e.ResourceDeletionMarked: _marked,
    e.ResourceRemoved: _removed,
}
