"""Records of former releases, told as this one tells them.

An event is known by its name and by how many values it had; each step below is for one shape that
was written once and is written no more. What a release has added since is a last field with a
default and needs no step. Records of this release are read without coming through here.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from holdfast.core.unreadable import UNREADABLE

Raw = list[Any]
"""An event as it was written: its name, then its values."""

Step = Callable[[Raw], Iterable[Raw]]


def _killed_without_pasts(event: Raw) -> Iterable[Raw]:
    """Where those that waited had come from was not told: their histories begin anew."""
    yield [*event, []]


def _effect_delivered(event: Raw) -> Iterable[Raw]:
    """Entries were confirmed one by one."""
    _, job_id, index, number = event
    yield ["EffectsDelivered", job_id, [[index, number]]]


def _task_done(event: Raw) -> Iterable[Raw]:
    """The last confirmation was the end of the task, all in one event."""
    _, job_id, index, number = event
    yield ["EffectsDelivered", job_id, [[index, number]]]
    yield ["TasksDone", job_id, [index]]


def _committed_with_bytes(event: Raw) -> Iterable[Raw]:
    """What was owed was bytes for nobody in particular; it is owed to a sink of that name."""
    *told, owed = event
    yield [*told, [["effect", OUTBOX, "", body] for body in owed]]


OUTBOX: Final = "outbox"

STEPS: Final[dict[tuple[str, int], Step]] = {
    ("TasksKilled", 4): _killed_without_pasts,
    ("EffectDelivered", 3): _effect_delivered,
    ("TaskDone", 3): _task_done,
    ("TaskCommitted", 5): _committed_with_bytes,
}
"""By the name of an event and the number of its values."""


def upcast(data: bytes) -> bytes | None:
    """The same record in the shapes of this release; None where no step knows a part of it."""
    try:
        *envelope, events = msgspec.msgpack.decode(data)
        told = [new for event in events for new in _stepped(event)]
    except (*UNREADABLE, ValueError, TypeError):
        return None
    return None if told == events else msgspec.msgpack.encode([*envelope, told])


def _stepped(event: Raw) -> Iterable[Raw]:
    name, *values = event
    step = STEPS.get((name, len(values)))
    is_current = name == "TaskCommitted" and not any(isinstance(v, bytes) for v in values[-1])
    return (event,) if step is None or is_current else step(event)


def names_in(data: bytes) -> tuple[str, ...]:
    """The names of the events in a record that cannot be read, as far as they can be told."""
    try:
        events = msgspec.msgpack.decode(data)[-1]
        return tuple(str(event[0]) for event in events)
    except (*UNREADABLE, LookupError, TypeError):
        return ()


def opened_by(data: bytes) -> str:
    """The version of the release that opened the log with this record; empty for another one."""
    try:
        events = msgspec.msgpack.decode(data)[-1]
        found = [event[3] for event in events if event[0] == "LogOpened"]
    except (*UNREADABLE, LookupError, TypeError):
        return ""
    return str(found[0]) if found else ""
