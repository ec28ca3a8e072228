"""What workers say about the services they run: how each stands, what it takes, and what it tells
of its partitions.

All of it is told under the lease of the replica, and none of it is history: a coordinator that was
started again has forgotten it and asks. Only where a ready replica is reached is recorded, as an
endpoint under its lease.
"""

from collections.abc import Iterable
from math import isfinite
from typing import Final

from msgspec import Struct

from holdfast.core.ids import LeaseId

STARTING: Final = "starting"
READY: Final = "ready"
UNREADY: Final = "unready"
STOPPING: Final = "stopping"
SERVICE_STATES: Final = (STARTING, READY, UNREADY, STOPPING)
"""How a replica stands: it runs and has not been ready yet; it can be asked; it was ready and is
not; it was told to end, or ends by itself, and should not be asked any more."""


class ServiceNews(Struct, frozen=True, array_like=True, gc=False):
    """How a replica stands, told when that changes, and of every replica with the exchange in which
    the worker introduces itself.

    `address` is where it is reached (`host:port`), empty where it has no port; it matters only when
    it is ready. `why` says in a line what holds it back, as the probe told it. `ports` are the
    addresses of its further ports, by name.
    """

    lease_id: LeaseId
    state: str
    address: str = ""
    why: str = ""
    ports: tuple[tuple[str, str], ...] = ()


class Sample(Struct, frozen=True, array_like=True, gc=False):
    """What a replica took, and what it answered, over the last few seconds before `ago_ms`.

    `requests_per_s` and `latency_ms` come from the metrics that the function itself offers; None
    where it offers none, is not scraped, or could not be read: then `problem` says why.
    """

    lease_id: LeaseId
    cpu_milli: int
    memory_bytes: int
    requests_per_s: float | None = None
    latency_ms: float | None = None
    ago_ms: int = 0
    problem: str = ""


class PartitionClaim(Struct, frozen=True, array_like=True, gc=False):
    """How one partition of a data grid stands, as one member of it sees it. An empty `leader`:
    none."""

    name: str
    members: int
    ready: int
    leader: str = ""


class PartitionNews(Struct, frozen=True, array_like=True):
    """What a replica answered when it was asked `ago_ms` ago about its partitions. It is asked
    again within `turn_ms`. Where it could not be asked, or its answer not be read, `problem` says
    why and nothing else is told."""

    lease_id: LeaseId
    claims: tuple[PartitionClaim, ...] = ()
    turn_ms: int = 0
    ago_ms: int = 0
    problem: str = ""


TEXT_MAX: Final = 4_096
LARGEST: Final = 2**53
PARTITIONS_MAX: Final = 1_000
PARTITION_NAME_MAX: Final = 253
MEMBERS_MAX: Final = 10_000
TURN_MS_MAX: Final = 10**12


def claims_problem(claims: Iterable[PartitionClaim]) -> str:
    """What cannot be said of partitions, in words; empty where all of it can be true."""
    names: set[str] = set()
    for claim in claims:
        if not claim.name:
            return "a partition without a name"
        if max(len(claim.name), len(claim.leader)) > PARTITION_NAME_MAX:
            return f"a name of more than {PARTITION_NAME_MAX} signs"
        if not (claim.name + claim.leader).isprintable():
            return f"a name that cannot be printed: {claim.name[:60]!r}"
        if claim.name in names:
            return f"partition {claim.name} is told of twice"
        names.add(claim.name)
        if not 0 <= claim.ready <= claim.members <= MEMBERS_MAX:
            return f"partition {claim.name}: {claim.ready} of {claim.members} ready"
    if len(names) > PARTITIONS_MAX:
        return f"{len(names)} partitions are more than {PARTITIONS_MAX}"
    return ""


def partitions_problem(told: Iterable[PartitionNews]) -> str:
    """What no worker can honestly say, in words; empty where all of it can be true."""
    for news in told:
        if problem := claims_problem(news.claims):
            return f"partitions: {problem}"
        if not (0 <= news.turn_ms <= TURN_MS_MAX and 0 <= news.ago_ms <= LARGEST):
            return "partitions: a number here is negative, or larger than anything is"
        if len(news.problem) > TEXT_MAX:
            return f"partitions: more than {TEXT_MAX} characters about one replica"
    return ""


def servicing_problem(services: Iterable[ServiceNews], samples: Iterable[Sample]) -> str:
    """What no worker can honestly say, in words; empty where all of it can be true."""
    for news in services:
        if news.state not in SERVICE_STATES:
            return f"services: a state {news.state[:20]!r}; there are {', '.join(SERVICE_STATES)}"
        texts = (news.address, news.why, *(text for pair in news.ports for text in pair))
        if sum(map(len, texts)) > TEXT_MAX:
            return f"services: more than {TEXT_MAX} characters about one replica"
    for sample in samples:
        rates = (sample.requests_per_s or 0.0, sample.latency_ms or 0.0)
        amounts = (sample.cpu_milli, sample.memory_bytes, sample.ago_ms, *rates)
        if not all(isfinite(amount) and 0 <= amount <= LARGEST for amount in amounts):
            return "samples: a number here is negative, or larger than anything is"
        if len(sample.problem) > TEXT_MAX:
            return f"samples: more than {TEXT_MAX} characters about one replica"
    return ""
