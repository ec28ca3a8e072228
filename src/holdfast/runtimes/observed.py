"""What was seen of a runtime's children, kind by kind: known, or not known and why.

A listing that failed is not an empty one: `Unknown` deletes nothing and degrades nothing.
"""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from holdfast.core.ids import NEVER, Instant
from holdfast.runtimes.status import RolloutProgress


class ManagedKind(StrEnum):
    """The kinds a template may render. On local workers a service job is the Deployment and its
    leased endpoints are the Service."""

    DEPLOYMENT = "Deployment"
    SERVICE = "Service"
    KNATIVE_SERVICE = "KnativeService"
    ODGM_DEPLOYMENT = "OdgmDeployment"
    ODGM_SERVICE = "OdgmService"
    HPA = "Hpa"


class Crash(Struct, frozen=True, gc=False):
    """A replica that keeps ending by itself: which, how often, and its last lines."""

    pod: str
    restarts: int
    lines: tuple[str, ...] = ()


class Child(Struct, frozen=True, kw_only=True, gc=False):
    """One child as it was seen. `desired` is what the child itself was told, `updated` how many
    replicas run its newest revision, `ready` how many of all take requests. `revision` is the
    newest it was told. `function_key` is empty for what belongs to no function. `leaving` were
    told to end and have not yet; they are not counted in `current`."""

    kind: ManagedKind
    name: str
    owner: str
    function_key: str = ""
    revision: str = ""
    desired: int = 0
    current: int = 0
    updated: int = 0
    ready: int = 0
    crash: Crash | None = None
    problems: tuple[str, ...] = ()
    rollout: RolloutProgress | None = None
    is_deleting: bool = False
    leaving: int = 0


class Known(Struct, frozen=True, gc=False):
    """All children of one kind that carry the owner's label."""

    children: tuple[Child, ...] = ()


class Unknown(Struct, frozen=True, gc=False):
    """The listing of this kind failed."""

    error: str


Listing = Known | Unknown


class Partition(Struct, frozen=True, kw_only=True, gc=False):
    """How one partition of the data grid stands, as it says itself. An empty `leader`: none."""

    name: str
    members: int
    ready: int
    leader: str = ""
    leader_since: Instant = NEVER

    @property
    def is_green(self) -> bool:
        return 0 < self.members <= self.ready


class Telling(Struct, frozen=True, kw_only=True, gc=False):
    """How well the members of the data grid tell of its partitions.

    `doubt` says why nothing is known, or not all of it; empty where all tell. `is_awaited`: nobody
    told yet, and nobody had to. `told_at` is as of when the oldest of what counts was told, and
    `until` is when some of this will have grown old.
    """

    doubt: str = ""
    is_awaited: bool = False
    told_at: Instant = NEVER
    until: Instant = NEVER


NOBODY_TELLS = Telling()


class Observed(Struct, frozen=True, kw_only=True):
    """The children of one runtime at one moment. A kind that is missing here was not listed, and
    counts as unknown. `partitions` is None where the data grid does not tell, and `telling` says
    how well it does; the two shares are how busy the machines and how full the replicas' memory
    are, None where nobody measures."""

    children: Mapping[ManagedKind, Listing]
    partitions: tuple[Partition, ...] | None = None
    telling: Telling = NOBODY_TELLS
    load_percent: int | None = None
    memory_usage_percent: int | None = None


NOT_LISTED = Unknown("it was not listed")


def listing_of(observed: Observed, kind: ManagedKind) -> Listing:
    return observed.children.get(kind, NOT_LISTED)
