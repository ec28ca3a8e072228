"""Endpoints: where attempts can be reached, as long as their leases live."""

from hashlib import blake2b
from typing import Any, Final

import msgspec

from holdfast.api.call import Answer, Call
from holdfast.api.problems import Declined
from holdfast.api.tags import names
from holdfast.coordinator.coordinator import Coordinator
from holdfast.core import commands as c
from holdfast.core.decision import Decision
from holdfast.core.ids import Index, JobId, LeaseId, WorkerId, task_name
from holdfast.core.state import State
from holdfast.core.task import Endpoint, Task
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
            "etag": tag_of(task, endpoint),
        }
        for task in state.endpoints[name].values()
        for endpoint in task.endpoints
        if endpoint.name == name
    ]


async def register(call: Call) -> Answer:
    """Say where an attempt can be reached, under its lease."""
    body: NewEndpoint = call.body
    _check(call, body.worker)
    command = c.RegisterEndpoint(
        worker=WorkerId(body.worker),
        incarnation=body.incarnation,
        job_id=JobId(body.job_id),
        index=Index(body.index),
        lease_id=LeaseId(body.lease_id),
        name=call.path["name"],
        address=body.address,
        metadata=tuple(sorted(body.metadata.items())),
    )

    def replace(coordinator: Coordinator) -> tuple[Decision, str]:
        """Looked at and replaced in one step: nobody comes between."""
        _check_former(call, coordinator.state, command)
        decision = call.decide(coordinator, command)
        task, endpoint = _known(coordinator.state, command)
        return decision, tag_of(task, endpoint) if task and endpoint else ""

    decision, tag = await call.ask(replace)
    await call.found(decision)
    return Answer({}, headers=(("etag", tag),))


def tag_of(task: Task, endpoint: Endpoint) -> str:
    """Another one wherever an endpoint was registered anew with something else."""
    told = msgspec.msgpack.encode((task.lease_id, endpoint))
    return f'"{blake2b(told, digest_size=12).hexdigest()}"'


def _check_former(call: Call, state: State, command: c.RegisterEndpoint) -> None:
    """Whoever says what they believe to replace is refused where it is something else."""
    wanted, unwanted = call.headers.get("if-match", ""), call.headers.get("if-none-match", "")
    task, former = _known(state, command)
    if task is None or not (wanted or unwanted):
        # Without the lease there is nothing to replace, which is told otherwise.
        return
    tag = tag_of(task, former) if former is not None else ""
    if wanted and not names(wanted, tag):
        now = f"it is {tag} now" if tag else "there is none"
        raise Declined("precondition_failed", f"the endpoint is not the one named: {now}")
    if unwanted and names(unwanted, tag):
        raise Declined("precondition_failed", f"there is such an endpoint already: {tag}")


def _known(state: State, command: c.RegisterEndpoint) -> tuple[Task | None, Endpoint | None]:
    """The attempt that holds this very lease, and where it can be reached under this name."""
    job = state.jobs.get(command.job_id)
    task = (job.tasks or {}).get(command.index) if job is not None else None
    if task is None or task.lease_id != command.lease_id:
        return None, None
    return task, next((each for each in task.endpoints if each.name == command.name), None)


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
