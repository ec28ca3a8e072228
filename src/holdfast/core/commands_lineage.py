"""Requests about the log itself."""

from holdfast.core.command import Command
from holdfast.core.ids import Index, JobId, LeaseId, Position
from holdfast.core.lineage import Hole


class ForkLog(Command, frozen=True, kw_only=True):
    """Go on from here as a log of its own. `touched` are tasks of which the former log told more
    than could be read in order: nobody may run them before a person has looked. Where positions
    are lost, whatever was held is such a task too."""

    log_id: str
    head: bytes
    head_position: Position
    kind: str
    epoch: int
    next_lease: LeaseId
    next_job: int
    hole: Hole = Hole()
    reason: str = ""
    touched: tuple[tuple[JobId, tuple[Index, ...]], ...] = ()


class ResumeLog(Command, frozen=True, kw_only=True):
    """Let a suspended log work."""


LINEAGE_COMMANDS: tuple[type[Command], ...] = (ForkLog, ResumeLog)
