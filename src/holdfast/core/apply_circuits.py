"""Folds of the events about circuits."""

from holdfast.core import events as e
from holdfast.core.circuit import Circuit, CircuitState, Probe, target_of
from holdfast.core.ids import NEVER, Instant, Position
from holdfast.core.state import State

Change = e.CircuitCounted | e.CircuitOpened | e.CircuitHalfOpened | e.CircuitProbed


def counted(state: State, event: e.CircuitCounted, position: Position, at: Instant) -> None:
    circuit = _moved(state, event)
    circuit.failures, circuit.since = event.failures, at
    if not event.failures:
        # Closed, and nothing against it: that is what every circuit without a record is.
        del state.circuits[circuit.key]


def opened(state: State, event: e.CircuitOpened, position: Position, at: Instant) -> None:
    circuit = _moved(state, event)
    circuit.failures, circuit.cooldown_ms = event.failures, event.cooldown_ms
    circuit.since, circuit.until, circuit.cause = at, event.until, event.cause
    circuit.probe = None


def half_opened(
    state: State, event: e.CircuitHalfOpened, position: Position, at: Instant
) -> None:
    circuit = _moved(state, event)
    circuit.since, circuit.until = at, NEVER


def probed(state: State, event: e.CircuitProbed, position: Position, at: Instant) -> None:
    circuit = _moved(state, event)
    circuit.probe = Probe(event.job_id, event.index, event.lease_id)
    circuit.since = at


def closed(state: State, event: e.CircuitClosed, position: Position, at: Instant) -> None:
    circuit = state.circuits.get((event.kind, event.name)) or Circuit(event.kind, event.name)
    target_of(circuit, event)
    del state.circuits[circuit.key]


def _moved(state: State, event: Change) -> Circuit:
    """The circuit in the state the table sends it to; made where it had no record."""
    circuit = state.circuits.get((event.kind, event.name)) or Circuit(event.kind, event.name)
    circuit.state = CircuitState(target_of(circuit, event))
    state.circuits[circuit.key] = circuit
    return circuit
