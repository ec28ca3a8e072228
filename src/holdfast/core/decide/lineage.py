"""A log that goes on from another one, and the word that lets it work."""

from typing import Final

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.attempt import EndReason
from holdfast.core.decide.endings import ends_by_job
from holdfast.core.decide.owed import parked_events
from holdfast.core.decision import Accepted, Decision, Reason, Refused
from holdfast.core.ids import Instant
from holdfast.core.lineage import KINDS
from holdfast.core.state import State
from holdfast.core.task import Task

SUSPENDED: Final = "the log is suspended; `holdfast log resume` lets it work"
LEFT_BLOCK: Final = "the log was forked while the block ran: nobody knows how it ended"


def fork_log(state: State, command: c.ForkLog, now: Instant) -> Decision:
    """Whoever holds a lease holds it of the former log: here every attempt ends, uncharged."""
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
    ended = ends_by_job(state, held, EndReason.RELEASED, now, _of_another)
    blocks = [owing for blocks in state.debts.blocks.values() for owing in blocks.values()]
    return Accepted((forked, *ended, *parked_events(blocks, LEFT_BLOCK)))


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
