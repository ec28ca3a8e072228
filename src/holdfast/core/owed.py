"""What a commit owes: what it promised shall happen after it, and what became of each promise.

An entry is part of the commit record. Until it is delivered, discarded or left, its task is
COMMITTED; a debt is what memory keeps of it meanwhile. The body of an entry is read from the log.
"""

from typing import Final

from msgspec import Struct

from holdfast.core.ids import NEVER, Index, Instant, JobId, WorkerId

EFFECT: Final = "effect"
"""For a sink: `place` is the name of the sink."""
FILE: Final = "file"
"""A staged file that waits for its name: `place` is the file system it lies on, `key` its path."""
BLOCK: Final = "block"
"""What the task itself does after its commit: at most once, and by nobody else."""
KINDS: Final = (EFFECT, FILE, BLOCK)

READY: Final = "READY"
DELIVERING: Final = "DELIVERING"
WAITING: Final = "WAITING"
PARKED: Final = "PARKED"
OWED_STATES: Final = (READY, DELIVERING, WAITING, PARKED)
"""How an entry stands as long as it is owed. Nothing of that is written down but that it is
parked: whoever looks is told."""


class Entry(Struct, frozen=True, array_like=True, gc=False):
    """One promise, as the worker makes it and the record keeps it.

    Entries of one place with the same key are kept in the order of their commits; an empty key
    promises no order. What `body` means is between the worker that wrote it and whoever delivers.
    """

    kind: str
    place: str
    key: str
    body: bytes


class DebtName(Struct, frozen=True, array_like=True, gc=False):
    """One entry of one task: its number within the commit."""

    job_id: JobId
    index: Index
    number: int


class Debt(Struct, array_like=True, gc=False):
    """An entry that is still owed. `tries` have failed, the last with `error`; `not_before` is when
    the next may be made. Parked: nothing happens until an operator says so."""

    number: int
    kind: str
    place: str
    key: str
    tries: int = 0
    not_before: Instant = NEVER
    parked: bool = False
    error: str = ""


class Author(Struct, frozen=True, array_like=True, gc=False):
    """Who committed and runs a block since: nobody else can. `is_local`: it is part of the program
    that wrote the record, and dies with it."""

    worker: WorkerId
    incarnation: int
    is_local: bool


class Stored(Struct, frozen=True, array_like=True, gc=False):
    """A result too large for a record: where it lies in the store, and how large it is."""

    digest: bytes
    size: int
