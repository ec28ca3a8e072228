"""An operation: one request about many jobs or tasks, carried out in many records.

Every record of it carries its id as request id, so that what it did can be read from the log and
taken back. Memory keeps a bounded number of them, the newest.
"""

from typing import Final

from msgspec import Struct

from holdfast.core.ids import NOWHERE, Instant, Position

CANCEL_JOBS: Final = "cancel_jobs"
RETRY_JOBS: Final = "retry_jobs"
CANCEL_TASKS: Final = "cancel_tasks"
RETRY_TASKS: Final = "retry_tasks"
RESCHEDULE_TASKS: Final = "reschedule_tasks"
PURGE_TASKS: Final = "purge_tasks"
UNDO: Final = "undo"
VERBS: Final = (
    CANCEL_JOBS, RETRY_JOBS, CANCEL_TASKS, RETRY_TASKS, RESCHEDULE_TASKS, PURGE_TASKS, UNDO,
)  # fmt: skip

KEPT: Final = 200
REQUEST_BYTES: Final = 64 * 1024
"""How many operations are remembered, and how long the request of one may be."""


class Operation(Struct, frozen=True, array_like=True, gc=False):
    """What was asked, by whom, and from which record to which. `last` is nowhere until it is over:
    an operation without one was cut off, or is under way. `total` is how many jobs or tasks were
    chosen when it began. `undoes` and `undone_by` name other operations."""

    operation_id: str
    verb: str
    request: bytes
    digest: bytes
    key: str
    asked_by: str
    reason: str
    total: int
    at: Instant
    first: Position
    last: Position = NOWHERE
    outcomes: tuple[tuple[str, int], ...] = ()
    undoes: str = ""
    undone_by: str = ""


def operation_name(position: Position) -> str:
    """What an operation is called that begins with the record at a position."""
    return f"op-{position}"
