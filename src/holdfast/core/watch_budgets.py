"""What the end of an attempt may charge, written down a second time."""

from collections.abc import Generator, Iterator

from holdfast.core import events as e
from holdfast.core.ids import NEVER, Instant
from holdfast.core.seen import Seen, SeenJob
from holdfast.core.violation import Finding


def charged(name: str, job: SeenJob, seen: Seen, end: e.End) -> Iterator[Finding]:
    """B2: one budget or none, once, as the reason says."""
    more = (end.failures - seen.failures, end.losses - seen.losses)
    if more != {"failures": (1, 0), "losses": (0, 1)}.get(end.charged, (0, 0)):
        yield name, f"B2 it says it charged {end.charged or 'nothing'} and charged {more}"
    begun = seen.started or end.started_at != NEVER
    is_own = end.reason in ("failed", "timed_out")
    is_loss = end.reason in ("lease_expired", "worker_lost")
    own, lost = ("restarts", "restarts") if job.service[0] else ("failures", "losses")
    must = own if is_own else lost if is_loss and begun else ""
    may_loss = end.reason == "undelivered" or (is_loss and not begun)
    if end.charged != must and not (may_loss and end.charged == lost):
        yield name, f"B2 {end.reason} charged {end.charged or 'nothing'}"


def spent(
    name: str, job: SeenJob, seen: Seen, end: e.End, at: Instant
) -> Generator[Finding, None, bool]:
    """Whether this end leaves nothing of a budget. B6: a restart of a service owes its budget one
    more span of time, on top of what it owed, and what has passed since is paid back."""
    most, refill_ms = job.service
    if end.charged != "restarts":
        if end.restarts or end.whole_in_ms:
            yield name, f"B6 {end.restarts} restarts and {end.whole_in_ms} ms for nothing"
        return end.failures > job.retries or end.losses > job.max_losses
    whole_at = max(seen.whole_at, at) + refill_ms
    if end.restarts < 1 or at + end.whole_in_ms != whole_at:
        yield name, f"B6 its budget is whole at {at + end.whole_in_ms}, not at {whole_at}"
    seen.whole_at = at + end.whole_in_ms
    return end.whole_in_ms > most * refill_ms
