"""What hangs, as a program looks at it and decides about it."""

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from holdfast.wire.bodies import ChosenStalls
from holdfast.wire.http import Http

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


class RemoteStalls:
    """Those of a server. `asked` has a question answered, or its refusal raised; `post` carries a
    key, so that it may be repeated."""

    def __init__(
        self, http: Http, asked: Callable[[Callable[[], Any]], Any], post: Callable[..., Any]
    ) -> None:
        self._http = http
        self._asked = asked
        self._post = post

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
