"""Facts about the log itself: that it goes back to another one, and that it may work."""

from holdfast.core.event import Event
from holdfast.core.ids import LeaseId, Position
from holdfast.core.lineage import Hole


class LogForked(Event, frozen=True, kw_only=True):
    """The first record of a new log: its state is that of `origin` right after `at_position`.

    `head` is the chain of the former log after its last whole frame, which ends at
    `head_position`; `kind` says whether it was forked or salvaged, and `hole` what could not be
    read. Leases, jobs and epochs go on above all that were seen of the former log. The new one is
    suspended: nothing is given out before `LogResumed`.
    """

    log_id: str
    origin: str
    at_position: Position
    head: bytes
    head_position: Position
    kind: str
    hole: Hole
    reason: str
    epoch: int
    next_lease: LeaseId
    next_job: int


class LogResumed(Event, frozen=True, kw_only=True):
    """A person looked at the log and lets it work. `suspended` is why it did not."""

    suspended: str
