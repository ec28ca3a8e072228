"""What an operator may force, and which invariant forbids the rest.

Every pair of states has its row: a move that another command could make too, or the sentence why
not. A move by force is decided by that command, and recorded as what it is beside its events.
"""

from collections.abc import Callable, Mapping
from typing import Final

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.attempt import EndReason
from holdfast.core.decide.decided import purge, set_aside
from holdfast.core.decide.endings import end_of, pasts_of, settle_ends
from holdfast.core.decide.jobs import no_task, unknown
from holdfast.core.decide.operator import kill_tasks, retry, spans_of
from holdfast.core.decision import Accepted, Decision, Reason, Refused
from holdfast.core.ids import Index, Instant
from holdfast.core.job import Job, state_of
from holdfast.core.state import State
from holdfast.core.task import FINISHED, TaskState

Mover = Callable[[State, Job, c.ForceTask, Instant], Decision]
Row = Mover | str

_W, _L, _R, _C = TaskState.WAITING, TaskState.LEASED, TaskState.RUNNING, TaskState.COMMITTED
_S, _Q, _K, _U = (
    TaskState.SUCCEEDED, TaskState.QUARANTINED, TaskState.KILLED, TaskState.UNSCHEDULABLE,
)  # fmt: skip


def force(state: State, command: c.ForceTask, now: Instant) -> Decision:
    """One task, for a reason. Where it is already there, nothing is added."""
    job = state.jobs.get(command.job_id)
    if job is None:
        return unknown(state, command.job_id)
    if not 0 <= command.index < job.count:
        return no_task(job, command.index)
    if command.target not in TaskState.__members__:
        told = f"no state {command.target[:20]!r}; there are {', '.join(TaskState.__members__)}"
        return Refused(Reason.INVALID, told)
    if not command.reason.strip():
        return Refused(Reason.INVALID, "a task is forced for a reason")
    source, target = state_of(job, command.index), TaskState[command.target]
    if source is target:
        return Accepted((), 0)
    row = FORCED[source, target]
    if isinstance(row, str):
        told = f"task {job.job_id}/{command.index} is {source.name} and cannot be forced to "
        return Refused(Reason.INVALID_TRANSITION, f"{told}{target.name}: {row}")
    decision = row(state, job, command, now)
    if isinstance(decision, Refused) or not decision.events:
        return decision
    forced = e.TaskForced(
        job_id=job.job_id,
        index=command.index,
        source=source.name,
        target=target.name,
        reason=command.reason,
    )
    return Accepted((forced, *decision.events), 1)


def _send_back(state: State, job: Job, command: c.ForceTask, now: Instant) -> Decision:
    """As a retry would: a new generation, fresh budgets, and the attempts go on counting."""
    return retry(state, c.RetryTasks(job_id=job.job_id, indices=(command.index,)), now)


def _take_back(state: State, job: Job, command: c.ForceTask, now: Instant) -> Decision:
    """Whoever has the task loses its lease; nothing is charged. A gang comes back whole."""
    task = (job.tasks or {})[command.index]
    end = end_of(job, task, EndReason.RELEASED, now, error=command.reason)
    return Accepted(settle_ends(job, (end,), now))


def _put_aside(state: State, job: Job, command: c.ForceTask, now: Instant) -> Decision:
    aside = c.SetAside(job_id=job.job_id, indices=(command.index,), note=command.reason)
    return set_aside(state, aside, now)


def _kill(state: State, job: Job, command: c.ForceTask, now: Instant) -> Decision:
    killing = c.KillTasks(
        job_id=job.job_id, indices=(command.index,), reason=command.reason
    )
    return kill_tasks(state, killing, now)


def _give_up(state: State, job: Job, command: c.ForceTask, now: Instant) -> Decision:
    purging = c.PurgeTasks(
        job_id=job.job_id, indices=(command.index,), reason=command.reason
    )
    return purge(state, purging, now)


def _unplace(state: State, job: Job, command: c.ForceTask, now: Instant) -> Decision:
    """Nobody is to take it. A gang goes whole, since nobody could take the rest."""
    named = range(job.count) if job.spec.placing.gang else (command.index,)
    waiting = [index for index in map(Index, named) if state_of(job, index) is _W]
    tasks = job.tasks or {}
    event = e.TasksUnschedulable(
        job_id=job.job_id,
        spans=spans_of(waiting),
        reason=command.reason,
        stopped=pasts_of(tasks[index] for index in waiting if index in tasks),
    )
    return Accepted((event,))


LEASES_ARE_GRANTED: Final = (
    "only a grant gives a task to a worker, and it starts only there (S2: a leased task has "
    "exactly one lease, with somebody who holds it)"
)
HOLDERS_COMMIT: Final = (
    "only the holder of its current lease commits a result (C2); nobody can say that it is done"
)
COMMITTED_STAYS: Final = (
    "what has committed is never aborted (C3); what it still owes is settled with `holdfast effect`"
)
SUCCEEDED_STAYS: Final = "what has succeeded stays so (J3); to run it again, submit it again"
PERSON_SAID_NO: Final = (
    "what a person stopped stays so (J3); only what a limit stopped comes back. Submit it again"
)
ENDED_STAYS: Final = (
    "what has ended moves only by coming back or by being given up (J3); force it to WAITING first"
)
SOMEBODY_TOOK_IT: Final = "a worker has taken it (S2); force it to WAITING first"


def _revive(state: State, job: Job, command: c.ForceTask, now: Instant) -> Decision:
    """What a limit stopped comes back; what a person stopped or gave up does not."""
    decision = _send_back(state, job, command, now)
    if isinstance(decision, Refused) and decision.code is Reason.INVALID_TRANSITION:
        told = f"task {job.job_id}/{command.index} is KILLED and cannot be forced to WAITING: "
        return Refused(decision.code, f"{told}{PERSON_SAID_NO}")
    return decision


MOVES: Final[Mapping[tuple[TaskState, TaskState], Mover]] = {
    (_L, _W): _take_back,
    (_R, _W): _take_back,
    (_Q, _W): _send_back,
    (_U, _W): _send_back,
    (_K, _W): _revive,
    (_W, _Q): _put_aside,
    (_L, _Q): _put_aside,
    (_R, _Q): _put_aside,
    (_W, _K): _kill,
    (_L, _K): _kill,
    (_R, _K): _kill,
    (_Q, _K): _give_up,
    (_U, _K): _give_up,
    (_W, _U): _unplace,
}


def _row(source: TaskState, target: TaskState) -> Row:
    mover = MOVES.get((source, target))
    if mover is not None:
        return mover
    if source is _C:
        return COMMITTED_STAYS
    if source is _S:
        return SUCCEEDED_STAYS
    if target in (_L, _R):
        return LEASES_ARE_GRANTED
    if target in (_C, _S):
        return HOLDERS_COMMIT
    return ENDED_STAYS if source in FINISHED else SOMEBODY_TOOK_IT


FORCED: Final[Mapping[tuple[TaskState, TaskState], Row]] = {
    (source, target): _row(source, target)
    for source in TaskState
    for target in TaskState
    if source is not target
}
"""Each of the fifty-six pairs that would be a move: who makes it, or why nobody may."""
