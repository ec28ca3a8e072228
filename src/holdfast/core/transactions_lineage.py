"""How facts about the log itself are told."""

from collections.abc import Iterator
from typing import Final

from holdfast.core import events as e
from holdfast.core.action import LOG, Action, Details, Renderer
from holdfast.core.record import Record


def _log_forked(event: e.LogForked, record: Record) -> Iterator[Action]:
    details: Details = {
        "log_id": event.log_id,
        "origin": event.origin,
        "at_position": event.at_position,
        "kind": event.kind,
        "head": event.head.hex(),
        "reason": event.reason,
    }
    if event.hole.file:
        details |= {
            "hole_file": event.hole.file,
            "hole_offset": event.hole.offset,
            "lost_from": event.hole.first,
            "lost_to": event.hole.last or None,
        }
    yield Action("log_forked", LOG, details)


def _log_resumed(event: e.LogResumed, record: Record) -> Iterator[Action]:
    yield Action("log_resumed", LOG, {"suspended": event.suspended})


def _repaired(event: e.Repaired, record: Record) -> Iterator[Action]:
    for finding, deed in zip(event.findings, event.deeds, strict=True):
        yield Action("repaired", LOG, {"finding": finding, "deed": deed})


LINEAGE: Final[dict[type[e.Event], Renderer]] = {
    e.LogForked: _log_forked,
    e.LogResumed: _log_resumed,
    e.Repaired: _repaired,
}
