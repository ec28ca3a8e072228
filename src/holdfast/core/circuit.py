"""The circuit: whether a function or a sink is given anything at all.

Failures in a row open it, time half-opens it, and one trial decides: a success closes it, a failure
opens it for longer. What is closed and has nothing against it has no record.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from holdfast.core import events as e
from holdfast.core.errors import ImpossibleEvent
from holdfast.core.ids import NEVER, Index, Instant, JobId, LeaseId
from holdfast.core.spec import DEFAULT_NAMESPACE, JobSpec

FUNCTION: Final = "function"
"""The name is a target: every job that runs it has a part in its circuit."""
SINK: Final = "sink"

LONGEST_COOLDOWN_MS: Final = 600_000
"""However often a trial fails: the next comes no later than this, or than was asked for."""

CircuitKey = tuple[str, str]


class CircuitState(StrEnum):
    """Whether anything is given out."""

    CLOSED = "CLOSED"
    OPEN = "OPEN"
    HALF_OPEN = "HALF_OPEN"


TRANSITIONS: Final[Mapping[CircuitState, Mapping[type[e.Event], CircuitState]]] = {
    CircuitState.CLOSED: {
        e.CircuitCounted: CircuitState.CLOSED,
        e.CircuitOpened: CircuitState.OPEN,
    },
    CircuitState.OPEN: {
        e.CircuitHalfOpened: CircuitState.HALF_OPEN,
        # A person may have what opened by itself stay open.
        e.CircuitOpened: CircuitState.OPEN,
        e.CircuitClosed: CircuitState.CLOSED,
    },
    CircuitState.HALF_OPEN: {
        e.CircuitProbed: CircuitState.HALF_OPEN,
        e.CircuitOpened: CircuitState.OPEN,
        e.CircuitClosed: CircuitState.CLOSED,
    },
}


class Probe(Struct, frozen=True, array_like=True, gc=False):
    """The attempt that tries a half-open function; it lives as long as its lease."""

    job_id: JobId
    index: Index
    lease_id: LeaseId


class Circuit(Struct, array_like=True, gc=False):
    """`failures` in a row so far. `until` is when it half-opens, where it is open and time alone
    decides; `since` and `cause` are of its last change."""

    kind: str
    name: str
    state: CircuitState = CircuitState.CLOSED
    failures: int = 0
    cooldown_ms: int = 0
    since: Instant = NEVER
    until: Instant = NEVER
    cause: str = ""
    probe: Probe | None = None

    @property
    def key(self) -> CircuitKey:
        return self.kind, self.name


def circuit_id(kind: str, name: str) -> str:
    """How people call it: `function/shop.mail:send`, `sink/ledger`."""
    return f"{kind}/{name}"


def circuit_of(spec: JobSpec) -> str:
    """The name of the function's circuit; empty for none. All that run one function share it,
    within a namespace: a tenant must not be able to stop another's. A command says little of what
    it does, so it has a part only where that was asked for."""
    if spec.kind == "command" and not spec.circuit.failures:
        return ""
    if spec.namespace == DEFAULT_NAMESPACE and "/" not in spec.target:
        return spec.target
    return f"{spec.namespace.replace('/', '%2F')}/{spec.target}"


def target_of(circuit: Circuit, event: e.Event) -> CircuitState:
    """The state the table sends this circuit to, or the proof that history is broken."""
    target = TRANSITIONS[circuit.state].get(type(event))
    if target is None:
        called = f"circuit {circuit_id(circuit.kind, circuit.name)}"
        raise ImpossibleEvent(called, circuit.state.name, event)
    return target


def longer(cooldown_ms: int) -> int:
    """How long it stays open after a trial that failed."""
    return max(cooldown_ms, min(2 * cooldown_ms, LONGEST_COOLDOWN_MS))
