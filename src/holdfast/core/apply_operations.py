"""Folds of the events about operations."""

from msgspec import structs

from holdfast.core import events as e
from holdfast.core.apply_jobs import indices_of, send_back
from holdfast.core.errors import BrokenInvariant, ImpossibleEvent
from holdfast.core.ids import NOWHERE, Instant, Position
from holdfast.core.operation import KEPT, Operation
from holdfast.core.state import State
from holdfast.core.task import TaskState


def operation_begun(
    state: State, event: e.OperationBegun, position: Position, at: Instant
) -> None:
    known = state.operations
    if event.operation_id in known:
        raise BrokenInvariant(f"operation {event.operation_id} was begun twice")
    undone = known.get(event.undoes)
    if undone is not None:
        known[event.undoes] = structs.replace(undone, undone_by=event.operation_id)
    known[event.operation_id] = Operation(
        event.operation_id, event.verb, event.request, event.digest, event.key, event.asked_by,
        event.reason, event.total, at, position, undoes=event.undoes,
    )  # fmt: skip
    while len(known) > KEPT:
        del known[next(iter(known))]


def operation_ended(
    state: State, event: e.OperationEnded, position: Position, at: Instant
) -> None:
    known = state.operations.get(event.operation_id)
    if known is None:
        # So many came after it that nobody remembers it any more.
        return
    if known.last != NOWHERE:
        raise BrokenInvariant(f"operation {event.operation_id} ended twice")
    ended = structs.replace(known, last=position, outcomes=event.outcomes)
    state.operations[event.operation_id] = ended


def tasks_restored(state: State, event: e.TasksRestored, position: Position, at: Instant) -> None:
    job = state.job_of(event.job_id)
    indices = indices_of(job, event)
    if len(event.items) not in (0, len(indices)):
        raise ImpossibleEvent(f"job {job.job_id}", f"to have {len(event.items)} items", event)
    for index in indices:
        if job.states[index] != TaskState.KILLED:
            raise ImpossibleEvent(f"task {job.job_id}/{index}", "not killed by a person", event)
    if event.items:
        if job.payloads is None:
            job.payloads = [None] * job.count
        for index, item in zip(indices, event.items, strict=True):
            job.payloads[index] = item
    elif job.payloads is None:
        job.shared = event.shared
    send_back(state, job, indices, event.generation, at, keeps_time=True)
