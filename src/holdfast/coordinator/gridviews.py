"""What members of data grids told of their partitions, by the lease of each.

Kept in memory and safe to lose: after a restart every member tells again within a turn, and every
leader counts as new.
"""

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.ids import Instant, LeaseId
from holdfast.runtimes.partitions import Claim, View, followed, lasting_ms
from holdfast.wire.servicing import PartitionNews


class Heard(Struct, frozen=True):
    """The last that a member told and that could be read; `problem` is why what it was asked since
    came to nothing."""

    view: View | None = None
    problem: str = ""


NOTHING_HEARD = Heard()


class GridViews:
    def __init__(self) -> None:
        self._heard: dict[LeaseId, Heard] = {}

    def take(self, news: PartitionNews, now: Instant) -> bool:
        """A member was asked. False where that says nothing new, but that it is so still."""
        before = self.heard(news.lease_id)
        if news.problem:
            self._heard[news.lease_id] = replace(before, problem=news.problem)
            return before.problem != news.problem
        claims = tuple(
            Claim(each.name, each.members, each.ready, each.leader) for each in news.claims
        )
        at = Instant(max(now - news.ago_ms, 1))
        view = followed(before.view, claims, at=at, lasts_ms=lasting_ms(news.turn_ms))
        self._heard[news.lease_id] = Heard(view)
        return before.view is None or bool(before.problem) or before.view.claims != claims

    def heard(self, lease_id: LeaseId) -> Heard:
        return self._heard.get(lease_id, NOTHING_HEARD)

    def forget(self, lease_id: LeaseId) -> None:
        self._heard.pop(lease_id, None)
