"""What the end of an attempt may charge, written down a second time."""

from collections.abc import Iterator

from holdfast.core import events as e
from holdfast.core.ids import NEVER
from holdfast.core.seen import Seen
from holdfast.core.violation import Finding


def charged(name: str, seen: Seen, end: e.End) -> Iterator[Finding]:
    """B2: one budget or none, once, as the reason says."""
    more = (end.failures - seen.failures, end.losses - seen.losses)
    if more != {"failures": (1, 0), "losses": (0, 1)}.get(end.charged, (0, 0)):
        yield name, f"B2 it says it charged {end.charged or 'nothing'} and charged {more}"
    begun = seen.started or end.started_at != NEVER
    is_own = end.reason in ("failed", "timed_out")
    is_loss = end.reason in ("lease_expired", "worker_lost")
    must = "failures" if is_own else "losses" if is_loss and begun else ""
    may_loss = end.reason == "undelivered" or (is_loss and not begun)
    if end.charged != must and not (may_loss and end.charged == "losses"):
        yield name, f"B2 {end.reason} charged {end.charged or 'nothing'}"
