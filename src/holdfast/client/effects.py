"""What commits owe, as a program looks at it and decides about it."""

from typing import Final

from msgspec import Struct

from holdfast.client.remote_desk import RemoteDesk
from holdfast.wire.bodies import ChosenEffects
from holdfast.wire.wanted import WantedEffects

EFFECTS: Final = "/effects"
PAGE: Final = 1_000


class OwedEffect(Struct, frozen=True, kw_only=True):
    """Something a commit owes: an `effect` for a sink, a staged `file` or a `block`. `state` is
    READY, DELIVERING, WAITING or PARKED, and `why` says what holds it up."""

    id: str
    task: str
    kind: str
    place: str | None
    key: str | None
    state: str
    tries: int
    next_at: str | None
    error: str | None
    why: str | None
    position: int


class Page(Struct):
    effects: list[OwedEffect]
    next: str | None = None


class Settled(Struct):
    left: int
    retried: int = 0
    discarded: int = 0


class RemoteEffects(RemoteDesk):
    """Those of a server."""

    def all(self, wanted: WantedEffects) -> list[OwedEffect]:
        found: list[OwedEffect] = []
        query = {"sink": wanted.sink, "job": wanted.job, "kind": wanted.kind}
        query["state"] = ",".join(sorted(wanted.states))
        cursor: str | None = ""
        while cursor is not None:
            page = self._page(cursor, query)
            found += page.effects
            cursor = page.next
        return found

    def _page(self, cursor: str, query: dict[str, str]) -> Page:
        path = f"/api/v1{EFFECTS}"
        told: Page = self._asked(
            lambda: self._http.get(path, Page, limit=PAGE, cursor=cursor, **query)
        )
        return told

    def retry(self, chosen: ChosenEffects) -> int:
        return self._settle("retry", chosen)

    def discard(self, chosen: ChosenEffects) -> int:
        return self._settle("discard", chosen)

    def _settle(self, verb: str, chosen: ChosenEffects) -> int:
        count, left = 0, 1
        while left:
            told: Settled = self._post(f"{EFFECTS}/{verb}", chosen, Settled)
            count, left = count + told.retried + told.discarded, told.left
        return count
