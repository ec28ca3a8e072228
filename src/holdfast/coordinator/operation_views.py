"""Operations as people and programs look at them."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.coordinator.history import Past
from holdfast.coordinator.inspect import HistoryGone
from holdfast.coordinator.library import Library
from holdfast.coordinator.operations import deeds_in
from holdfast.coordinator.views import View, Wall, rfc3339
from holdfast.core.ids import NOWHERE, Position
from holdfast.core.operation import UNDO, Operation

RUNNING = "RUNNING"
DONE = "DONE"
INTERRUPTED = "INTERRUPTED"


def operation_view(
    operation: Operation,
    wall: Wall,
    *,
    outcomes: Mapping[str, int] | None = None,
    refusals: Sequence[tuple[str, str]] = (),
    is_running: bool = False,
) -> View:
    """`outcomes` are those so far, of one that has not ended."""
    is_over = operation.last != NOWHERE
    state = DONE if is_over else RUNNING if is_running else INTERRUPTED
    asked: dict[str, Any] = msgspec.json.decode(operation.request or b"{}")
    return {
        "id": operation.operation_id,
        "verb": operation.verb,
        "state": state,
        "selection": asked.get("selection"),
        "reason": operation.reason or None,
        "asked_by": operation.asked_by,
        "at": rfc3339(wall(operation.at)),
        "total": operation.total,
        "outcomes": dict(operation.outcomes) if is_over else dict(outcomes or {}),
        "refusals": [{"id": name, "why": why} for name, why in refusals],
        "undoes": operation.undoes or None,
        "undone_by": operation.undone_by or None,
        "can_undo": operation.verb != UNDO and not operation.undone_by,
        "position": int(operation.first),
        "ended": int(operation.last) if is_over else None,
    }


def looked_at(operation: Operation, past: Past, until: Position) -> View:
    """One that nobody carries out now, with how far it got as its records tell. Waits for a
    disk."""
    if operation.last != NOWHERE:
        return operation_view(operation, past.wall)
    try:
        deeds = deeds_in(operation, Library(past.told, past.records), until)
    except (HistoryGone, FileNotFoundError):
        return operation_view(operation, past.wall)
    outcomes = {"jobs": len(deeds.jobs), "tasks": deeds.tasks}
    return operation_view(operation, past.wall, outcomes=outcomes)
