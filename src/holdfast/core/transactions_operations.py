"""Events about operations as people see them."""

from collections.abc import Iterator
from typing import Final

from holdfast.core import events as e
from holdfast.core.action import Action, Details, Renderer, ranges
from holdfast.core.record import Record


def _begun(event: e.OperationBegun, record: Record) -> Iterator[Action]:
    details: Details = {"verb": event.verb, "total": event.total}
    if event.undoes:
        details["undoes"] = event.undoes
    yield Action("operation_begun", event.operation_id, details)


def _ended(event: e.OperationEnded, record: Record) -> Iterator[Action]:
    yield Action("operation_ended", event.operation_id, dict(event.outcomes))


def _restored(event: e.TasksRestored, record: Record) -> Iterator[Action]:
    details: Details = {"generation": event.generation}
    spans = [(span.first, span.last, details) for span in event.spans]
    yield from ranges("task_restored", event.job_id, spans)
    yield from ranges("task_requeued", event.job_id, [(s.first, s.last, {}) for s in event.spans])


OPERATION_RENDERERS: Final[dict[type[e.Event], Renderer]] = {
    e.OperationBegun: _begun,
    e.OperationEnded: _ended,
    e.TasksRestored: _restored,
}
