"""Facts about who may ask, who may work, how much, and where to reach it: tokens, cordons, queues,
limits, endpoints.

They are written for the same reason as those about tasks: a decision of a person must outlive the
process that took it.
"""

from holdfast.core.event import Event
from holdfast.core.ids import Index, Instant, JobId, LeaseId, WorkerId


class TokenIssued(Event, frozen=True, kw_only=True):
    """Somebody may ask with a secret of which only this digest is known. `worker` binds it to the
    worker of that name; `expires_wall` zero: it does not expire."""

    token_id: str
    name: str
    digest: bytes
    scopes: tuple[str, ...]
    worker: str
    expires_wall: Instant


class TokenRevoked(Event, frozen=True, kw_only=True):
    """The secret opens nothing any more."""

    token_id: str


class TokensExpired(Event, frozen=True, kw_only=True):
    """The calendar ended these."""

    token_ids: tuple[str, ...]


class WorkerCordoned(Event, frozen=True, kw_only=True):
    """Nothing more is given to workers of this name; what they hold goes on."""

    worker: WorkerId
    reason: str


class WorkerUncordoned(Event, frozen=True, kw_only=True):
    """The workers of this name take work again."""

    worker: WorkerId


class QueuePaused(Event, frozen=True, kw_only=True):
    """Nothing more of this queue is given out; what runs goes on."""

    queue: str
    reason: str


class QueueResumed(Event, frozen=True, kw_only=True):
    """The queue is given out again."""

    queue: str


class LimitSet(Event, frozen=True, kw_only=True):
    """All that a namespace, a user or a key has running is bounded: so many tasks at once, so many
    starts in `per_ms`; zero for no bound. `weight` is a namespace's part in fair shares; `amounts`
    is how much of a resource its tasks may take together."""

    scope: str
    name: str
    running: int
    starts: int
    per_ms: int
    weight: int
    amounts: tuple[tuple[str, int], ...] = ()


class LimitCleared(Event, frozen=True, kw_only=True):
    """The namespace, user or key is bounded no more."""

    scope: str
    name: str


class EndpointRegistered(Event, frozen=True, kw_only=True):
    """An attempt can be reached under a name, as long as its lease lives."""

    job_id: JobId
    index: Index
    lease_id: LeaseId
    name: str
    address: str
    metadata: tuple[tuple[str, str], ...]


class EndpointRemoved(Event, frozen=True, kw_only=True):
    """An attempt can no longer be reached under this name."""

    job_id: JobId
    index: Index
    lease_id: LeaseId
    name: str


class RequestNoted(Event, frozen=True, kw_only=True):
    """The rest of this record answers a request that may be repeated: the same key with the same
    digest is the same request."""

    key: str
    digest: bytes


class RequestsForgotten(Event, frozen=True, kw_only=True):
    """These requests are too old to be repeated by an honest client."""

    keys: tuple[str, ...]
