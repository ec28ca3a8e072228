"""How tasks ended, read from the records that say so."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from holdfast.api.problems import Declined
from holdfast.core import events as e
from holdfast.core.ids import NOWHERE, Index, JobId, Position
from holdfast.core.job import Job, state_of
from holdfast.core.record import Record
from holdfast.core.task import FINISHED, TaskState
from holdfast.wire.bodies import Outcome

LOST = "the history that tells is no longer kept"


class Ending(Struct, frozen=True, gc=False):
    """A task as memory has it: its state, and where its end is told. Zero: it goes on."""

    index: Index
    state: TaskState
    position: Position


def ends_of(job: Job, indices: Iterable[Index]) -> list[Ending]:
    return [_end_of(job, index) for index in indices]


def _end_of(job: Job, index: Index) -> Ending:
    if index >= job.count:
        raise Declined("not_found", f"job {job.job_id} has no task {index}")
    state = state_of(job, index)
    if state is TaskState.COMMITTED:
        task = (job.tasks or {})[index]
        return Ending(index, state, task.committed)
    if state not in FINISHED or job.ends is None or index >= len(job.ends):
        return Ending(index, state, NOWHERE)
    return Ending(index, state, Position(job.ends[index]))


def outcomes_in(record: Record | None, job_id: JobId, asked: Sequence[Ending]) -> list[Outcome]:
    """What one record says of these tasks; what it says nothing of has its state alone."""
    wanted = {int(end.index): end for end in asked}
    found: dict[int, Outcome] = {}
    for event in record.events if record is not None else ():
        if getattr(event, "job_id", None) == job_id:
            found.update((told.index, told) for told in _told(event, wanted))
    return [found.get(index) or _silent(end) for index, end in wanted.items()]


def _silent(end: Ending) -> Outcome:
    over = end.state in FINISHED or end.state is TaskState.COMMITTED
    return Outcome(index=end.index, state=end.state.name, error=LOST if over else "")


def _told(event: e.AnyEvent, wanted: dict[int, Ending]) -> list[Outcome]:
    if isinstance(event, e.TasksCompleted):
        return [_well(commit, wanted) for commit in event.commits if commit.index in wanted]
    if isinstance(event, e.TaskCommitted):
        return [_well(event.commit, wanted)] if event.commit.index in wanted else []
    if isinstance(event, e.TasksQuarantined):
        return [_badly(end, wanted) for end in event.ends if end.index in wanted]
    if isinstance(event, e.TasksKilled | e.TasksSetAside):
        ends = [_badly(end, wanted, event.cause) for end in event.ends if end.index in wanted]
        return [*_stopped(event.spans, event.cause, wanted), *ends]
    if isinstance(event, e.TasksUnschedulable):
        return _stopped(event.spans, event.reason, wanted)
    if isinstance(event, e.TasksPurged):
        spans = [e.Span(one.index, one.index) for one in event.all if one.index in wanted]
        return _stopped(spans, f"given up: {event.reason}", wanted)
    return []


def _well(commit: e.Commit, wanted: dict[int, Ending]) -> Outcome:
    state = wanted[commit.index].state.name
    stored = commit.stored
    if stored is None:
        size = len(commit.result)
        return Outcome(
            index=commit.index, state=state, result=commit.result, result_bytes=size, exit_code=0
        )
    digest = stored.digest.hex()
    return Outcome(
        index=commit.index, state=state, result_digest=digest, result_bytes=stored.size, exit_code=0
    )


def _badly(end: e.End, wanted: dict[int, Ending], why: str = "") -> Outcome:
    return Outcome(
        index=end.index,
        state=wanted[end.index].state.name,
        error=end.error or why or end.reason,
        traceback=end.traceback,
        exit_code=end.exit_code,
    )


def _stopped(spans: Sequence[e.Span], why: str, wanted: dict[int, Ending]) -> list[Outcome]:
    return [
        Outcome(index=index, state=end.state.name, error=why)
        for index, end in wanted.items()
        if any(span.first <= index <= span.last for span in spans)
    ]
