"""Requests about services."""

from typing import Final

from holdfast.core.command import Command
from holdfast.core.ids import Index, JobId


class StopReplicas(Command, frozen=True, kw_only=True):
    """Have replicas end in good order, for good; the others go on. One in quarantine is given
    up."""

    job_id: JobId
    indices: tuple[Index, ...]
    reason: str = ""


class EndService(Command, frozen=True, kw_only=True):
    """Have a service end: no replica is added any more, and those there are end in good order."""

    job_id: JobId
    reason: str = ""


SERVICE_COMMANDS: Final[tuple[type[Command], ...]] = (StopReplicas, EndService)
