"""What workers say about the services they run: how each stands, and what it takes.

Both are told under the lease of the replica, and neither is history: a coordinator that was started
again has forgotten them and asks. Only where a ready replica is reached is recorded, as an endpoint
under its lease.
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


TEXT_MAX: Final = 4_096
LARGEST: Final = 2**53


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
