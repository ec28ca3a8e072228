"""The history of circuits and retry budgets, watched: what is open leases nothing, what is
half-open one at a time, and no span of time has more retries than its job allows."""

from bisect import insort
from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec import Struct

from holdfast.core import events as e
from holdfast.core.ids import NEVER, Instant
from holdfast.core.record import Record
from holdfast.core.violation import Finding

CLOSED, OPEN, HALF_OPEN = "closed", "open", "half-open"

STEPS: Final[dict[type[e.Event], tuple[tuple[str, ...], str]]] = {
    e.CircuitCounted: ((CLOSED,), CLOSED),
    e.CircuitOpened: ((CLOSED, OPEN, HALF_OPEN), OPEN),
    e.CircuitHalfOpened: ((OPEN,), HALF_OPEN),
    e.CircuitProbed: ((HALF_OPEN,), HALF_OPEN),
    e.CircuitClosed: ((OPEN, HALF_OPEN), CLOSED),
}
"""Every way a circuit may go, written down a second time."""


class SeenCircuit(Struct):
    """A circuit as its events tell it. `probe` is the lease that tries it."""

    state: str = CLOSED
    failures: int = 0
    until: Instant = NEVER
    probe: int = 0


def _step(watch: Any, event: Any, at: Instant) -> Iterator[Finding]:
    """F1: only steps of the list, and none that says nothing."""
    seen = watch.circuits.setdefault((event.kind, event.name), SeenCircuit())
    sources, target = STEPS[type(event)]
    called = f"{event.kind}/{event.name}"
    if seen.state not in sources:
        yield called, f"F1 {type(event).__name__} and it is {seen.state}"
    seen.state = target
    if isinstance(event, e.CircuitCounted):
        if event.failures not in (0, seen.failures + 1) or event.failures == seen.failures:
            yield called, f"F1 {event.failures} failures in a row follow {seen.failures}"
        seen.failures = event.failures
    elif isinstance(event, e.CircuitOpened):
        if event.until != NEVER and event.until != at + event.cooldown_ms:
            yield called, f"F1 it opens at {at} until {event.until}"
        seen.failures, seen.until, seen.probe = event.failures, event.until, 0
    elif isinstance(event, e.CircuitHalfOpened):
        if seen.until == NEVER or seen.until > at:
            yield called, f"F1 it half-opens at {at}, and was open until {seen.until}"
    elif isinstance(event, e.CircuitProbed):
        if seen.probe in watch.held:
            yield called, f"F1 lease {event.lease_id} tries it, and so does {seen.probe}"
        seen.probe = event.lease_id
    else:
        seen.failures, seen.probe = 0, 0


def unguarded(watch: Any, record: Record) -> Iterator[Finding]:
    """F2: nothing is leased through an open circuit, nor through a half-open one but a trial."""
    tried = {e_.lease_id for e_ in record.events if isinstance(e_, e.CircuitProbed)}
    for event in record.events:
        if not isinstance(event, e.LeasesGranted) or event.job_id not in watch.jobs:
            continue
        job = watch.jobs[event.job_id]
        seen = watch.circuits.get(("function", job.circuit))
        if seen is None or seen.state == CLOSED or (job.is_gang and tried):
            continue
        if seen.state == OPEN or len(event.indices) > 1 or event.first_lease not in tried:
            yield event.job_id, f"it was leased and circuit {job.circuit} is {seen.state}"


def retried(watch: Any, event: e.AttemptsReturned, at: Instant) -> Iterator[Finding]:
    """B5: no span of time has more retries than the budget of the job."""
    job = watch.jobs[event.job_id]
    most, per_ms = job.retry_budget
    for end in event.ends:
        if not most or end.charged != "failures":
            continue
        insort(job.retry_dues, end.not_before or at)
        spans = zip(job.retry_dues, job.retry_dues[most:], strict=False)
        if any(last - first < per_ms for first, last in spans):
            yield event.job_id, f"B5 more than {most} retries within {per_ms} ms"
        if end.wanted != NEVER and not at <= end.wanted < end.not_before:
            yield event.job_id, f"B5 a retry wanted at {end.wanted} waits until {end.not_before}"


CIRCUIT_JUDGES: Final[dict[type[e.Event], Callable[[Any, Any, Instant], Iterator[Finding]]]] = (
    dict.fromkeys(STEPS, _step)
)
