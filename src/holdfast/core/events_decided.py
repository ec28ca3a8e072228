"""Facts about tasks that somebody decided, where no budget and no clock did."""

from holdfast.core.event import Event
from holdfast.core.events_work import End, Span, Stopped
from holdfast.core.ids import JobId


class TasksSetAside(Event, frozen=True, kw_only=True):
    """Tasks were put into quarantine by a decision, not by a spent budget: those of `spans` were
    waiting, those of `ends` were leased and charge nothing. `cause` says whose decision it was.

    `stopped` names those of `spans` that had attempts before, so that their history stays a chain.
    """

    job_id: JobId
    cause: str
    spans: tuple[Span, ...]
    ends: tuple[End, ...]
    stopped: tuple[Stopped, ...]
    note: str
