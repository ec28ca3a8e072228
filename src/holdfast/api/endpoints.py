"""Endpoints: where attempts can be reached, as long as their leases live."""

from typing import Any, Final

from holdfast.api.call import Answer, Call
from holdfast.api.problems import Declined
from holdfast.core import commands as c
from holdfast.core.ids import Index, JobId, LeaseId, WorkerId, task_name
from holdfast.core.state import State
from holdfast.wire.bodies import NewEndpoint

MOST: Final = 1_000


async def list_endpoints(call: Call) -> Answer:
    """Endpoints of a name, or whose names begin alike."""
    name, prefix = call.one("name"), call.one("prefix")

    def look(state: State) -> list[dict[str, Any]]:
        if name:
            names = [name] if name in state.endpoints else []
        else:
            names = sorted(known for known in state.endpoints if known.startswith(prefix))
        return [view for known in names[:MOST] for view in _views(state, known)][:MOST]

    return Answer({"schema": 1, "endpoints": await call.look(look)})


def _views(state: State, name: str) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "address": endpoint.address,
            "metadata": dict(endpoint.metadata),
            "task": task_name(task.job_id, task.index),
            "job_id": task.job_id,
            "index": int(task.index),
            "lease_id": int(task.lease_id),
            "worker": task.worker,
        }
        for task in state.endpoints[name].values()
        for endpoint in task.endpoints
        if endpoint.name == name
    ]


async def register(call: Call) -> Answer:
    """Say where an attempt can be reached, under its lease."""
    body: NewEndpoint = call.body
    _check(call, body.worker)
    await call.execute(
        c.RegisterEndpoint(
            worker=WorkerId(body.worker),
            incarnation=body.incarnation,
            job_id=JobId(body.job_id),
            index=Index(body.index),
            lease_id=LeaseId(body.lease_id),
            name=call.path["name"],
            address=body.address,
            metadata=tuple(sorted(body.metadata.items())),
        )
    )
    return Answer({})


async def remove(call: Call) -> Answer:
    """Take an endpoint back, under the same lease."""
    worker = call.one("worker")
    _check(call, worker)
    await call.execute(
        c.RemoveEndpoint(
            worker=WorkerId(worker),
            incarnation=call.number("incarnation", 0, most=2**62),
            job_id=JobId(call.one("job_id")),
            index=Index(call.number("index", 0, most=2**62)),
            lease_id=LeaseId(call.number("lease_id", 0, most=2**62)),
            name=call.path["name"],
        )
    )
    return Answer({})


def _check(call: Call, worker: str) -> None:
    if not call.identity.speaks_for(worker):
        raise Declined("forbidden", f"this token is for the worker {call.identity.worker!r}")
