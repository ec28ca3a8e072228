"""What begins and ends operations, and the steps that only they take."""

from collections.abc import Iterable

from holdfast.core import commands_operations as o
from holdfast.core import events as e
from holdfast.core.decide.jobs import no_task, unknown
from holdfast.core.decide.operator import moved, spans_of
from holdfast.core.decide.wishes import LARGEST
from holdfast.core.decision import Accepted, Decision, Reason, Refused
from holdfast.core.ids import NEVER, NOWHERE, Index, Instant, Position
from holdfast.core.job import Job, state_of
from holdfast.core.operation import REQUEST_BYTES, UNDO, VERBS, Operation, operation_name
from holdfast.core.state import State
from holdfast.core.task import TaskState
from holdfast.core.ties import outlives_parent


def begin(state: State, command: o.BeginOperation, now: Instant) -> Decision:
    """The answer is its id; under a key that is known, that of the operation it belongs to."""
    if command.verb not in VERBS or command.total < 0:
        return Refused(Reason.INVALID, f"{command.verb[:40]!r} is none of {', '.join(VERBS)}")
    if len(command.request) > REQUEST_BYTES:
        told = "this names too many: choose them by a range, a name, a label or a state"
        return Refused(Reason.TOO_LARGE, told)
    known = _known(state, command)
    if known is not None:
        if known.digest != command.digest:
            told = f"{known.operation_id} was asked for under this key with another body"
            return Refused(Reason.KEY_REUSED, told)
        return Accepted((), known.operation_id)
    refusal = _may_not_undo(state, command)
    if refusal is not None:
        return refusal
    begun = e.OperationBegun(
        operation_id=operation_name(Position(state.position + 1)),
        verb=command.verb,
        request=command.request,
        digest=command.digest,
        key=command.key,
        asked_by=command.asked_by,
        reason=command.reason,
        total=command.total,
        undoes=command.undoes,
    )
    return Accepted((begun,), begun.operation_id)


def _known(state: State, command: o.BeginOperation) -> Operation | None:
    if not command.key:
        return None
    same = (known for known in state.operations.values() if known.key == command.key)
    return next(same, None)


def _may_not_undo(state: State, command: o.BeginOperation) -> Refused | None:
    if bool(command.undoes) != (command.verb == UNDO):
        return Refused(Reason.INVALID, "an undo names the operation that it undoes")
    if not command.undoes:
        return None
    other = state.operations.get(command.undoes)
    if other is None:
        return Refused(Reason.NOT_FOUND, f"there is no operation {command.undoes[:40]}")
    if other.verb == UNDO:
        return Refused(Reason.INVALID_TRANSITION, f"{other.operation_id} is an undo itself")
    if other.undone_by:
        told = f"{other.operation_id} was undone before, by {other.undone_by}"
        return Refused(Reason.CONFLICT, told)
    return None


def end(state: State, command: o.EndOperation, now: Instant) -> Decision:
    """A second end changes nothing."""
    known = state.operations.get(command.operation_id)
    if known is None:
        told = f"there is no operation {command.operation_id[:40]}"
        return Refused(Reason.NOT_FOUND, told)
    if known.last != NOWHERE:
        return Accepted(())
    ended = e.OperationEnded(operation_id=command.operation_id, outcomes=command.outcomes)
    return Accepted((ended,))


def restore(state: State, command: o.RestoreTasks, now: Instant) -> Decision:
    """Those that are still as that record left them wait again; the answer is how many. A gang
    comes back whole or not at all."""
    job = state.jobs.get(command.job_id)
    if job is None:
        return unknown(state, command.job_id)
    if len(command.items) not in (0, len(command.indices)):
        return Refused(Reason.INVALID, "each task runs with an item, or all with what they share")
    for index in command.indices:
        if not 0 <= index < job.count:
            return no_task(job, index)
    if outlives_parent(state, job):
        told = f"job {job.job_id} ended with its parent, job {job.parent}; send that back first"
        return Refused(Reason.CONFLICT, told)
    items = dict(zip(command.indices, command.items, strict=False))
    chosen = [index for index in _each(command.indices) if _is_left(job, index, command.killed_at)]
    if not chosen or (job.spec.placing.gang and len(chosen) < job.count):
        return Accepted((), 0)
    restored = e.TasksRestored(
        job_id=job.job_id,
        generation=job.generation + 1,
        spans=spans_of(chosen),
        items=tuple(items[index] for index in chosen) if items else (),
        shared=command.shared,
    )
    return Accepted((restored,), len(chosen))


def _is_left(job: Job, index: Index, killed_at: Position) -> bool:
    """Whether that record's kill of this task is the last thing that happened to it."""
    is_killed = job.states[index] == TaskState.KILLED
    return is_killed and job.ends is not None and job.ends[index] == killed_at


def reschedule_many(state: State, command: o.RescheduleTasks, now: Instant) -> Decision:
    """Those that wait move; the answer is how many."""
    job = state.jobs.get(command.job_id)
    if job is None:
        return unknown(state, command.job_id)
    if not 0 <= command.delay_ms <= LARGEST or not 0 <= command.not_before_wall <= LARGEST:
        return Refused(Reason.INVALID, "a task cannot be moved into the past, nor out of time")
    for index in command.indices:
        if not 0 <= index < job.count:
            return no_task(job, index)
    not_before = Instant(now + command.delay_ms) if command.delay_ms else NEVER
    waiting = [i for i in _each(command.indices) if state_of(job, i) is TaskState.WAITING]
    events = tuple(moved(job, index, not_before, command.not_before_wall) for index in waiting)
    return Accepted(events, len(events))


def _each(indices: Iterable[Index]) -> list[Index]:
    return sorted(dict.fromkeys(indices))
