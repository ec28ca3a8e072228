"""Circuits: which functions and sinks are given nothing, and why."""

from holdfast.api.call import Answer, Call
from holdfast.coordinator.circuits import circuit_views
from holdfast.core import commands as c
from holdfast.wire.bodies import Reason


async def list_circuits(call: Call) -> Answer:
    """Every circuit that something is held against; those that are not listed are closed."""
    found = await call.look(lambda state: circuit_views(state, call.service.wall))
    return Answer({"schema": 1, "circuits": found})


async def open_circuit(call: Call) -> Answer:
    """Give nothing more out for this function or sink until its circuit is closed."""
    body: Reason = call.body
    kind, name = call.path["kind"], call.path["name"]
    command = c.OpenCircuit(kind=kind, name=name, reason=body.reason, **call.keying())
    done = await call.execute(command, reason=body.reason)
    return Answer({"changed": bool(done.events)})


async def close_circuit(call: Call) -> Answer:
    """Give everything out again, and forget the failures."""
    body: Reason = call.body
    kind, name = call.path["kind"], call.path["name"]
    command = c.CloseCircuit(kind=kind, name=name, reason=body.reason, **call.keying())
    done = await call.execute(command, reason=body.reason)
    return Answer({"changed": bool(done.events)})
