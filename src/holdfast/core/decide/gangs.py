"""Gangs: jobs whose tasks are leased together, fall together and commit together.

How a gang falls is part of how attempts end.
"""

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decide.circuits import probed, tasks_committed, trial
from holdfast.core.decide.jobs import unknown
from holdfast.core.decide.lineage import suspended
from holdfast.core.decide.reports import Tally, began_at, commit_events, held
from holdfast.core.decide.tenure import next_attempt, rank_of
from holdfast.core.decision import Accepted, Decision, Lost, Reason, Refused
from holdfast.core.ids import NEVER, Instant, JobId, LeaseId, WorkerId
from holdfast.core.job import Job
from holdfast.core.state import State
from holdfast.core.task import TaskState


def grant(state: State, command: c.GrantGang, now: Instant) -> Decision:
    """All or none: every task of the job, each to a slot where nobody is and nobody waits."""
    job = _gang(state, command.job_id)
    if isinstance(job, Refused):
        return job
    if state.suspended:
        return suspended()
    if job.blocked:
        return Refused(Reason.INVALID_TRANSITION, f"job {job.job_id} waits for other jobs")
    members = command.members
    if sorted(member.index for member in members) != list(range(job.count)):
        told = f"gang {job.job_id} has {job.count} tasks; each is leased once, and all at once"
        return Refused(Reason.INVALID, told)
    tried = trial(state, job, len(members)) if state.circuits else None
    if isinstance(tried, Refused):
        return tried
    seats: set[tuple[WorkerId, int, int]] = set()
    events: list[e.AnyEvent] = []
    for offset, member in enumerate(members):
        seat = (member.worker, member.incarnation, member.slot)
        attempt = next_attempt(job, member.index, now)
        problem = _seat_problem(state, member) or ("a slot is given twice" if seat in seats else "")
        if not attempt or problem:
            told = problem or "it cannot be leased now"
            return Refused(
                Reason.INVALID_TRANSITION, f"task {job.job_id}/{member.index}: {told}"
            )
        seats.add(seat)
        task = (job.tasks or {}).get(member.index)
        events.append(
            e.LeasesGranted(
                job_id=job.job_id,
                worker=member.worker,
                incarnation=member.incarnation,
                slot=member.slot,
                first_lease=LeaseId(state.next_lease + offset),
                indices=(member.index,),
                attempts=(attempt,),
                expires_at=Instant(now + member.term_ms) if member.term_ms else NEVER,
                alone=task is not None and task.alone,
                rank=rank_of(job, command.rank),
            )
        )
    granted = tuple(events)
    if tried is not None:
        events.append(probed(tried, job, members[0].index, state.next_lease))
    return Accepted(tuple(events), granted)


def _seat_problem(state: State, member: c.Member) -> str:
    if member.term_ms < 0:
        return "a lease cannot end before it begins"
    holder = state.holders.get((member.worker, member.incarnation))
    if holder is not None and holder.load.get(member.slot):
        return f"slot {member.slot} of worker {member.worker} is not free"
    return ""


def commit(state: State, command: c.CommitGang, now: Instant) -> Decision:
    """All or none: where one lease is lost, nothing is committed, and the answer says which."""
    job = _gang(state, command.job_id)
    if isinstance(job, Refused):
        return job
    lost: list[Lost] = []
    tallies: dict[tuple[WorkerId, int], tuple[c.Finished, Tally]] = {}
    ready: set[int] = set()
    for member in command.members:
        done = member.done
        if done.job_id != job.job_id:
            told = f"task {done.job_id}/{done.index} is not of gang {job.job_id}"
            return Refused(Reason.INVALID, told)
        task = held(state, member, done, now)
        if isinstance(task, Lost):
            lost.append(task)
            continue
        if done.index in ready:
            continue
        ready.add(done.index)
        _, tally = tallies.setdefault((member.worker, member.incarnation), (member, Tally()))
        began = task.started_at
        if task.state is TaskState.LEASED:
            began = began_at(now, done.ran_ms)
            tally.starts.append(e.Start(done.index, done.lease_id, began))
        tally.commits[done.index] = e.Commit(
            done.index, done.lease_id, task.attempt, task.granted, began,
            task.previous, task.failures, task.losses, done.result, done.stored,
        )  # fmt: skip
        if done.owed:
            tally.owing[done.index] = done.owed
    if lost:
        return Accepted((), tuple(lost))
    if len(ready) != job.count:
        told = f"{len(ready)} of the {job.count} tasks of gang {job.job_id} have a result"
        return Refused(Reason.INVALID_TRANSITION, told)
    events: list[e.AnyEvent] = []
    for by, tally in tallies.values():
        events.extend(commit_events(by, job.job_id, tally))
    events.extend(tasks_committed(state, ((job.job_id, tuple(job.tasks or ())),)))
    return Accepted(tuple(events), ())


def _gang(state: State, job_id: JobId) -> Job | Refused:
    job = state.jobs.get(job_id)
    if job is None:
        return unknown(state, job_id)
    if not job.spec.placing.gang:
        return Refused(Reason.INVALID, f"job {job_id} is no gang")
    return job
