"""A log that goes on from another one, and the word that lets it work."""

from collections.abc import Iterable, Iterator
from typing import Final

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.attempt import EndReason
from holdfast.core.commands_decided import UNKNOWN
from holdfast.core.decide.decided import put_aside
from holdfast.core.decide.endings import ends_by_job
from holdfast.core.decide.owed import parked_events
from holdfast.core.decision import Accepted, Decision, Reason, Refused
from holdfast.core.ids import Index, Instant, JobId
from holdfast.core.job import Job, state_of
from holdfast.core.lineage import KINDS
from holdfast.core.state import State
from holdfast.core.task import Task, TaskState

SUSPENDED: Final = "the log is suspended; `holdfast log resume` lets it work"
UNKNOWN_OUTCOME: Final = (
    "the log was damaged: how far this task is was told in a part that cannot be read in order"
)
ABLE: Final = (TaskState.WAITING, TaskState.LEASED, TaskState.RUNNING)
LEFT_BLOCK: Final = "the log was forked while the block ran: nobody knows how it ended"


def fork_log(state: State, command: c.ForkLog, now: Instant) -> Decision:
    """Whoever holds a lease holds it of the former log: here every attempt ends, uncharged. Where
    something could not be read, nobody knows how those ended: they wait for a person."""
    if command.kind not in KINDS:
        return Refused(Reason.INVALID, f"a log is not forked by {command.kind!r}")
    known = {state.log_id, *(ancestor.log_id for ancestor in state.lineage)}
    if not state.log_id or not command.log_id or command.log_id in known:
        return Refused(Reason.CONFLICT, "a fork has a name of its own, and a log it comes from")
    if command.epoch <= state.epoch:
        return Refused(
            Reason.CONFLICT, f"the log is at epoch {state.epoch}; {command.epoch} is fenced"
        )
    forked = e.LogForked(
        log_id=command.log_id,
        origin=state.log_id,
        at_position=state.position,
        head=command.head,
        head_position=command.head_position,
        kind=command.kind,
        hole=command.hole,
        reason=command.reason,
        epoch=command.epoch,
        next_lease=max(command.next_lease, state.next_lease),
        next_job=max(command.next_job, state.next_job),
    )
    held = [task for holder in state.holders.values() for task in holder.leases.values()]
    ended: tuple[e.AnyEvent, ...]
    if command.hole.first:
        # The hole may have held their commits.
        doubtful = _doubtful(state, command, held)
        ended = tuple(put_aside(*each, UNKNOWN, UNKNOWN_OUTCOME, now) for each in doubtful)
    else:
        ended = ends_by_job(state, held, EndReason.RELEASED, now, _of_another)
    blocks = [owing for blocks in state.debts.blocks.values() for owing in blocks.values()]
    return Accepted((forked, *ended, *parked_events(blocks, LEFT_BLOCK)))


def _doubtful(
    state: State, command: c.ForkLog, held: Iterable[Task]
) -> Iterator[tuple[Job, list[Index]]]:
    """Tasks of which nobody knows how far they are, job by job, as far as they have not ended."""
    named: dict[JobId, set[Index]] = {}
    for job_id, indices in command.touched:
        named.setdefault(job_id, set()).update(indices)
    for task in held:
        named.setdefault(task.job_id, set()).add(task.index)
    for job_id, known in named.items():
        job = state.jobs.get(job_id)
        if job is None:
            continue
        # A gang goes whole.
        able = [
            index
            for index in map(Index, range(job.count) if job.spec.placing.gang else sorted(known))
            if index < job.count and state_of(job, index) in ABLE
        ]
        if able:
            yield job, able


def _of_another(task: Task) -> str:
    return f"worker {task.worker} holds it of the log that this one was forked from"


def resume_log(state: State, command: c.ResumeLog, now: Instant) -> Decision:
    """A log that is at work is left at work."""
    if not state.suspended:
        return Accepted(())
    return Accepted((e.LogResumed(suspended=state.suspended),))


def suspended() -> Refused:
    """The no to whatever would make a suspended log work."""
    return Refused(Reason.CONFLICT, SUSPENDED)
