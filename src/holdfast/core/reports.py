"""What a worker reports about the attempts it holds, as the core understands it.

Spans end now (`ran_ms`); the coordinator turns them into instants of its own clock.
"""

from msgspec import Struct

from holdfast.core.ids import Index, JobId, LeaseId
from holdfast.core.owed import Entry, Stored


class Started(Struct, frozen=True, array_like=True, gc=False):
    """An attempt has begun and has not ended."""

    job_id: JobId
    index: Index
    lease_id: LeaseId
    ran_ms: int


class Done(Struct, frozen=True, array_like=True, gc=False):
    """An attempt has its result and asks to commit it, with what it owes. A result that lies in the
    store has no bytes here."""

    job_id: JobId
    index: Index
    lease_id: LeaseId
    ran_ms: int
    result: bytes
    owed: tuple[Entry, ...] = ()
    stored: Stored | None = None


class Failed(Struct, frozen=True, array_like=True, gc=False):
    """An attempt ended without a result. `reason` is `failed`, `timed_out` or `worker_lost`."""

    job_id: JobId
    index: Index
    lease_id: LeaseId
    ran_ms: int
    reason: str
    error: str
    traceback: str
    exit_code: int | None


class Released(Struct, frozen=True, array_like=True, gc=False):
    """A leased task comes back. `started` tells whether its attempt had begun."""

    job_id: JobId
    index: Index
    lease_id: LeaseId
    started: bool
