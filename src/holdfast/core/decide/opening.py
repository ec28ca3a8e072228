"""Taking the log over, and noting that a snapshot covers it."""

from collections.abc import Iterable

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.attempt import EndReason
from holdfast.core.debts import Owing
from holdfast.core.decide.endings import ends_by_job
from holdfast.core.decide.jobs import sealed
from holdfast.core.decide.owed import parked_events
from holdfast.core.decision import Accepted, Decision, Reason, Refused
from holdfast.core.ids import NEVER, Instant
from holdfast.core.ready import bound_waits
from holdfast.core.state import State
from holdfast.core.task import Task


def open_log(state: State, command: c.OpenLog, now: Instant) -> Decision:
    """Everything that a former opening left unsettled is settled in the record that fences it.

    In-process workers died with it: their attempts end now. A job whose feeder died with it is
    sealed as interrupted, unless a key lets the feeder find it again or it is a service. Leases
    that end by time belong to workers that may well be alive: they get one full term, since our
    absence was not their fault. What waits for a lease that was taken away goes on waiting.
    """
    if command.epoch <= state.epoch:
        return Refused(
            Reason.CONFLICT, f"the log is at epoch {state.epoch}; {command.epoch} is fenced"
        )
    events: list[e.AnyEvent] = [
        e.LogOpened(
            log_id=command.log_id,
            epoch=command.epoch,
            version=command.version,
            host=command.host,
            pid=command.pid,
            torn_bytes=command.torn_bytes,
        )
    ]
    held = [task for holder in state.holders.values() for task in holder.leases.values()]
    gone = [task for task in held if task.expires_at == NEVER]
    timed = {(task.worker, task.incarnation) for task in held if task.expires_at != NEVER}
    events.extend(ends_by_job(state, gone, EndReason.WORKER_LOST, now, _ended_with_us))
    workers = {(task.worker, task.incarnation): _ended_with_us(task) for task in gone}
    for (worker, incarnation), error in workers.items():
        if (worker, incarnation) not in timed:
            events.append(e.WorkerLost(worker=worker, incarnation=incarnation, error=error))
    events.extend(_park_blocks(state))
    # A job that these losses stopped is sealed by that already.
    stopped = frozenset(event.job_id for event in events if isinstance(event, e.JobCancelled))
    # Where feeders are programs of their own, silence tells whether they are gone, not a restart.
    for job_id in state.open_jobs if not command.served else ():
        job = state.job_of(job_id)
        if not job.key and job.service is None and job_id not in stopped:
            events.append(sealed(job, interrupted=True))
    waits_from = state.time if _waits_for_a_lease(state) else NEVER
    if timed or waits_from:
        until = Instant(now + _longest_term(state, command, held))
        events.append(e.LeasesRearmed(until=until, waits_from=waits_from))
    return Accepted(tuple(events))


def _longest_term(state: State, command: c.OpenLog, held: Iterable[Task]) -> int:
    """Ours, or what is left of a lease that our predecessor gave for longer: its worker keeps to
    what it was told."""
    return max([command.term_ms, *(task.expires_at - state.time for task in held)])


def _waits_for_a_lease(state: State) -> bool:
    """Whether something may wait until a lease that was taken away would have run out. Why a task
    waits is not kept: every wait of what must not outlive its lease counts."""
    sleeping = state.ready.sleeping
    asleep = dict.fromkeys(job_id for until, job_id in sleeping if until > state.time)
    jobs = (state.jobs[job_id] for job_id in asleep if job_id in state.jobs)
    return any(True for job in jobs for _ in bound_waits(job, state.time))


def _park_blocks(state: State) -> tuple[e.AnyEvent, ...]:
    """Blocks ran in this program's place before it: where they were left off nobody knows."""
    ended = [
        owing
        for blocks in state.debts.blocks.values()
        for owing in blocks.values()
        if _is_local(state, owing)
    ]
    return parked_events(ended, "the program that ran the block ended before it was left")


def _is_local(state: State, owing: Owing) -> bool:
    name = owing.name
    author = (state.job_of(name.job_id).tasks or {})[name.index].author
    return author is not None and author.is_local


def _ended_with_us(task: Task) -> str:
    return f"worker {task.worker} ended with the program that ran it"


def install_snapshot(state: State, command: c.InstallSnapshot, now: Instant) -> Decision:
    if command.at_position > state.position:
        return Refused(
            Reason.INVALID, f"the log ends at {state.position}, before {command.at_position}"
        )
    if command.at_position <= state.snapshot_position:
        return Accepted(())
    installed = e.SnapshotInstalled(
        at_position=command.at_position, state_hash=command.state_hash
    )
    return Accepted((installed,))
