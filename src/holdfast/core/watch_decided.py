"""The history of what was decided of single tasks, watched: a decision takes no budget, ends the
lease of whoever holds the task, and reaches nothing that has committed."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from holdfast.core import events as e
from holdfast.core.ids import Instant, task_name
from holdfast.core.record import Record
from holdfast.core.seen import LEASED, QUARANTINED, RUNNING, UNSCHEDULABLE
from holdfast.core.violation import Finding

ASIDE_FOR = ("operator", "dependency", "unknown")


def _set_aside(watch: Any, event: e.TasksSetAside, at: Instant) -> Iterator[Finding]:
    """B4: what no budget sends into quarantine goes there for a cause that is written down."""
    if event.cause not in ASIDE_FOR:
        yield event.job_id, f"B4 tasks were put aside for {event.cause!r}"
    for end in event.ends:
        yield from _uncharged(watch, event, end)
    yield from _waiting(watch, event)


def _uncharged(watch: Any, event: e.TasksSetAside, end: e.End) -> Iterator[Finding]:
    seen, name = watch.task(event.job_id, end.index), task_name(event.job_id, end.index)
    yield from watch.move(event, event.job_id, end.index)
    if seen.lease_id != end.lease_id or seen.attempt != end.attempt:
        yield name, f"S4 lease {end.lease_id} ended and {seen.lease_id} is current"
    if end.charged or (end.failures, end.losses) != (seen.failures, seen.losses):
        yield name, "B2 a decision changed what is used of a budget"
    watch.close(seen)


def _waiting(watch: Any, event: e.TasksSetAside) -> Iterator[Finding]:
    for span in event.spans:
        for index in range(span.first, span.last + 1):
            if watch.task(event.job_id, index).state in (LEASED, RUNNING):
                yield task_name(event.job_id, index), "J2 it was told as waiting and was not"
            yield from watch.move(event, event.job_id, index)


def _purged(watch: Any, event: e.TasksPurged, at: Instant) -> Iterator[Finding]:
    """J3: what is given up was waiting for an operator, and is never sent back."""
    for source, given_up in ((QUARANTINED, event.purged), (UNSCHEDULABLE, event.unplaced)):
        for one in given_up:
            seen = watch.task(event.job_id, one.index)
            if seen.state != source:
                yield task_name(event.job_id, one.index), f"J3 it was given up from {seen.state}"
            yield from watch.move(event, event.job_id, one.index)
            seen.by_person = True


def unforced(watch: Any, record: Record) -> Iterator[Finding]:
    """J2: a task that was forced is where the record says, by the events beside it."""
    for event in record.events:
        if isinstance(event, e.TaskForced):
            seen, name = watch.task(event.job_id, event.index), task_name(event.job_id, event.index)
            if seen.state != event.target or event.source == event.target:
                yield name, f"it was forced from {event.source} to {event.target}: {seen.state}"


def _restored(watch: Any, event: e.TasksRestored, at: Instant) -> Iterator[Finding]:
    """J3: what a person stopped comes back only in a new generation, and never once it had
    committed; all its budgets are fresh, that of a replica too."""
    job = watch.jobs[event.job_id]
    if event.generation != job.generation + 1:
        yield event.job_id, f"J3 generation {event.generation} follows {job.generation}"
    job.generation, job.retry_dues = event.generation, []
    for span in event.spans:
        for index in range(span.first, span.last + 1):
            seen, name = watch.task(event.job_id, index), task_name(event.job_id, index)
            if (event.job_id, index) in watch.crossed or not seen.by_person:
                yield name, "J3 it was restored though nobody had stopped it"
            yield from watch.move(event, event.job_id, index)
            seen.failures = seen.losses = seen.whole_at = 0
            seen.by_person = False


DECIDED_JUDGES: Final[dict[type[e.Event], Callable[[Any, Any, Instant], Iterator[Finding]]]] = {
    e.TasksSetAside: _set_aside,
    e.TasksPurged: _purged,
    e.TasksRestored: _restored,
}
