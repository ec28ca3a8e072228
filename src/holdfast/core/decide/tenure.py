"""Who holds what, and until when."""

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.attempt import EndReason
from holdfast.core.circuit import Circuit
from holdfast.core.decide.circuits import probed, trial
from holdfast.core.decide.endings import ends_by_job
from holdfast.core.decide.jobs import unknown
from holdfast.core.decide.lineage import suspended
from holdfast.core.decide.owed import parked_events
from holdfast.core.decision import Accepted, Decision, Reason, Refused
from holdfast.core.ids import NEVER, Instant, LeaseId, task_name
from holdfast.core.job import Job, is_fresh_run, state_of
from holdfast.core.ready import is_begun
from holdfast.core.state import State
from holdfast.core.task import ASIDE, FRESH, Task


def grant(state: State, command: c.GrantLeases, now: Instant) -> Decision:
    """Only a waiting task whose time has come can be leased, and only once at a time."""
    job = state.jobs.get(command.job_id)
    if job is None:
        return unknown(state, command.job_id)
    if state.suspended:
        return suspended()
    if command.term_ms < 0:
        return Refused(Reason.INVALID, "a lease cannot end before it begins")
    if job.blocked or job.spec.placing.gang:
        told = "waits for other jobs" if job.blocked else "is a gang; it is leased whole"
        return Refused(Reason.INVALID_TRANSITION, f"job {job.job_id} {told}")
    tried = trial(state, job, len(command.indices)) if state.circuits else None
    if isinstance(tried, Refused):
        return tried
    if is_begun(job, now) and is_fresh_run(job, command.indices):
        return _granted(state, job, command, (1,) * len(command.indices), now, tried)
    attempts: list[int] = []
    taken: dict[int, None] = {}
    for index in command.indices:
        attempt = next_attempt(job, index, now)
        if attempt == 0 or index in taken:
            state_name = state_of(job, index).name if 0 <= index < job.count else "unknown"
            return Refused(
                Reason.INVALID_TRANSITION,
                f"task {job.job_id}/{index} is {state_name}; it cannot be leased now",
            )
        taken[index] = None
        attempts.append(attempt)
    if not attempts:
        return Accepted(())
    return _granted(state, job, command, tuple(attempts), now, tried)


def _granted(
    state: State,
    job: Job,
    command: c.GrantLeases,
    attempts: tuple[int, ...],
    now: Instant,
    tried: Circuit | None,
) -> Decision:
    granted = e.LeasesGranted(
        job_id=command.job_id,
        worker=command.worker,
        incarnation=command.incarnation,
        slot=command.slot,
        first_lease=state.next_lease,
        indices=command.indices,
        attempts=attempts,
        expires_at=Instant(now + command.term_ms) if command.term_ms else NEVER,
        alone=command.alone,
        rank=rank_of(job, command.rank),
    )
    if tried is None:
        return Accepted((granted,), granted)
    probe = probed(tried, job, command.indices[0], state.next_lease)
    return Accepted((granted, probe), granted)


def rank_of(job: Job, rank: int | None) -> int:
    """How urgent a task is when it is given out: never less than its job, since waiting adds."""
    return job.spec.priority if rank is None else max(rank, job.spec.priority)


def preempt(state: State, command: c.PreemptAttempts, now: Instant) -> Decision:
    """Attempts end free of charge, so that something more urgent has room. What has ended already
    is passed over; the answer names the leases that ended.

    A job takes the place of what ranks below its own priority alone. As no rank is below the
    priority of its job, two jobs can never evict each other in turn.
    """
    tasks: dict[LeaseId, Task] = {}
    for lease_id in command.leases:
        for holder in state.holders.values():
            if lease_id in holder.leases:
                tasks[lease_id] = holder.leases[lease_id]
    refusal = _may_not_preempt(state, command, tasks) if command.by else None
    if refusal is not None:
        return refusal
    ends = ends_by_job(
        state, tasks.values(), EndReason.PREEMPTED, now, lambda task: command.reason
    )
    return Accepted(ends, tuple(tasks))


def _may_not_preempt(
    state: State, command: c.PreemptAttempts, tasks: dict[LeaseId, Task]
) -> Refused | None:
    job = state.jobs.get(command.by)
    if job is None:
        return unknown(state, command.by)
    if not job.spec.placing.preempts:
        return Refused(Reason.INVALID, f"job {job.job_id} does not ask for others to make room")
    for task in tasks.values():
        rank = max(task.rank, state.job_of(task.job_id).spec.priority)
        if job.spec.priority <= rank:
            told = f"of rank {rank}; job {job.job_id} has a priority of {job.spec.priority}"
            return Refused(Reason.CONFLICT, f"task {task_name(task.job_id, task.index)} is {told}")
    return None


def next_attempt(job: Job, index: int, now: Instant) -> int:
    """The number of the attempt a lease would begin, or 0 where none may begin now."""
    if not 0 <= index < job.count:
        return 0
    cell = job.states[index]
    if cell == FRESH:
        return int(is_begun(job, now))
    if cell != ASIDE or job.tasks is None:
        return 0
    task = job.tasks[index]  # type: ignore[index]
    if task.not_before > now or task.not_before_wall != NEVER:
        return 0
    return task.attempt + 1


def extend(state: State, command: c.ExtendLeases, now: Instant) -> Decision:
    """Renew everything the worker holds; nothing that already expired comes back."""
    holder = state.holders.get((command.worker, command.incarnation))
    timed = [] if holder is None else [t for t in holder.leases.values() if t.expires_at != NEVER]
    if not timed:
        return Accepted(())
    until = Instant(now + command.term_ms)
    dead = tuple(t.lease_id for t in timed if t.expires_at <= now)
    kept = [t for t in timed if t.expires_at > now and t.lease_id not in command.exceptions]
    if all(t.expires_at >= until for t in kept):
        return Accepted(())
    later = tuple(t.lease_id for t in kept if t.expires_at > until)
    extended = e.LeasesExtended(
        worker=command.worker,
        incarnation=command.incarnation,
        until=until,
        exceptions=(*command.exceptions, *dead, *later),
    )
    return Accepted((extended,), until)


def expire(state: State, command: c.ExpireLeases, now: Instant) -> Decision:
    """Time revokes ownership, and only a record says so."""
    holder = state.holders.get((command.worker, command.incarnation))
    due = [] if holder is None else holder.due(now)
    return Accepted(ends_by_job(state, due, EndReason.LEASE_EXPIRED, now, unrenewed))


def unrenewed(task: Task) -> str:
    """Why a lease that ran out did: said from the tick and from here alike."""
    return f"the lease of worker {task.worker} ended without renewal"


def rearm(state: State, command: c.RearmLeases, now: Instant) -> Decision:
    """An outage of ours is nobody's fault: every timed lease gets one full term from now."""
    until = Instant(now + command.term_ms)
    for holder in state.holders.values():
        for task in holder.leases.values():
            if task.expires_at != NEVER and task.expires_at < until:
                return Accepted((e.LeasesRearmed(until=until),))
    return Accepted(())


def lose_worker(state: State, command: c.LoseWorker, now: Instant) -> Decision:
    """Its attempts end in one record: lost where they had begun, undelivered where not. What its
    tasks were doing after their commits nobody else can go on with: it is parked."""
    who = (command.worker, command.incarnation)
    holder, blocks = state.holders.get(who), state.debts.blocks.get(who, {})
    gone = holder.leases.values() if holder is not None else ()
    if not gone and not blocks:
        return Accepted(())
    ends = ends_by_job(
        state, gone, EndReason.WORKER_LOST, now, lambda task: f"worker {task.worker} failed"
    )
    lost = e.WorkerLost(
        worker=command.worker, incarnation=command.incarnation, error=command.error
    )
    told = f"worker {command.worker} failed before the block was left"
    return Accepted((*ends, *parked_events(blocks.values(), told), lost))
