"""Requests about many jobs or tasks: preview, do, look, undo."""

import asyncio
from functools import partial
from hashlib import blake2b
from typing import Any, Final

import msgspec
from msgspec import structs

from holdfast.api.call import Answer, Call
from holdfast.api.paging import page
from holdfast.api.problems import Declined, understood
from holdfast.api.waiting import until_any
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.inspect import HistoryGone
from holdfast.coordinator.library import Library
from holdfast.coordinator.operation_views import operation_view
from holdfast.coordinator.operations import deeds_in, preview_of
from holdfast.coordinator.selecting import Unclear
from holdfast.coordinator.undoing import foreseen
from holdfast.coordinator.views import View
from holdfast.core import commands_operations as o
from holdfast.core.operation import CANCEL_JOBS, CANCEL_TASKS, UNDO, Operation
from holdfast.wire.amounts import duration_ms
from holdfast.wire.operations import NewOperation, Undo

LONGEST_WAIT_S: Final = 60.0
CANCELS: Final = (CANCEL_JOBS, CANCEL_TASKS)
"""What whoever may cancel may do to many; the rest is for operators."""


async def begin(call: Call) -> Answer:
    """Do something to many jobs or tasks, in one request; `dry_run` says to how many."""
    body: NewOperation = call.body
    if body.verb not in CANCELS:
        _need_operator(call)
    found = await _preview(call, body)
    if body.dry_run:
        return Answer({"schema": 1, "dry_run": True, **structs.asdict(found)})
    request = msgspec.json.encode(structs.replace(body, wait="", dry_run=False))
    total = found.jobs if body.verb.endswith("jobs") else found.tasks
    command = o.BeginOperation(
        verb=body.verb, request=request, digest=_digest(request), key=call.key,
        asked_by=call.identity.actor, reason=body.reason, total=total,
    )  # fmt: skip
    return await _begun(call, command, body.wait)


async def undo(call: Call) -> Answer:
    """Take back what an operation did, as far as nothing has begun since."""
    body: Undo = call.body
    _need_operator(call)
    operation = await call.ask(partial(_known, call.path["id"]))
    if body.dry_run:
        return Answer({"schema": 1, "dry_run": True, "outcomes": await _foreseen(call, operation)})
    command = o.BeginOperation(
        verb=UNDO, request=b"{}", digest=_digest(operation.operation_id.encode()), key=call.key,
        asked_by=call.identity.actor, reason=body.reason, total=operation.total,
        undoes=operation.operation_id,
    )  # fmt: skip
    return await _begun(call, command, body.wait)


async def resume(call: Call) -> Answer:
    """Go on with an operation that was cut off; one that is over stays as it is."""
    operation = await call.ask(partial(_known, call.path["id"]))
    if operation.verb not in CANCELS:
        _need_operator(call)
    return await _answered(call, operation, LONGEST_WAIT_S)


async def list_operations(call: Call) -> Answer:
    """The operations that are remembered, newest first."""

    def look(coordinator: Coordinator) -> list[View]:
        known = reversed(coordinator.state.operations.values())
        return [_view(call, operation) for operation in known]

    return Answer(page("operations", await call.ask(look), None))


async def show(call: Call) -> Answer:
    """One operation and how far it is; with `wait`, when it is over or the time is up."""
    wait = call.one("wait")
    name = call.path["id"]
    if wait:
        await _over(call, name, _seconds(wait))
    return await _shown(call, name)


async def _begun(call: Call, command: o.BeginOperation, wait: str) -> Answer:
    wait_s = _seconds(wait or "30s")
    done = await call.found(
        await call.ask(lambda k: call.decide(k, command, reason=command.reason))
    )
    operation = await call.ask(partial(_known, str(done.answer)))
    return await _answered(call, operation, wait_s)


async def _answered(call: Call, operation: Operation, wait_s: float) -> Answer:
    call.service.operations.start(operation, call.identity.actor)
    await _over(call, operation.operation_id, wait_s)
    return await _shown(call, operation.operation_id)


async def _over(call: Call, name: str, wait_s: float) -> None:
    leaving = call.service.leaving.wait()
    await until_any(
        call.service.operations.over(name), leaving, call.gone(), timeout_s=wait_s
    )


async def _preview(call: Call, body: NewOperation) -> Any:
    portions: list[Any] = []

    def some(coordinator: Coordinator) -> Any:
        try:
            if not portions:
                portions.append(preview_of(coordinator, body))
            return next(portions[0])
        except Unclear as error:
            raise Declined(error.code, str(error)) from None

    found = None
    while found is None:
        found = await call.ask(some)
    return found


async def _foreseen(call: Call, operation: Operation) -> dict[str, int]:
    served = call.service.served
    library = Library(served.told, served.history)
    until = await call.look(lambda state: state.position)
    try:
        deeds = await asyncio.to_thread(deeds_in, operation, library, until)
    except (HistoryGone, FileNotFoundError):
        raise Declined("gone", f"what {operation.operation_id} did is no longer kept") from None
    return dict(await call.ask(lambda k: +foreseen(k.state, deeds, k.now())))


async def _shown(call: Call, name: str) -> Answer:
    def look(coordinator: Coordinator) -> View:
        return _view(call, _known(name, coordinator))

    return Answer({"schema": 1, **await call.ask(look)})


def _view(call: Call, operation: Operation) -> View:
    run = call.service.operations.run_of(operation.operation_id)
    wall = call.service.wall
    if run is None:
        return operation_view(operation, wall)
    return operation_view(
        operation, wall, outcomes=run.outcomes, refusals=run.refusals, is_running=True
    )


def _known(name: str, coordinator: Coordinator) -> Operation:
    known = coordinator.state.operations.get(name)
    if known is None:
        raise Declined("not_found", f"there is no operation {name[:40]}, or not any more")
    return known


def _need_operator(call: Call) -> None:
    if not call.identity.may("operator"):
        raise Declined("forbidden", "this takes a token of scope operator")


def _digest(request: bytes) -> bytes:
    return blake2b(request, digest_size=16).digest()


def _seconds(wait: str) -> float:
    with understood():
        return min(duration_ms(wait, "wait") / 1_000, LONGEST_WAIT_S)
