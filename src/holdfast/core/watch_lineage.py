"""The history of the log itself, watched: what was forked works for nobody before it is resumed."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from holdfast.core import events as e
from holdfast.core.ids import Instant
from holdfast.core.record import Record
from holdfast.core.violation import Finding


def _forked(watch: Any, event: e.LogForked, at: Instant) -> Iterator[Finding]:
    """L8: a log goes on where the former one was left, above everything that was seen of it."""
    if event.at_position != watch.position - 1:
        yield "log", f"L8 it goes on from {event.at_position} in record {watch.position}"
    if event.epoch <= watch.epoch:
        yield "log", f"L8 epoch {event.epoch} was forked after epoch {watch.epoch}"
    if event.next_lease < watch.next_lease:
        yield "log", f"L8 lease {event.next_lease} would be granted again"
    watch.epoch = event.epoch
    watch.next_lease = max(watch.next_lease, event.next_lease)
    watch.suspended = True


def _resumed(watch: Any, event: e.LogResumed, at: Instant) -> Iterator[Finding]:
    if not watch.suspended:
        yield "log", "L9 it was resumed and was at work"
    watch.suspended = False


def idle(watch: Any, record: Record) -> Iterator[Finding]:
    """L9: a suspended log gives nothing out and fires no schedule, and nothing is held of it."""
    if not watch.suspended:
        return
    for event in record.events:
        is_due = isinstance(event, e.ScheduleFired) and event.cause in ("due", "made_up")
        if isinstance(event, e.LeasesGranted) or is_due:
            yield "log", f"{type(event).__name__} and it is suspended"
    for lease_id in watch.held:
        yield f"lease {lease_id}", "it is held of a log that is suspended"


LINEAGE_JUDGES: Final[dict[type[e.Event], Callable[[Any, Any, Instant], Iterator[Finding]]]] = {
    e.LogForked: _forked,
    e.LogResumed: _resumed,
}
