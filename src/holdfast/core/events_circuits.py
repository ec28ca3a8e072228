"""Facts about circuits: how many failures in a row, open, half-open, tried, closed.

Each tells what caused it, so that nobody has to guess afterwards why work stood still.
"""

from holdfast.core.event import Event
from holdfast.core.ids import Index, Instant, JobId, LeaseId


class CircuitCounted(Event, frozen=True, kw_only=True):
    """So many failures in a row by now; none, where something has succeeded or they are too old
    to say anything."""

    kind: str
    name: str
    failures: int


class CircuitOpened(Event, frozen=True, kw_only=True):
    """Nothing more is given out for this function or sink before `until`; NEVER: before a person
    closes it. A circuit that fails its trial opens for longer than before."""

    kind: str
    name: str
    failures: int
    cooldown_ms: int
    until: Instant
    cause: str


class CircuitHalfOpened(Event, frozen=True, kw_only=True):
    """One at a time is given out, to find out whether the trouble is over."""

    kind: str
    name: str
    cause: str


class CircuitProbed(Event, frozen=True, kw_only=True):
    """This attempt, leased in the same record, is the trial of a half-open function."""

    kind: str
    name: str
    job_id: JobId
    index: Index
    lease_id: LeaseId


class CircuitClosed(Event, frozen=True, kw_only=True):
    """Everything is given out again, and nothing is held against it."""

    kind: str
    name: str
    cause: str
