"""What is asked about work that hangs."""

from typing import Final

from holdfast.core.command import Command
from holdfast.core.ids import Index, JobId, LeaseId


class RecoverStalled(Command, frozen=True, kw_only=True):
    """End an attempt that hangs, unless its task has moved on: `lease_id` names the lease that was
    found hanging. The next attempt begins no sooner than `delay_ms` from now."""

    job_id: JobId
    index: Index
    lease_id: LeaseId
    error: str
    delay_ms: int


STALL_COMMANDS: Final = (RecoverStalled,)
