"""Circuits as people and programs look at them."""

from holdfast.coordinator.views import View, Wall, rfc3339, time_of
from holdfast.core.circuit import Circuit, circuit_id
from holdfast.core.ids import task_name
from holdfast.core.state import State


def circuit_views(state: State, wall: Wall) -> list[View]:
    """Every circuit that something is held against, by kind and name."""
    return [_view(state.circuits[key], wall) for key in sorted(state.circuits)]


def _view(circuit: Circuit, wall: Wall) -> View:
    probe = circuit.probe
    return {
        "id": circuit_id(*circuit.key),
        "kind": circuit.kind,
        "name": circuit.name,
        "state": circuit.state.value,
        "failures": circuit.failures,
        "cooldown_ms": circuit.cooldown_ms or None,
        "since": rfc3339(wall(circuit.since)),
        "until": time_of(circuit.until, wall),
        "cause": circuit.cause or None,
        "probe": None if probe is None else task_name(probe.job_id, probe.index),
    }
