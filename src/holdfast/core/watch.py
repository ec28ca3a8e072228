"""What must hold of history: nothing moves twice, nothing shrinks, nothing comes back.

A watch is fed every record in order and keeps a small model of its own, in plain dicts. It shares
no code with the folds and has its own list of moves, so a mistake in a table or a fold disagrees
with it instead of agreeing with itself. It is meant for tests, simulations and full checks of a
log; it remembers every task that ever left the untouched heap of its job.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from holdfast.core import events as e
from holdfast.core.ids import NEVER, Instant, Position, task_name
from holdfast.core.record import Record
from holdfast.core.seen import (
    COMMITTED,
    KILLED,
    LEASED,
    MOVES,
    QUARANTINED,
    RUNNING,
    SUCCEEDED,
    UNSCHEDULABLE,
    WAITING,
    Seen,
    SeenJob,
)
from holdfast.core.violation import Finding, Violation, found
from holdfast.core.watch_budgets import charged, spent
from holdfast.core.watch_circuits import CIRCUIT_JUDGES, SeenCircuit, retried, unguarded
from holdfast.core.watch_decided import DECIDED_JUDGES, unforced
from holdfast.core.watch_lineage import LINEAGE_JUDGES, idle
from holdfast.core.watch_owed import OWED_JUDGES, owes, unsettled
from holdfast.core.watch_resources import RESOURCE_JUDGES, SeenResource
from holdfast.core.watch_schedules import SCHEDULE_JUDGES, SeenSchedule


class Watch:
    """Feed it every record; it answers with what that record broke.

    It names J2, J3, J5 and J8, S3 to S7, C1 to C4, B2, B4 to B6, F1 and F2, G1, T2 to T4, R2 and
    R3, and the order of the log itself (L1, L2, L8, L9).
    After a violation it goes on from what the record claims, so one mistake is told once.
    """

    def __init__(self) -> None:
        self.position = 0
        self.time = 0
        self.epoch = 0
        self.next_lease = 1
        self.jobs: dict[str, SeenJob] = {}
        self.held: dict[int, Seen] = {}
        self.crossed: dict[tuple[str, int], int] = {}
        self.forgotten: dict[str, None] = {}
        self.schedules: dict[str, SeenSchedule] = {}
        self.circuits: dict[tuple[str, str], SeenCircuit] = {}
        self.resources: dict[tuple[str, str], SeenResource] = {}
        self.suspended = False

    def feed(self, position: Position, record: Record) -> tuple[Violation, ...]:
        violations = found("L1", partial(self._order, position, record))
        for event in record.events:
            judge = JUDGES.get(type(event))
            if judge is not None:
                told = found("J2", partial(judge, self, event, record.at))
                violations.extend(map(_named, told))
        violations.extend(found("J2", partial(self._cascades, record)))
        violations.extend(found("S7", partial(self._rearmed, record)))
        violations.extend(found("G1", partial(self._together, record)))
        violations.extend(found("C4", partial(unsettled, self, record)))
        violations.extend(found("F2", partial(unguarded, self, record)))
        violations.extend(found("L9", partial(idle, self, record)))
        violations.extend(found("J2", partial(unforced, self, record)))
        return tuple(violations)

    def _order(self, position: Position, record: Record) -> Iterator[Finding]:
        """L1: positions have no gaps and time does not go back."""
        if position != self.position + 1:
            yield "log", f"record {position} follows {self.position}"
        if record.at < self.time:
            yield "log", f"record {position} is of {record.at}, before {self.time}"
        self.position, self.time = position, record.at

    def _cascades(self, record: Record) -> Iterator[Finding]:
        """A job that was stopped has nothing left that could run, in the very same record."""
        for event in record.events:
            if isinstance(event, e.JobCancelled) and event.job_id in self.jobs:
                job = self.jobs[event.job_id]
                able = [i for i, s in job.tasks.items() if s.state in (WAITING, LEASED, RUNNING)]
                if able or len(job.tasks) < job.count:
                    yield event.job_id, "it was stopped and some of its tasks could still run"

    def _rearmed(self, record: Record) -> Iterator[Finding]:
        """S7: whoever opens the log gives every lease that ends by time a new term."""
        kinds = {type(event) for event in record.events}
        if e.LogOpened in kinds:
            for lease_id, seen in self.held.items():
                kept = e.LeasesRearmed in kinds and seen.expires_at > record.at
                if seen.expires_at != NEVER and not kept:
                    yield f"lease {lease_id}", "it has no term from the opening on"

    def _together(self, record: Record) -> Iterator[Finding]:
        """G1: whatever a record does to a gang, it does to the whole of it."""
        touched = dict.fromkeys(getattr(event, "job_id", "") for event in record.events)
        for job_id in touched:
            job = self.jobs.get(job_id)
            if job is not None and job.is_gang:
                states = [seen.state for seen in job.tasks.values()]
                live = states.count(LEASED) + states.count(RUNNING)
                crossed = states.count(COMMITTED) + states.count(SUCCEEDED)
                if live not in (0, job.count) or crossed not in (0, job.count):
                    yield job_id, f"{live} of {job.count} are held, {crossed} have committed"

    def task(self, job_id: str, index: int) -> Seen:
        return self.jobs[job_id].tasks.setdefault(index, Seen())

    def move(self, event: e.Event, job_id: str, index: int) -> Iterator[Finding]:
        """J2: only moves of the list. J3: what has ended stays; only a retry brings it back."""
        seen = self.task(job_id, index)
        sources, target = MOVES[type(event)]
        if not 0 <= index < self.jobs[job_id].count:
            yield task_name(job_id, index), f"J2 no such task for {type(event).__name__}"
        if seen.state not in sources:
            ended = seen.state in (SUCCEEDED, QUARANTINED, KILLED, UNSCHEDULABLE)
            name = "C3" if seen.state == COMMITTED else "J3" if ended else "J2"
            yield task_name(job_id, index), f"{name} {type(event).__name__} met {seen.state}"
        seen.state = target

    def close(self, seen: Seen) -> None:
        """The lease is over."""
        self.held.pop(seen.lease_id, None)
        seen.lease_id, seen.holder, seen.expires_at, seen.started = 0, ("", 0), NEVER, False


Judge = Callable[[Watch, Any, Instant], Iterator[Finding]]


def _named(violation: Violation) -> Violation:
    """A judge of many things writes the name of what broke in front of its sentence."""
    name, space, text = violation.text.partition(" ")
    if space and len(name) == 2 and name[1].isdigit():
        return Violation(name, violation.subject, text)
    return violation


def _opened(watch: Watch, event: e.LogOpened, at: Instant) -> Iterator[Finding]:
    if event.epoch <= watch.epoch:
        yield "log", f"L2 epoch {event.epoch} was opened after {watch.epoch}"
    watch.epoch = event.epoch


def _submitted(watch: Watch, event: e.JobSubmitted, at: Instant) -> Iterator[Finding]:
    if event.job_id in watch.jobs or event.job_id in watch.forgotten:
        yield event.job_id, "J2 it was submitted twice"
    spec = event.spec
    job = watch.jobs[event.job_id] = SeenJob(
        event.count, event.sealed, {},
        is_blocked=bool(event.after), is_gang=spec.placing.gang,
        service=(spec.service.restarts, spec.service.refill_ms),
    )  # fmt: skip
    job.agree_to(spec)


def _unblocked(watch: Watch, event: e.JobUnblocked, at: Instant) -> Iterator[Finding]:
    if not watch.jobs[event.job_id].is_blocked:
        yield event.job_id, "J8 it was unblocked and had not been blocked"
    watch.jobs[event.job_id].is_blocked = False


def _respecified(watch: Watch, event: e.JobRespecified, at: Instant) -> Iterator[Finding]:
    job = watch.jobs[event.job_id]
    able = [s for s in job.tasks.values() if s.state in (WAITING, LEASED, RUNNING, COMMITTED)]
    if not job.sealed or able or len(job.tasks) < job.count:
        yield event.job_id, "J2 its terms were changed before its end"
    job.agree_to(event.spec)


def _added(watch: Watch, event: e.TasksAdded, at: Instant) -> Iterator[Finding]:
    job = watch.jobs[event.job_id]
    if job.sealed or event.first != job.count:
        yield event.job_id, f"J2 items came at {event.first}, sealed {job.sealed} at {job.count}"
    job.count += len(event.items)


def _sealed(watch: Watch, event: e.JobSealed, at: Instant) -> Iterator[Finding]:
    job = watch.jobs[event.job_id]
    if job.sealed or event.count != job.count:
        yield event.job_id, f"J2 it was sealed with {event.count} of {job.count} tasks"
    job.sealed = True


def _cancelled(watch: Watch, event: e.JobCancelled, at: Instant) -> Iterator[Finding]:
    watch.jobs[event.job_id].sealed = True
    yield from ()


def _granted(watch: Watch, event: e.LeasesGranted, at: Instant) -> Iterator[Finding]:
    """S3: lease ids only grow. J5: each attempt is one more than the last. S5: only what nobody
    holds is given."""
    if event.first_lease < watch.next_lease:
        yield event.job_id, f"S3 lease {event.first_lease} was given before {watch.next_lease}"
    if watch.jobs[event.job_id].is_blocked:
        yield event.job_id, "J8 it was given out while it waits for another job"
    for offset, index in enumerate(event.indices):
        seen, name = watch.task(event.job_id, index), task_name(event.job_id, index)
        if seen.lease_id:
            yield name, f"S5 it was granted while lease {seen.lease_id} lives"
        yield from watch.move(event, event.job_id, index)
        if event.attempts[offset] != seen.attempt + 1:
            yield name, f"J5 attempt {event.attempts[offset]} follows {seen.attempt}"
        if event.expires_at != NEVER and event.expires_at < at:
            yield name, f"S5 its lease ended at {event.expires_at}, before it was granted"
        seen.attempt = event.attempts[offset]
        seen.lease_id = event.first_lease + offset
        seen.holder = (event.worker, event.incarnation)
        seen.expires_at = event.expires_at
        watch.held[seen.lease_id] = seen
    watch.next_lease = event.first_lease + len(event.indices)


def _started(watch: Watch, event: e.AttemptsStarted, at: Instant) -> Iterator[Finding]:
    for start in event.starts:
        seen, name = watch.task(event.job_id, start.index), task_name(event.job_id, start.index)
        yield from watch.move(event, event.job_id, start.index)
        if seen.lease_id != start.lease_id:
            yield name, f"S4 lease {start.lease_id} started and {seen.lease_id} is current"
        seen.started = True


def _extended(watch: Watch, event: e.LeasesExtended, at: Instant) -> Iterator[Finding]:
    """S6: a renewal never shortens, and never brings back what has run out."""
    spared = dict.fromkeys(event.exceptions)
    for lease_id, seen in watch.held.items():
        if seen.holder != (event.worker, event.incarnation) or seen.expires_at == NEVER:
            continue
        if lease_id in spared:
            continue
        if event.until < seen.expires_at:
            yield f"lease {lease_id}", f"S6 it was shortened from {seen.expires_at}"
        if seen.expires_at <= at:
            yield f"lease {lease_id}", f"S6 it ran out at {seen.expires_at} and was renewed"
        seen.expires_at = event.until


def _rearm(watch: Watch, event: e.LeasesRearmed, at: Instant) -> Iterator[Finding]:
    for seen in watch.held.values():
        if seen.expires_at != NEVER:
            seen.expires_at = max(seen.expires_at, event.until)
    yield from ()


def _cross(
    watch: Watch, event: e.Event, job_id: str, commit: e.Commit, at: Instant
) -> Iterator[Finding]:
    """C1: one commit a task, ever, over all generations. C2: under the lease that is current and
    has not run out."""
    seen, name = watch.task(job_id, commit.index), task_name(job_id, commit.index)
    before = watch.crossed.setdefault((job_id, commit.index), watch.position)
    if before != watch.position or seen.state in (COMMITTED, SUCCEEDED):
        yield name, f"C1 it had committed at {before}"
    if seen.lease_id != commit.lease_id or seen.attempt != commit.attempt:
        yield name, f"C2 lease {commit.lease_id} committed and {seen.lease_id} is current"
    if seen.expires_at != NEVER and seen.expires_at <= at:
        yield name, f"C2 its lease had run out at {seen.expires_at}"
    if (commit.failures, commit.losses) != (seen.failures, seen.losses):
        yield name, "B2 a commit changed what is used of a budget"
    yield from watch.move(event, job_id, commit.index)
    watch.close(seen)


def _completed(watch: Watch, event: e.TasksCompleted, at: Instant) -> Iterator[Finding]:
    for commit in event.commits:
        yield from _cross(watch, event, event.job_id, commit, at)


def _committed(watch: Watch, event: e.TaskCommitted, at: Instant) -> Iterator[Finding]:
    yield from _cross(watch, event, event.job_id, event.commit, at)
    owes(watch.task(event.job_id, event.commit.index), event)


EndsEvent = e.AttemptsReturned | e.TasksQuarantined | e.TasksKilled


def _ended(watch: Watch, event: EndsEvent, at: Instant) -> Iterator[Finding]:
    """B2: an end charges one budget or none, once. B4: a spent budget is quarantine, at once, and
    nothing else is but what a recorded decision put there."""
    for end in event.ends:
        seen, name = watch.task(event.job_id, end.index), task_name(event.job_id, end.index)
        yield from watch.move(event, event.job_id, end.index)
        if seen.lease_id != end.lease_id or seen.attempt != end.attempt:
            yield name, f"S4 lease {end.lease_id} ended and {seen.lease_id} is current"
        if end.reason == "lease_expired" and not NEVER < seen.expires_at <= at:
            yield name, f"S5 its lease ended before its time, {seen.expires_at}"
        job = watch.jobs[event.job_id]
        yield from charged(name, job, seen, end)
        is_spent = yield from spent(name, job, seen, end, at)
        if is_spent != isinstance(event, e.TasksQuarantined):
            yield name, f"B4 {type(event).__name__} with {end.failures} and {end.losses} used"
        seen.failures, seen.losses = end.failures, end.losses
        watch.close(seen)
    if isinstance(event, e.TasksKilled):
        yield from _killed_waiting(watch, event)
    elif isinstance(event, e.AttemptsReturned):
        yield from retried(watch, event, at)


def _killed_waiting(watch: Watch, event: e.TasksKilled) -> Iterator[Finding]:
    by_person = event.cause in ("cancelled", "replaced", "stopped")
    for span in event.spans:
        for index in range(span.first, span.last + 1):
            if watch.task(event.job_id, index).state in (LEASED, RUNNING):
                yield task_name(event.job_id, index), "J2 it was killed as waiting and was not"
            yield from watch.move(event, event.job_id, index)
            watch.task(event.job_id, index).by_person = by_person
    for end in event.ends:
        watch.task(event.job_id, end.index).by_person = by_person


def _unschedulable(watch: Watch, event: e.TasksUnschedulable, at: Instant) -> Iterator[Finding]:
    for span in event.spans:
        for index in range(span.first, span.last + 1):
            yield from watch.move(event, event.job_id, index)


def _moved(watch: Watch, event: e.TaskRescheduled | e.TaskDue, at: Instant) -> Iterator[Finding]:
    yield from watch.move(event, event.job_id, event.index)


def _retried(watch: Watch, event: e.TasksRetried, at: Instant) -> Iterator[Finding]:
    """J3: a task comes back only in a new generation, never once it committed or a person said
    no; its budgets are fresh and its attempts go on counting."""
    job = watch.jobs[event.job_id]
    if event.generation != job.generation + 1:
        yield event.job_id, f"J3 generation {event.generation} follows {job.generation}"
    job.generation = event.generation
    job.retry_dues = []
    for span in event.spans:
        for index in range(span.first, span.last + 1):
            seen, name = watch.task(event.job_id, index), task_name(event.job_id, index)
            if (event.job_id, index) in watch.crossed or seen.by_person:
                yield name, "J3 it was sent back though its end was final"
            yield from watch.move(event, event.job_id, index)
            seen.failures = seen.losses = seen.whole_at = 0


def _lost(watch: Watch, event: e.WorkerLost, at: Instant) -> Iterator[Finding]:
    for lease_id, seen in watch.held.items():
        if seen.holder == (event.worker, event.incarnation):
            yield f"lease {lease_id}", f"S5 worker {event.worker} is gone and holds it"


def _forgotten(watch: Watch, event: e.JobsForgotten, at: Instant) -> Iterator[Finding]:
    for job_id in event.job_ids:
        job = watch.jobs.pop(job_id)
        watch.forgotten[job_id] = None
        ended = [s for s in job.tasks.values() if s.state not in (WAITING, LEASED, RUNNING)]
        if not job.sealed or len(ended) < job.count or any(s.state == COMMITTED for s in ended):
            yield job_id, "J3 it was forgotten before its end"


JUDGES: Final[dict[type[e.Event], Judge]] = {
    e.LogOpened: _opened,
    e.JobSubmitted: _submitted,
    e.TasksAdded: _added,
    e.JobSealed: _sealed,
    e.JobCancelled: _cancelled,
    e.LeasesGranted: _granted,
    e.AttemptsStarted: _started,
    e.LeasesExtended: _extended,
    e.LeasesRearmed: _rearm,
    e.TasksCompleted: _completed,
    e.TaskCommitted: _committed,
    e.AttemptsReturned: _ended,
    e.TasksQuarantined: _ended,
    e.TasksKilled: _ended,
    e.TasksUnschedulable: _unschedulable,
    e.TaskRescheduled: _moved,
    e.TaskDue: _moved,
    e.TasksRetried: _retried,
    e.WorkerLost: _lost,
    e.JobsForgotten: _forgotten,
    e.JobUnblocked: _unblocked,
    e.JobRespecified: _respecified,
    **SCHEDULE_JUDGES,
    **OWED_JUDGES,
    **CIRCUIT_JUDGES,
    **DECIDED_JUDGES,
    **LINEAGE_JUDGES,
    **RESOURCE_JUDGES,
}
