"""Requests about many jobs or tasks at once, and the single steps that only they need."""

from typing import Final

from holdfast.core.command import Command
from holdfast.core.ids import NEVER, Index, Instant, JobId, Position


class BeginOperation(Command, frozen=True, kw_only=True):
    """Announce what is going to be done. One that was announced under the same `key` is found."""

    verb: str
    request: bytes
    digest: bytes
    asked_by: str
    key: str = ""
    reason: str = ""
    total: int = 0
    undoes: str = ""


class EndOperation(Command, frozen=True, kw_only=True):
    """All of it was tried."""

    operation_id: str
    outcomes: tuple[tuple[str, int], ...]


class RestoreTasks(Command, frozen=True, kw_only=True):
    """Have tasks wait again that the record at `killed_at` stopped before they began, by a person's
    will. Whatever has happened to one since leaves it as it is."""

    job_id: JobId
    killed_at: Position
    indices: tuple[Index, ...]
    items: tuple[bytes, ...] = ()
    shared: bytes = b""


class RescheduleTasks(Command, frozen=True, kw_only=True):
    """Move the earliest time of waiting tasks of a job; those that do not wait are left."""

    job_id: JobId
    indices: tuple[Index, ...]
    delay_ms: int = 0
    not_before_wall: Instant = NEVER


OPERATION_COMMANDS: Final[tuple[type[Command], ...]] = (
    BeginOperation,
    EndOperation,
    RestoreTasks,
    RescheduleTasks,
)
