"""Requests about who may ask, who may work, how much, and where to reach it."""

from holdfast.core.command import Command
from holdfast.core.ids import NEVER, Index, Instant, JobId, LeaseId, WorkerId


class IssueToken(Command, frozen=True, kw_only=True):
    """Let somebody ask. The secret stays with whoever made it; only its digest comes here."""

    token_id: str
    name: str
    digest: bytes
    scopes: tuple[str, ...]
    worker: str = ""
    expires_wall: Instant = NEVER


class RevokeToken(Command, frozen=True, kw_only=True):
    """Let a token open nothing any more."""

    token_id: str


class CordonWorker(Command, frozen=True, kw_only=True):
    """Give nothing more to workers of this name."""

    worker: WorkerId
    reason: str = ""


class UncordonWorker(Command, frozen=True, kw_only=True):
    """Give work to workers of this name again."""

    worker: WorkerId


class PauseQueue(Command, frozen=True, kw_only=True):
    """Give nothing more of this queue out."""

    queue: str
    reason: str = ""


class ResumeQueue(Command, frozen=True, kw_only=True):
    """Give this queue out again."""

    queue: str


class SetLimit(Command, frozen=True, kw_only=True):
    """Bound what a namespace, a user or a key has running at once, starts in `per_ms`, and takes of
    a resource. Zero bounds nothing. What is not named (None, an amount left out) stays as it was,
    unless this `replaces` all that was set."""

    scope: str
    name: str
    running: int | None = None
    starts: int | None = None
    per_ms: int | None = None
    weight: int | None = None
    amounts: tuple[tuple[str, int], ...] = ()
    replaces: bool = False


class ClearLimit(Command, frozen=True, kw_only=True):
    """Bound a namespace, a user or a key no more."""

    scope: str
    name: str


class RegisterEndpoint(Command, frozen=True, kw_only=True):
    """An attempt can be reached: under its lease, by the worker that holds it."""

    worker: WorkerId
    incarnation: int
    job_id: JobId
    index: Index
    lease_id: LeaseId
    name: str
    address: str
    metadata: tuple[tuple[str, str], ...] = ()


class RemoveEndpoint(Command, frozen=True, kw_only=True):
    """An attempt takes back one of its endpoints."""

    worker: WorkerId
    incarnation: int
    job_id: JobId
    index: Index
    lease_id: LeaseId
    name: str
