"""What is known of a service beside its tasks: how its replicas have fared, and where.

A replica does not end when its work is done, because there is no such end. Whenever it ends by
itself it is begun again, later each time, and out of a budget that refills with time: it may fail
now and then for ever, and not again and again for long.
"""

from typing import Final

from msgspec import Struct

from holdfast.core.ids import NEVER, Index, Instant, JobId, WorkerId
from holdfast.core.spec import JobSpec, ServicePolicy

FALLS: Final = 3
FALLS_MS: Final = 600_000
"""Where replicas of a service ended by themselves so often in so long, no more of it is begun as
long as there is another place for it."""

Falls = dict[str, dict[WorkerId, tuple[Instant, ...]]]
"""By the name of a service: on which workers replicas ended by themselves, and when, the last few
times."""


class Replica(Struct, array_like=True, gc=False):
    """How one replica has fared since it was last begun afresh. `restarts` counts the ends without
    a long run between them, `total` all of them; its budget is whole again at `whole_at`."""

    restarts: int = 0
    total: int = 0
    whole_at: Instant = NEVER


class Service(Struct, array_like=True):
    """The replicas of a job that ended by themselves before, by their places in it."""

    job_id: JobId
    replicas: dict[Index, Replica] = {}


class Charge(Struct, frozen=True, gc=False):
    """What an end costs: it is the `restarts`-th in a row, the replica waits for `delay_ms`, and
    its budget is whole again in `whole_in_ms`."""

    restarts: int
    delay_ms: int
    whole_in_ms: int


def service_name(spec: JobSpec) -> str:
    """The name that a service is reached under, whichever of its jobs a replica is of."""
    return spec.service.endpoint or spec.name


def charge(policy: ServicePolicy, known: Replica | None, ran_ms: int, now: Instant) -> Charge:
    """What it costs that a replica ended by itself after so long."""
    before = Replica() if known is None else known
    row = 1 if ran_ms >= policy.steady_ms else before.restarts + 1
    # The exponent is bounded because the delay is, and long before it.
    longest_ms = max(policy.max_delay_ms, policy.delay_ms)
    delay_ms = min(policy.delay_ms * 2 ** min(row - 1, 40), longest_ms)
    whole_at = max(before.whole_at, now) + policy.refill_ms
    return Charge(row, delay_ms, whole_at - now)


def is_overdrawn(policy: ServicePolicy, whole_in_ms: int) -> bool:
    """Whether so much is owed to the budget that it would be more than all of it."""
    return whole_in_ms > policy.restarts * policy.refill_ms


def used(policy: ServicePolicy, replica: Replica, now: Instant) -> int:
    """How many restarts of the budget are in use; each comes back after a while."""
    return -(-max(0, replica.whole_at - now) // policy.refill_ms)


def note_fall(falls: Falls, name: str, worker: WorkerId, at: Instant) -> None:
    """A replica of this service ended by itself there. What lies too far back is let go of, of
    every service: most of them never fall again."""
    known = falls.setdefault(name, {})
    known[worker] = (*known.get(worker, ()), at)[-FALLS:]
    since = at - FALLS_MS
    for other, workers in list(falls.items()):
        for gone in [there for there, ends in workers.items() if ends[-1] <= since]:
            del workers[gone]
        if not workers:
            del falls[other]


def shunned(falls: Falls, name: str, now: Instant) -> frozenset[WorkerId]:
    """The workers where it ended by itself too often of late."""
    return frozenset(
        worker
        for worker, ends in falls.get(name, {}).items()
        if len(ends) == FALLS and ends[0] > now - FALLS_MS
    )
