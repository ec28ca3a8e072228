"""Requests about tasks that an operator, or a repair, decides for itself."""

from typing import Final

from msgspec import Struct

from holdfast.core.command import Command
from holdfast.core.ids import Index, JobId, Position

OPERATOR: Final = "operator"
DEPENDENCY: Final = "dependency"
UNKNOWN: Final = "unknown"
ASIDE_CAUSES: Final = (OPERATOR, DEPENDENCY, UNKNOWN)
"""Whose decision it is to put a task aside: a person's; that of a rule about what it came after;
that of a repair, which cannot know what became of it."""


class SetAside(Command, frozen=True, kw_only=True):
    """Put unfinished tasks into quarantine, whatever is left of their budgets. Whoever runs one
    loses its lease; what has finished stays as it ended."""

    job_id: JobId
    indices: tuple[Index, ...]
    cause: str = OPERATOR
    note: str = ""


class PurgeTasks(Command, frozen=True, kw_only=True):
    """Give up tasks that wait for an operator: they never run again, and their job may leave
    memory. Those that do not wait for one are left."""

    job_id: JobId
    indices: tuple[Index, ...]
    reason: str


class ForceTask(Command, frozen=True, kw_only=True):
    """Move one task to another state, as far as the invariants allow. `target` names the state."""

    job_id: JobId
    index: Index
    target: str
    reason: str


class Picked(Struct, frozen=True, array_like=True, gc=False):
    """A task in quarantine, as somebody saw it: `end` is the record that put it there."""

    job_id: JobId
    index: Index
    end: Position


class RetryQuarantined(Command, frozen=True, kw_only=True):
    """Send tasks of any jobs back from quarantine. What is not there any more, or again for
    another end than the one that was seen, is left alone."""

    picked: tuple[Picked, ...]


class PurgeQuarantined(Command, frozen=True, kw_only=True):
    """Give up tasks of any jobs that are in quarantine, as they were seen."""

    picked: tuple[Picked, ...]
    reason: str


DECIDED_COMMANDS: tuple[type[Command], ...] = (
    SetAside,
    PurgeTasks,
    ForceTask,
    RetryQuarantined,
    PurgeQuarantined,
)
