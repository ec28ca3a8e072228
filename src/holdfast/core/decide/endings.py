"""How an attempt ends: the one place where budgets are charged and the next step is chosen."""

import re
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from holdfast.core import events as e
from holdfast.core.attempt import (
    CHARGES_FAILURES,
    CHARGES_LOSSES_ONCE_STARTED,
    DEATHS,
    STRAYS_FREE,
    EndReason,
)
from holdfast.core.ids import NEVER, NOWHERE, Index, Instant, JobId, task_name
from holdfast.core.job import GANG_FAILED, TOO_MANY_FAILED, Job
from holdfast.core.retrying import earliest
from holdfast.core.service import charge, is_overdrawn
from holdfast.core.spec import NO_LIMIT, STOP, JobSpec, loss_delay_ms, retry_delay_ms
from holdfast.core.state import State
from holdfast.core.task import ASIDE, FRESH, Task, TaskState

WAITING_RUN: Final = re.compile(bytes((*b"[", FRESH, ASIDE, *b"]+")), re.DOTALL)

FAILURES = "failures"
LOSSES = "losses"
RESTARTS = "restarts"

TAKEN: Final = frozenset({EndReason.PREEMPTED, EndReason.SIBLING_FAILED})
"""Ends that no worker has asked for or reported."""


def end_of(
    job: Job,
    task: Task,
    reason: EndReason,
    now: Instant,
    *,
    started_at: Instant | None = None,
    roll: float = 0.0,
    error: str = "",
    traceback: str = "",
    exit_code: int | None = None,
    is_taken: bool = False,
) -> e.End:
    """The end of this task's live attempt: at most one budget is charged, once. `is_taken`: its
    worker has not said so itself, as for every reason that is only ours."""
    began = task.started_at if started_at is None else started_at
    failures, losses, strays, charged, delay_ms = task.failures, task.losses, 0, "", 0
    restarts, whole_in_ms, spec = 0, 0, job.spec
    if reason in DEATHS and began == NEVER:
        strays = task.strays + 1
    is_lost = strays > STRAYS_FREE or (reason in CHARGES_LOSSES_ONCE_STARTED and not strays)
    if job.service is not None:
        if is_lost or reason in CHARGES_FAILURES:
            charged = RESTARTS
            ran_ms = now - began if began != NEVER else 0
            cost = charge(spec.service, job.service.replicas.get(task.index), ran_ms, now)
            restarts, delay_ms, whole_in_ms = cost.restarts, cost.delay_ms, cost.whole_in_ms
    elif reason in CHARGES_FAILURES:
        failures += 1
        charged = FAILURES
        delay_ms = retry_delay_ms(spec.retry, failures, roll)
    elif is_lost:
        losses += 1
        charged = LOSSES
        delay_ms = loss_delay_ms(losses)
    not_before = Instant(now + delay_ms) if delay_ms else NEVER
    if spec.on_disconnect == STOP and (is_taken or reason in TAKEN):
        # It runs until its worker hears of this. Where nothing may outlive its lease, nothing
        # begins anew before the lease would have run out.
        not_before = max(not_before, task.expires_at)
    return e.End(
        index=task.index,
        lease_id=task.lease_id,
        attempt=task.attempt,
        reason=reason,
        worker=task.worker,
        granted=task.granted,
        started_at=began,
        previous=task.previous,
        charged=charged,
        failures=failures,
        losses=losses,
        strays=strays,
        not_before=not_before,
        error=error,
        traceback=traceback,
        exit_code=exit_code,
        restarts=restarts,
        whole_in_ms=whole_in_ms,
    )


def is_spent(spec: JobSpec, end: e.End) -> bool:
    """A budget of n allows n charges; the one after it is the last."""
    if end.charged == FAILURES:
        return end.failures > spec.retries
    if end.charged == LOSSES:
        return end.losses > spec.max_losses
    return end.charged == RESTARTS and is_overdrawn(spec.service, end.whole_in_ms)


def within_budget(state: State, job: Job, end: e.End, now: Instant) -> e.End:
    """The same end, with its retry no earlier than the retry budget of its job has room for it.
    Losses have no part in that: the worker was at fault, and they have a bound of their own."""
    budget = job.spec.retry_budget
    if not budget.retries or end.charged != FAILURES or is_spent(job.spec, end):
        return end
    wanted = end.not_before or now
    due = earliest(state.retries_away.get(job.job_id, ()), budget, wanted)
    if due == wanted:
        return end
    return msgspec.structs.replace(end, not_before=due, wanted=wanted)


def settle_ends(job: Job, ends: Iterable[e.End], now: Instant) -> tuple[e.AnyEvent, ...]:
    """The events for ends of one job: back to waiting, into quarantine, and, where that makes too
    many, the end of the whole job in the same record."""
    if job.spec.placing.gang:
        return _settle_gang(job, ends, now)
    returned: list[e.End] = []
    spent: list[e.End] = []
    for end in ends:
        (spent if is_spent(job.spec, end) else returned).append(end)
    events: list[e.AnyEvent] = []
    if spent:
        events.append(e.TasksQuarantined(job_id=job.job_id, ends=tuple(spent)))
    limit = job.spec.max_failed_tasks
    rest = job.unfinished - len(spent) > 0 or not job.sealed
    if spent and rest and limit != NO_LIMIT and job.quarantined + len(spent) > limit:
        # Those that would have returned end with the rest: one attempt has one end.
        stopped = frozenset(end.index for end in spent)
        events.extend(stop_rest(job, TOO_MANY_FAILED, "", now, ended=stopped, ends=returned))
    elif returned:
        events.append(e.AttemptsReturned(job_id=job.job_id, ends=tuple(returned)))
    return tuple(events)


def _settle_gang(job: Job, ends: Iterable[e.End], now: Instant) -> tuple[e.AnyEvent, ...]:
    """A gang falls together, uncharged save for who fell first, and waits together; a member in
    quarantine is the end of the others too."""
    given = {end.index: end for end in ends}
    first = next(iter(given.values()), None)
    if first is None:
        return ()
    told = f"{task_name(job.job_id, first.index)}, of the same gang, ended {first.reason}"
    for task in (job.tasks or {}).values():
        if task.lease_id and task.index not in given:
            given[task.index] = end_of(
                job, task, EndReason.SIBLING_FAILED, now, error=told
            )
    spent = tuple(end for end in given.values() if is_spent(job.spec, end))
    rest = [end for end in given.values() if not is_spent(job.spec, end)]
    if not spent:
        together = max(end.not_before for end in rest)
        waiting = tuple(msgspec.structs.replace(end, not_before=together) for end in rest)
        return (e.AttemptsReturned(job_id=job.job_id, ends=waiting),)
    quarantined = e.TasksQuarantined(job_id=job.job_id, ends=spent)
    if job.unfinished == len(spent):
        return (quarantined,)
    ended = frozenset(end.index for end in spent)
    return (quarantined, *stop_rest(job, GANG_FAILED, told, now, ended=ended, ends=rest))


def stop_rest(
    job: Job,
    cause: str,
    reason: str,
    now: Instant,
    *,
    ended: Iterable[Index] = (),
    ends: Iterable[e.End] = (),
    why: EndReason = EndReason.KILLED,
) -> tuple[e.AnyEvent, ...]:
    """Stop an unfinished job: kill what has not ended, except the tasks that this record already
    ended; `ends` are attempts that ended just now and whose tasks die instead of waiting again."""
    given = {end.index: end for end in ends}
    already = frozenset(ended)
    live = []
    for task in (job.tasks or {}).values():
        if task.lease_id and task.index not in already:
            known = given.get(task.index)
            live.append(known or end_of(job, task, why, now, error=reason))
    cancelled = e.JobCancelled(job_id=job.job_id, cause=cause, reason=reason)
    spans = waiting_spans(job)
    if not spans and not live:
        return (cancelled,)
    waiting = [task for task in (job.tasks or {}).values() if task.state is TaskState.WAITING]
    killed = e.TasksKilled(
        job_id=job.job_id,
        cause=cause,
        spans=spans,
        ends=tuple(live),
        stopped=pasts_of(waiting),
    )
    return (cancelled, killed)


def ends_by_job(
    state: State,
    tasks: Iterable[Task],
    reason: EndReason,
    now: Instant,
    error: Callable[[Task], str],
) -> tuple[e.AnyEvent, ...]:
    """The events when many attempts end at once for the same reason, job by job.

    Whatever ends in one record must come in one call: a job is settled once, or its limit would
    be judged twice on the same counts.
    """
    grouped: dict[JobId, list[e.End]] = {}
    for task in tasks:
        actual = reason
        if reason is EndReason.WORKER_LOST and task.started_at == NEVER:
            actual = EndReason.UNDELIVERED
        end = end_of(state.job_of(task.job_id), task, actual, now, error=error(task))
        grouped.setdefault(task.job_id, []).append(end)
    events: list[e.AnyEvent] = []
    for job_id, ends in grouped.items():
        events.extend(settle_ends(state.job_of(job_id), ends, now))
    return tuple(events)


def waiting_spans(job: Job) -> tuple[e.Span, ...]:
    """The waiting tasks as runs of neighbours: a million untouched ones are one span."""
    return tuple(
        e.Span(Index(run.start()), Index(run.end() - 1)) for run in WAITING_RUN.finditer(job.states)
    )


def pasts_of(waiting: Iterable[Task]) -> tuple[e.Stopped, ...]:
    """Where the last attempt of each of these ended, for those that had one."""
    return tuple(e.Stopped(t.index, t.previous) for t in waiting if t.previous != NOWHERE)
