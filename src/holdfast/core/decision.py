"""The answer to a command: the facts it makes true, or a refusal with a stable reason."""

from enum import StrEnum

from msgspec import Struct

from holdfast.core.events import AnyEvent
from holdfast.core.ids import Index, JobId, LeaseId, Position


class Reason(StrEnum):
    """Why a command was refused. Stable: clients, metrics and HTTP answers rely on these."""

    NOT_FOUND = "not_found"
    GONE = "gone"
    CONFLICT = "conflict"
    KEY_REUSED = "key_reused"
    INVALID = "invalid"
    INVALID_TRANSITION = "invalid_transition"
    LEASE_LOST = "lease_lost"
    JOB_SEALED = "job_sealed"
    TOO_LARGE = "too_large"
    REPEATED = "repeated"
    DISK_LOW = "disk_low"
    DISK_FULL = "disk_full"
    DISK_SLOW = "disk_slow"


class Refused(Struct, frozen=True):
    """No is an answer: nothing changed."""

    code: Reason
    message: str


class Lost(Struct, frozen=True, gc=False):
    """A report under a lease that is not current.

    `settled` is where the task's last attempt ended: if that record commits this very lease the
    report is a repeat and the answer is COMMITTED again; only the log can tell.
    """

    job_id: JobId
    index: Index
    lease_id: LeaseId
    why: str
    settled: Position


class Repeated(Struct, frozen=True, gc=False):
    """The answer to a request that was made before: the record at this position has it."""

    position: Position


class Accepted(Struct, frozen=True):
    """`events` may be empty: a repeat adds no fact. `answer` is for whoever asked."""

    events: tuple[AnyEvent, ...]
    answer: object = None


Decision = Accepted | Refused
