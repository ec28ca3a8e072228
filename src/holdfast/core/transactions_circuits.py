"""How facts about circuits are told."""

from collections.abc import Iterator
from typing import Final

from holdfast.core import events as e
from holdfast.core.action import Action, Details, Renderer
from holdfast.core.circuit import circuit_id
from holdfast.core.ids import task_name
from holdfast.core.record import Record


def _counted(event: e.CircuitCounted, record: Record) -> Iterator[Action]:
    called = circuit_id(event.kind, event.name)
    yield Action("circuit_counted", called, {"failures": event.failures})


def _opened(event: e.CircuitOpened, record: Record) -> Iterator[Action]:
    told: Details = {
        "cause": event.cause, "failures": event.failures, "cooldown_ms": event.cooldown_ms,
        "until": event.until,
    }  # fmt: skip
    yield Action("circuit_opened", circuit_id(event.kind, event.name), told)


def _half_opened(event: e.CircuitHalfOpened, record: Record) -> Iterator[Action]:
    called = circuit_id(event.kind, event.name)
    yield Action("circuit_half_opened", called, {"cause": event.cause})


def _probed(event: e.CircuitProbed, record: Record) -> Iterator[Action]:
    told: Details = {"task": task_name(event.job_id, event.index), "lease_id": event.lease_id}
    yield Action("circuit_probed", circuit_id(event.kind, event.name), told)


def _closed(event: e.CircuitClosed, record: Record) -> Iterator[Action]:
    called = circuit_id(event.kind, event.name)
    yield Action("circuit_closed", called, {"cause": event.cause})


CIRCUITS: Final[dict[type[e.Event], Renderer]] = {
    e.CircuitCounted: _counted,
    e.CircuitOpened: _opened,
    e.CircuitHalfOpened: _half_opened,
    e.CircuitProbed: _probed,
    e.CircuitClosed: _closed,
}
