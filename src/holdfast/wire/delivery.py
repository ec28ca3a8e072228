"""What workers are given to deliver, and what they say became of it.

Deliveries travel in exchanges, beside leases: they are named by what they are, so that a report is
understood by a coordinator that was started since. Whoever delivers may be told to do so again;
the idempotency key stays the same for ever.
"""

from typing import Final

from msgspec import Struct

from holdfast.core.ids import Index, JobId, LeaseId
from holdfast.core.owed import DebtName

__all__ = ["SERVER", "WORKERS", "Bounced", "DebtName", "Delivery", "Origin", "Parcel", "Staged"]

WORKERS: Final = "workers"
SERVER: Final = "server"
"""Where a sink is delivered from: by the workers, or by the delivery process of the server."""


class Delivery(Struct, frozen=True, array_like=True):
    """One entry to deliver. `idempotency` is `log:task:commit-position:number`; `tries` were made
    before and failed, as far as is known."""

    name: DebtName
    key: str
    body: bytes
    idempotency: str
    tries: int


class Parcel(Struct, frozen=True, array_like=True):
    """Entries of one place, in the order they must be delivered: where one fails, those behind it
    with the same key come back untried. `sink` is the definition of the sink, for effects; a file
    system needs none."""

    kind: str
    place: str
    sink: bytes
    deliveries: tuple[Delivery, ...]


class Bounced(Struct, frozen=True, array_like=True):
    """An entry that was not delivered. `is_final`: no further try can help. `is_elsewhere`: it can
    be done, but not by this worker. `is_untried`: it waited behind one that failed, or its turn
    never came. `wait_ms`: whoever refused it asks not to be asked sooner."""

    name: DebtName
    error: str
    is_final: bool = False
    is_elsewhere: bool = False
    is_untried: bool = False
    wait_ms: int = 0


class Origin(Struct, frozen=True, array_like=True, gc=False):
    """The attempt that a staged file is of, and the log that would owe it."""

    log_id: str
    job_id: JobId
    index: Index
    lease_id: LeaseId


class Staged(Struct, frozen=True, array_like=True):
    """The body of an entry: the file that waits for its name. `exclusive`: only if there is none
    of that name."""

    temporary: str
    size: int
    exclusive: bool
