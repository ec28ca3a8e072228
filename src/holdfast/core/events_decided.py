"""Facts about tasks that somebody decided, where no budget and no clock did."""

from holdfast.core.event import Event
from holdfast.core.events_work import End, Span, Stopped
from holdfast.core.ids import Index, JobId


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


class TasksPurged(Event, frozen=True, kw_only=True):
    """Tasks that waited for an operator were given up: they are KILLED and never come back. Those
    of `purged` were in quarantine, those of `unplaced` unschedulable; each is named with where it
    had ended, so that its history stays a chain. How their job ended stays as it was."""

    job_id: JobId
    purged: tuple[Stopped, ...]
    unplaced: tuple[Stopped, ...]
    reason: str

    @property
    def all(self) -> tuple[Stopped, ...]:
        return self.purged + self.unplaced


class TaskForced(Event, frozen=True, kw_only=True):
    """An operator moved a task against the run of things; the events beside this one, of the same
    record, are how. The states are told by name."""

    job_id: JobId
    index: Index
    source: str
    target: str
    reason: str
