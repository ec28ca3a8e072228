"""Requests about gangs: tasks that are given out together and commit together."""

from msgspec import Struct

from holdfast.core.command import Command
from holdfast.core.ids import Index, JobId, WorkerId
from holdfast.core.reports import Done


class Member(Struct, frozen=True, array_like=True, gc=False):
    """A place for one task of a gang: a free slot of a worker, and the term it works by."""

    index: Index
    worker: WorkerId
    incarnation: int
    slot: int
    term_ms: int


class GrantGang(Command, frozen=True, kw_only=True):
    """Give all tasks of a gang out at once, each to a free slot."""

    job_id: JobId
    members: tuple[Member, ...]
    rank: int | None = None


class Finished(Struct, frozen=True, array_like=True, gc=False):
    """A result of a gang's member, and whose it is."""

    worker: WorkerId
    incarnation: int
    done: Done


class CommitGang(Command, frozen=True, kw_only=True):
    """Every member of a gang has its result: commit all of them, or none."""

    job_id: JobId
    members: tuple[Finished, ...]


GANG_COMMANDS: tuple[type[Command], ...] = (GrantGang, CommitGang)
