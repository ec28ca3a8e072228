"""What must hold of any state, judged from that state alone.

`check` is run by tests, by simulations after every step and by `holdfast log verify`. It reads
authority and indexes and compares the two; it asks neither the decisions nor the folds, so that
they cannot be wrong together. What needs history (nothing moves twice, nothing shrinks) is
watched by `Watch`.
A job of a million tasks costs a few passes over its cells at the speed of memory; only tasks with
a record are looked at one by one.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from holdfast.core.ids import NEVER, Instant, JobId, LeaseId, WorkerId, task_name
from holdfast.core.invariants_circuits import circuits, retry_budgets
from holdfast.core.invariants_lineage import lineage, suspension
from holdfast.core.invariants_owed import commit_line, debts_agree, stored_results
from holdfast.core.invariants_resources import resources
from holdfast.core.invariants_services import services
from holdfast.core.invariants_ties import gangs, ties
from holdfast.core.job import BY_PERSON, Job, JobState, counts, job_state, only_owes
from holdfast.core.shape import shape_of
from holdfast.core.sound import CELLS
from holdfast.core.state import State
from holdfast.core.task import (
    ASIDE,
    FRESH,
    GIVEN_UP,
    GIVEN_UP_UNPLACED,
    KILLED_BY_LIMIT,
    Task,
    TaskState,
)
from holdfast.core.violation import Finding, Violation, found
from holdfast.core.watch import Watch

__all__ = ["CHECKS", "Violation", "Watch", "check"]

_BY_RULE: Final = (KILLED_BY_LIMIT, GIVEN_UP, GIVEN_UP_UNPLACED)
_WITH_RECORD: Final = (ASIDE, TaskState.LEASED, TaskState.RUNNING, TaskState.COMMITTED)
_TENURED: Final = (TaskState.LEASED, TaskState.RUNNING)


def check(state: State) -> tuple[Violation, ...]:
    """Everything that is wrong with this state; nothing, for every state that can be reached."""
    violations: list[Violation] = []
    for name, judge in CHECKS.items():
        violations.extend(found(name, partial(judge, state)))
    return tuple(violations)


def one_state(state: State) -> Iterator[Finding]:
    """J1: a task is in exactly one state. The first of the four invariants of document 001.

    The cell says which; a record exists for exactly the cells that need one and says the same.
    """
    for job in state.jobs.values():
        strange = job.states.translate(None, CELLS)
        if strange:
            yield job.job_id, f"cell {strange[0]} is no state of a task"
        wanted = sum(job.states.count(cell) for cell in _WITH_RECORD)
        if wanted != len(job.tasks or {}):
            yield job.job_id, f"{wanted} tasks need a record and {len(job.tasks or {})} have one"
        for index, task in (job.tasks or {}).items():
            cell = ASIDE if task.state is TaskState.WAITING else int(task.state)
            named = (task.job_id, task.index) == (job.job_id, index)
            if not named or not 0 <= index < job.count or job.states[index] != cell:
                yield task_name(job.job_id, index), f"its record says {task.state.name} elsewhere"


def rollup(state: State) -> Iterator[Finding]:
    """J4: what a job says of itself is a pure function of its tasks and its seal."""
    for job in state.jobs.values():
        tally = counts(job)
        active = tally[TaskState.LEASED] + tally[TaskState.RUNNING]
        unfinished = active + tally[TaskState.WAITING] + tally[TaskState.COMMITTED]
        for what, kept, computed in (
            ("unfinished", job.unfinished, unfinished),
            ("active", job.active, active),
            ("quarantined", job.quarantined, tally[TaskState.QUARANTINED]),
        ):
            if kept != computed:
                yield job.job_id, f"{kept} tasks are kept as {what} and {computed} are"
        if job_state(job) is not _rolled_up(job, tally, unfinished, active):
            yield job.job_id, f"it is {job_state(job)}, which its tasks do not add up to"
        yield from _columns_hold(job, job.count - unfinished)


def _rolled_up(job: Job, tally: dict[TaskState, int], unfinished: int, active: int) -> JobState:
    """The state of a job, computed a second time from the counts alone."""
    if unfinished or not job.sealed:
        return JobState.RUNNING if active or job.ever_started else JobState.PENDING
    if job.interrupted:
        return JobState.FAILED
    if tally[TaskState.SUCCEEDED] == job.count and not job.cause:
        return JobState.SUCCEEDED
    if tally[TaskState.UNSCHEDULABLE] or job.states.count(GIVEN_UP_UNPLACED):
        return JobState.UNSCHEDULABLE
    by_person = tally[TaskState.KILLED] - sum(map(job.states.count, _BY_RULE))
    return JobState.KILLED if by_person or job.cause in BY_PERSON else JobState.FAILED


def _columns_hold(job: Job, finished: int) -> Iterator[Finding]:
    """Every finished task has the place of its end; the columns are of one length."""
    attempts, ends = job.attempts, job.ends
    if attempts is None or ends is None:
        if finished:
            yield job.job_id, f"{finished} tasks have finished and none has the place of its end"
        return
    if len(attempts) != len(ends) or len(ends) > job.count:
        yield job.job_id, f"columns of {len(attempts)} and {len(ends)} for {job.count} tasks"
    elif len(ends) - ends.count(0) < finished:
        yield job.job_id, f"{finished} tasks have finished and {ends.count(0)} places are empty"


def nothing_in_limbo(state: State) -> Iterator[Finding]:
    """J6: every unfinished task is on exactly one road to its end.

    A fresh one is found by the cursor, one with a past in `due`, `later` or a calendar timer, a
    held one in its holder's hands, a committed one by what it owes. A job whose task waits stands
    in line, sleeps until a known time, or is dated; a blocked one is called by what it waits for.
    """
    sleeping, dated = frozenset(state.ready.sleeping), frozenset(state.wall_timers)
    timers = frozenset(state.timers)
    lines = frozenset(job_id for queue in state.ready.queues.values() for job_id in queue)
    for job in state.jobs.values():
        if job.unfinished == 0:
            continue
        standing = job.queued and job.job_id in lines
        called = (
            (job.not_before_wall, job.job_id) in dated
            if job.not_before_wall != NEVER
            else standing or job.blocked or (job.not_before, job.job_id) in sleeping
        )
        fresh = job.states.find(FRESH)
        if 0 <= fresh < job.cursor:
            yield task_name(job.job_id, fresh), "it is fresh and behind the cursor"
        if fresh >= 0 and not called:
            yield task_name(job.job_id, fresh), "it is fresh and nobody will look at its job"
        due = frozenset(job.due or ()) if standing or job.blocked else frozenset()
        later = frozenset(job.later or ())
        for task in (job.tasks or {}).values():
            moment, wall = (task.not_before, job.job_id), (task.not_before_wall, job.job_id)
            if task.state is not TaskState.WAITING:
                on_its_way = _is_in_hand(state, task)
            elif task.not_before_wall != NEVER:
                on_its_way = wall in dated
            else:
                asleep = (task.not_before, task.index) in later and moment in sleeping
                on_its_way = task.index in due or asleep
            if not on_its_way:
                yield task_name(job.job_id, task.index), f"it is {task.state.name} and in limbo"
        if not only_owes(job) and not _limits_are_set(state, job, timers, dated):
            yield job.job_id, "one of its limits in time has no timer"


def _limits_are_set(
    state: State,
    job: Job,
    timers: frozenset[tuple[Instant, JobId]],
    dated: frozenset[tuple[Instant, JobId]],
) -> bool:
    """Whether the tick will look at the job when each of its limits comes.

    A scheduling deadline is about tasks that no worker ever took; once it passed, or none of those
    is left, it has done its work.
    """
    if job.times_out_at != NEVER and (job.times_out_at, job.job_id) not in timers:
        return False
    if job.deadline_wall != NEVER and (job.deadline_wall, job.job_id) not in dated:
        return False
    if job.schedule_by <= state.time or (job.schedule_by, job.job_id) in timers:
        return True
    records = (job.tasks or {}).values()
    return FRESH not in job.states and all(task.attempt for task in records)


def _is_in_hand(state: State, task: Task) -> bool:
    """Whether a task that does not wait is held by somebody, or owes something."""
    if task.state is TaskState.COMMITTED:
        return bool(task.owed)
    holder = state.holders.get((task.worker, task.incarnation))
    return holder is not None and holder.leases.get(task.lease_id) is task


def indexes_agree(state: State) -> Iterator[Finding]:
    """J7: every index says what a rebuild from the records would say."""
    held: dict[tuple[WorkerId, int], dict[LeaseId, Task]] = {}
    for job in state.jobs.values():
        for task in (job.tasks or {}).values():
            if task.lease_id:
                held.setdefault((task.worker, task.incarnation), {})[task.lease_id] = task
    yield from _holders_agree(state, held)
    is_open = {job_id: None for job_id, job in state.jobs.items() if not job.sealed}
    if is_open.keys() != state.open_jobs.keys():
        yield "open jobs", f"{list(state.open_jobs)} are kept and {list(is_open)} are open"
    ended = {i: None for i, job in state.jobs.items() if job.sealed and not job.unfinished}
    if ended.keys() != dict.fromkeys(state.finished).keys() or len(ended) != len(state.finished):
        yield "finished", f"{list(state.finished)} are kept and {list(ended)} are finished"
    yield from _lines_agree(state)
    for job in state.jobs.values():
        known = state.keys.get(job.key) if job.key else None
        if job.key and (known is None or known.job_id != job.job_id):
            yield job.job_id, f"its key {job.key!r} does not find it"


def _holders_agree(
    state: State, held: dict[tuple[WorkerId, int], dict[LeaseId, Task]]
) -> Iterator[Finding]:
    kept = {key: holder for key, holder in state.holders.items() if holder.leases or holder.load}
    for key in dict.fromkeys([*kept, *held]):
        holder, tasks = kept.get(key), held.get(key, {})
        subject = f"worker {key[0]}:{key[1]}"
        if holder is None or holder.leases.keys() != tasks.keys():
            yield subject, f"its index of leases differs from the {len(tasks)} tasks it holds"
            continue
        load: dict[int, int] = {}
        for task in tasks.values():
            load[task.slot] = load.get(task.slot, 0) + 1
        if load != holder.load:
            yield subject, f"its slots are kept as {holder.load} and are {load}"
        timed = [task.expires_at for task in tasks.values() if task.expires_at != NEVER]
        if timed and not NEVER < holder.soonest <= min(timed):
            yield subject, f"a lease ends at {min(timed)}, before {holder.soonest}"


def _lines_agree(state: State) -> Iterator[Finding]:
    """A job says it is queued exactly when it stands in line, where it belongs and once."""
    standing: dict[JobId, int] = {}
    for key, queue in state.ready.queues.items():
        for job_id in queue:
            job = state.jobs.get(job_id)
            if job is None:
                continue
            standing[job_id] = standing.get(job_id, 0) + 1
            if (job.spec.priority, shape_of(job)) != key:
                yield job_id, f"it stands in the line of {key}"
    for job in state.jobs.values():
        if standing.get(job.job_id, 0) != int(job.queued):
            yield job.job_id, f"it stands {standing.get(job.job_id, 0)} times in line"


def one_lease(state: State) -> Iterator[Finding]:
    """S1: at most one live lease a task, and a lease refers to exactly one task.

    The first two of the five invariants of document 003.
    """
    owners: dict[LeaseId, str] = {}
    for job in state.jobs.values():
        for task in (job.tasks or {}).values():
            if not task.lease_id:
                continue
            name = task_name(job.job_id, task.index)
            other = owners.setdefault(task.lease_id, name)
            if other != name:
                yield name, f"lease {task.lease_id} is also that of {other}"


def tenure(state: State) -> Iterator[Finding]:
    """S2: a waiting task has no lease, and a leased one exactly one, with somebody who holds it.

    The third and fourth invariants of document 003, and the second of 001: whatever runs has a
    worker.
    """
    for job in state.jobs.values():
        for task in (job.tasks or {}).values():
            name = task_name(job.job_id, task.index)
            tenured = task.state in _TENURED
            if tenured != bool(task.lease_id) or tenured != (task.granted > 0):
                yield name, f"it is {task.state.name} under lease {task.lease_id}"
            if not tenured and (task.worker or task.incarnation or task.expires_at or task.slot):
                yield name, f"it is {task.state.name} and remembers worker {task.worker!r}"
            if (task.state is TaskState.RUNNING) != (task.started_at != NEVER):
                yield name, f"it is {task.state.name} and its start is {task.started_at}"


def fencing(state: State) -> Iterator[Finding]:
    """S3: every lease id in use is below the next one, so none is ever given twice."""
    for holder in state.holders.values():
        for lease_id, task in holder.leases.items():
            if not 0 < lease_id < state.next_lease or task.lease_id != lease_id:
                name = task_name(task.job_id, task.index)
                yield name, f"lease {lease_id} with {state.next_lease} still to come"


def endpoints(state: State) -> Iterator[Finding]:
    """S8: an endpoint is found exactly as long as the lease it was registered under lives."""
    found_at = {
        (name, lease_id, task_name(task.job_id, task.index))
        for name, leases in state.endpoints.items()
        for lease_id, task in leases.items()
    }
    held = {
        (endpoint.name, task.lease_id, task_name(task.job_id, task.index))
        for job in state.jobs.values()
        for task in (job.tasks or {}).values()
        for endpoint in task.endpoints
    }
    for name, lease_id, task in sorted(found_at ^ held):
        yield task, f"endpoint {name} under lease {lease_id} is in one book only"
    for name, lease_id, task in sorted(held):
        if not lease_id:
            yield task, f"endpoint {name} has outlived its lease"


def budgets(state: State) -> Iterator[Finding]:
    """B1: what is used of a budget is between nothing and all of it, as long as the task lives."""
    for job in state.jobs.values():
        for task in (job.tasks or {}).values():
            name = task_name(job.job_id, task.index)
            if not 0 <= task.failures <= job.spec.retries:
                yield name, f"{task.failures} failures of {job.spec.retries} allowed"
            if not 0 <= task.losses <= job.spec.max_losses:
                yield name, f"{task.losses} losses of {job.spec.max_losses} allowed"
            if task.strays < 0:
                yield name, f"{task.strays} strays"


def charges(state: State) -> Iterator[Finding]:
    """B3: no more charges than attempts that ended, and never more than both budgets together."""
    for job in state.jobs.values():
        for task in (job.tasks or {}).values():
            ended = task.attempt - (1 if task.state is not TaskState.WAITING else 0)
            if task.failures + task.losses > ended:
                name = task_name(job.job_id, task.index)
                yield name, f"{task.failures + task.losses} charges for {ended} ended attempts"


def timetables(state: State) -> Iterator[Finding]:
    """T1: a schedule that is not paused and has a next instant will be looked at then; what comes
    next lies after what was, and nothing of it is beyond what a schedule may be."""
    timers = frozenset(state.schedule_timers)
    for name, schedule in state.schedules.items():
        timing = schedule.definition.timing
        subject = f"schedule {name}"
        if schedule.name != name or bool(timing.cron) == bool(timing.every_ms):
            yield subject, "it is not what its name says, or comes by two rules"
        if NEVER < schedule.next_wall <= schedule.last_wall:
            yield subject, f"it comes next at {schedule.next_wall}, after {schedule.last_wall}"
        expected = schedule.next_wall != NEVER and not schedule.paused
        if expected and (schedule.next_wall, name) not in timers:
            yield subject, "nobody will look at it when its instant comes"
        if schedule.runs < 0 or schedule.skipped < 0 or schedule.revision > state.position:
            yield subject, "its counts or its revision cannot be"


CHECKS: Final[dict[str, Callable[[State], Iterator[Finding]]]] = {
    "J1": one_state,
    "J4": rollup,
    "J6": nothing_in_limbo,
    "J7": indexes_agree,
    "J8": ties,
    "S1": one_lease,
    "S2": tenure,
    "S3": fencing,
    "S8": endpoints,
    "G1": gangs,
    "C1": commit_line,
    "C4": debts_agree,
    "C5": stored_results,
    "B1": budgets,
    "B3": charges,
    "B5": retry_budgets,
    "B6": services,
    "F1": circuits,
    "T1": timetables,
    "R1": resources,
    "L8": lineage,
    "L9": suspension,
}
"""Every check by its name, so that a document can link to each and a test can miss none."""
