"""What hangs, as a program looks at it and decides about it."""

from typing import Final

from msgspec import Struct

from holdfast.client.remote_desk import RemoteDesk
from holdfast.wire.bodies import ChosenStalls

STALLS: Final = "/stalls"
PAGE: Final = 1_000


class StallFound(Struct, frozen=True, kw_only=True):
    """Something that hangs: an attempt (`12/3:2`), a job or an effect. `kind` is `lease_age`,
    `no_progress`, `capacity_free`, `dependency_deadlock` or `sink_stuck`. Only a `recoverable` one
    can be approved; `command` is what to type about it."""

    id: str
    kind: str
    job_id: str
    task: str | None
    worker: str | None
    since: str
    age_ms: int
    why: str
    recoverable: bool
    command: str


class Approved(Struct, frozen=True):
    """What became of an approval: `recovered`, `moved_on`, `not_stalled` or `not_recoverable`."""

    id: str
    outcome: str
    command: str = ""


class Page(Struct):
    stalls: list[StallFound]
    next: str | None = None


class Approvals(Struct):
    stalls: list[Approved]


class RemoteStalls(RemoteDesk):
    """Those of a server."""

    def all(self) -> list[StallFound]:
        found: list[StallFound] = []
        cursor: str | None = ""
        while cursor is not None:
            page = self._page(cursor)
            found += page.stalls
            cursor = page.next
        return found

    def _page(self, cursor: str) -> Page:
        path = f"/api/v1{STALLS}"
        told: Page = self._asked(
            lambda: self._http.get(path, Page, limit=PAGE, cursor=cursor or None)
        )
        return told

    def approve(self, chosen: ChosenStalls) -> list[Approved]:
        told: Approvals = self._post(f"{STALLS}/approve", chosen, Approvals)
        return told.stalls
