"""What hangs: the kinds of stalls, and when each of them is one.

Pure: what is known of an attempt, of jobs that come after each other and of what is free goes in,
stalls come out. Renewal is the heartbeat: an attempt whose worker names it is alive however long
it takes. It hangs only where it has itself said otherwise, by a timeout of its own or by telling
progress and then telling nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from shlex import quote
from typing import Final

from msgspec import Struct

from holdfast.core.ids import NEVER, Index, Instant, JobId, LeaseId, attempt_name
from holdfast.core.job import Job, is_finished
from holdfast.core.placing import WAIT
from holdfast.core.spec import JobSpec
from holdfast.core.state import State
from holdfast.core.task import Task
from holdfast.core.ties import Verdict, is_bound, is_curable, verdict
from holdfast.scheduler.reasons import Reason, sentence, span

LEASE_AGE: Final = "lease_age"
NO_PROGRESS: Final = "no_progress"
CAPACITY_FREE: Final = "capacity_free"
DEPENDENCY_DEADLOCK: Final = "dependency_deadlock"
SINK_STUCK: Final = "sink_stuck"

MEANINGS: Final[Mapping[str, str]] = {
    LEASE_AGE: "An attempt is held for longer than it may take, and nobody has ended it.",
    NO_PROGRESS: "Its lease is renewed, and it tells no progress though it should.",
    CAPACITY_FREE: "It waits, a worker has room for it, and nothing explains why it is not begun.",
    DEPENDENCY_DEADLOCK: "Its job comes after something that can no longer come true by itself.",
    SINK_STUCK: "A sink is owed something, nothing stands in the way, and nothing arrives there.",
}
"""Every kind there is."""

GRACE_MS: Final = 30_000
"""A worker ends by itself what tells no progress for as long as its job allows. So much later it
is ended from here: then the worker does not."""

COMMAND: Final = "command"
ANCESTORS_MOST: Final = 100
WALKED_MOST: Final = 1_000
BLOCKED_MOST: Final = 20_000
"""So many blocked jobs are looked at."""


class Stall(Struct, frozen=True, kw_only=True):
    """Something that hangs. `id` is the attempt, the job or the effect it is about. `since` is
    when it began to; `command` is what to type about it. Only what has a `lease_id` can be
    recovered from here, by ending that attempt."""

    id: str
    kind: str
    job_id: JobId
    since: Instant
    why: str
    command: str
    task: str = ""
    index: Index = Index(0)
    lease_id: LeaseId = LeaseId(0)
    worker: str = ""


class Held(Struct, frozen=True, kw_only=True):
    """An attempt as it is known where it is watched. `told_at` is when it said last how far it is,
    `missing_since` from when on its worker does not name it though it had begun, `leased_since`
    from when on it is first in its slot and has not begun. `watched_since`: what happened before
    could not be heard here. Without `hears_progress` nobody knows what it said."""

    task: Task
    spec: JobSpec
    now: Instant
    patience_ms: int
    told_at: Instant = NEVER
    missing_since: Instant = NEVER
    leased_since: Instant = NEVER
    watched_since: Instant = NEVER
    hears_progress: bool = True


class _Suspicion(Struct, frozen=True):
    kind: str
    since: Instant
    patience_ms: int
    why: str


def attempt_stall(held: Held) -> Stall | None:
    """The attempt as a stall, where it is one."""
    for suspicion in _suspicions(held):
        since = max(suspicion.since, held.watched_since)
        if held.now - since < suspicion.patience_ms:
            continue
        task = held.task
        name = attempt_name(task.job_id, task.index, task.attempt)
        return Stall(
            id=name,
            kind=suspicion.kind,
            job_id=task.job_id,
            task=name.rpartition(":")[0],
            index=task.index,
            since=suspicion.since,
            why=suspicion.why,
            command=f"holdfast stall approve {quote(name)}",
            lease_id=task.lease_id,
            worker=task.worker,
        )
    return None


def _suspicions(held: Held) -> Iterator[_Suspicion]:
    """Whatever would make this attempt a stall, were it so for long enough."""
    task, spec, patience_ms = held.task, held.spec, held.patience_ms
    if task.started_at == NEVER:
        if held.leased_since != NEVER:
            why = f"worker {task.worker} holds it, has nothing before it and has not begun it"
            yield _Suspicion(LEASE_AGE, held.leased_since, patience_ms, why)
        return
    if spec.timeout_ms:
        why = f"its timeout of {span(spec.timeout_ms)} has passed and its worker has not ended it"
        due = Instant(task.started_at + spec.timeout_ms)
        yield _Suspicion(LEASE_AGE, due, patience_ms, why)
    if held.missing_since != NEVER:
        why = f"worker {task.worker} is there and does not name it any more"
        yield _Suspicion(LEASE_AGE, held.missing_since, patience_ms, why)
    if not held.hears_progress or spec.service.restarts:
        return
    # A command is watched by what it prints, and only its worker sees that.
    is_asked = bool(spec.stall_ms) and spec.kind != COMMAND
    if held.told_at != NEVER or is_asked:
        said = "it has told no progress for so long" if held.told_at else "it never told progress"
        own_ms = spec.stall_ms + GRACE_MS if spec.stall_ms else patience_ms
        since = max(held.told_at, task.started_at)
        yield _Suspicion(NO_PROGRESS, since, own_ms, f"its lease is renewed, and {said}")


def deadlocks(state: State, now: Instant, patience_ms: int) -> Iterator[Stall]:
    """The blocked jobs that nothing but a person can bring to run, and have been so for a while."""
    blocked: dict[JobId, None] = {}
    for names in state.dependents.values():
        blocked.update(names)
        if len(blocked) >= BLOCKED_MOST:
            break
    for job_id in blocked:
        job = state.jobs.get(job_id)
        if job is None or is_finished(job) or not job.blocked:
            continue
        stall = _dead_end(state, job) or _own_ancestor(state, job)
        if stall is not None and now - stall.since >= patience_ms:
            yield stall


def _dead_end(state: State, job: Job) -> Stall | None:
    """It waits for a retry of what it comes after, and nobody has asked for one; or none helps."""
    ties = job.after if job.fate == WAIT else ()
    dead = [after for after in ties if verdict(state, after) is Verdict.DEAD]
    if not dead:
        return None
    after = dead[0]
    why = f"it comes after the {after.condition} of {after.name}, which ended otherwise"
    is_retried = all(is_curable(state, each) for each in dead)
    verb, name = ("retry", after.job_id) if is_retried else ("cancel", job.job_id)
    since = max(job.created_at, state.job_of(after.job_id).updated_at)
    return _job_stall(job, since, why, f"holdfast job {verb} {quote(name)}")


def _own_ancestor(state: State, job: Job) -> Stall | None:
    """It comes, perhaps by way of others, after a job whose end will be its own end too."""
    ancestors: dict[JobId, None] = {}
    child = job
    while is_bound(child) and child.parent in state.jobs and len(ancestors) < ANCESTORS_MOST:
        ancestors[child.parent] = None
        child = state.jobs[child.parent]
    waiting, walked = [job], {job.job_id: None}
    while ancestors and waiting and len(walked) < WALKED_MOST:
        for after in waiting.pop().after:
            if after.job_id in ancestors:
                why = f"it comes after job {after.job_id} and would end with it: it can never begin"
                command = f"holdfast job cancel {quote(job.job_id)}"
                return _job_stall(job, job.created_at, why, command)
            other = state.jobs.get(after.job_id)
            if other is not None and other.blocked and after.job_id not in walked:
                walked[after.job_id] = None
                waiting.append(other)
    return None


def _job_stall(job: Job, since: Instant, why: str, command: str) -> Stall:
    return Stall(
        id=job.job_id, kind=DEPENDENCY_DEADLOCK, job_id=job.job_id, since=since, why=why,
        command=command,
    )  # fmt: skip


def left_waiting(job: Job, index: Index, since: Instant) -> Stall:
    """A task that a plan would place, again and again, and that is not given out."""
    return Stall(
        id=job.job_id,
        kind=CAPACITY_FREE,
        job_id=job.job_id,
        task=f"{job.job_id}/{index}",
        index=index,
        since=since,
        why="a worker has room for it and nothing stands in its way, and it is not given out",
        command="holdfast doctor",
    )


def stuck_sink(effect: str, job_id: JobId, place: str, since: Instant, holder: str) -> Stall:
    """A sink where nothing arrives, told by the entry that comes first."""
    where = f"worker {holder} has it in hand" if holder else "it can be delivered"
    return Stall(
        id=effect,
        kind=SINK_STUCK,
        job_id=job_id,
        task=effect.rpartition(".")[0],
        since=since,
        why=f"{where}, and nothing was delivered to {place} meanwhile",
        command=f"holdfast effect show {quote(effect)}",
        worker=holder,
    )


def stall_reasons(stalls: Iterable[Stall], now: Instant) -> Iterator[Reason]:
    """What hangs, as reasons for where it is: each kind once, by its oldest."""
    alike: dict[str, list[Stall]] = {}
    for stall in stalls:
        alike.setdefault(stall.kind, []).append(stall)
    for found in alike.values():
        oldest = min(found, key=lambda stall: stall.since)
        said = f"it hangs for {span(now - oldest.since)} now: {oldest.why}"
        yield Reason(
            code="stalled",
            sentence=sentence(said),
            command=oldest.command,
            tasks=len(found),
            example=oldest.task,
        )
