"""How the partitions of a data grid stand, from what its replicas told their workers of late."""

from collections.abc import Iterable, Iterator
from typing import Final

from holdfast.coordinator.reconciling.replicas import Stood
from holdfast.coordinator.servicing import Servicing
from holdfast.core.ids import Instant
from holdfast.runtimes.observed import NOBODY_TELLS
from holdfast.runtimes.partitions import Member, Picture, lasting_ms, pictured
from holdfast.runtimes.workload import Workload

NOT_ASKED: Final = Picture(None, NOBODY_TELLS)


class Grids:
    def __init__(self, servicing: Servicing) -> None:
        self._servicing = servicing

    def seen(self, workload: Workload, replicas: Iterable[Stood], now: Instant) -> Picture:
        check = workload.partition_check
        if check is None:
            return NOT_ASKED
        lasts_ms = lasting_ms(max(check.period_ms, check.timeout_ms))
        return pictured(self._members(replicas, now), lasts_ms=lasts_ms, now=now)

    def _members(self, replicas: Iterable[Stood], now: Instant) -> Iterator[Member]:
        for replica in replicas:
            standing = self._servicing.standing(replica.lease_id)
            heard = self._servicing.grid_views.heard(replica.lease_id)
            yield Member(
                name=replica.name,
                is_ready=replica.is_ready,
                # Of one that is ready by the record alone its worker has to tell first.
                ready_since=now if standing is None else standing.since,
                view=heard.view,
                problem=heard.problem,
            )
