"""What is in quarantine, as a program looks at it and decides about it."""

from typing import Any, Final

from msgspec import Struct, convert

from holdfast.client.remote_desk import RemoteDesk
from holdfast.core.ids import Index, JobId
from holdfast.wire.bodies import ChosenCases, Force
from holdfast.wire.quarantine import WantedCases, joined_groups, query_of

PLACE: Final = "/quarantine"
PAGE: Final = 1_000


class QuarantinedTask(Struct, frozen=True, kw_only=True):
    """A task that waits for an operator. `reason` is failed, timeout, oom, worker_lost,
    unencodable, dependency, operator or unknown; what failed in the same way has the same
    `fingerprint`."""

    id: str
    job_id: str
    index: int
    name: str
    function: str
    reason: str
    fingerprint: str
    error: str
    attempts: int
    worker: str | None
    since: str | None
    position: int


class QuarantineGroup(Struct, frozen=True, kw_only=True):
    """Tasks that failed in the same way. `sample` is the one that did so last."""

    fingerprint: str
    reason: str
    error: str
    count: int
    jobs: int
    names: list[str]
    first_at: str | None
    last_at: str | None
    sample: str


class Page(Struct):
    tasks: list[QuarantinedTask]
    next: str | None = None


class GroupsPage(Struct):
    groups: list[dict[str, Any]]
    next: str | None = None


class Settled(Struct):
    more: bool
    retried: int = 0
    purged: int = 0


class Forced(Struct):
    moved: bool


class RemoteQuarantine(RemoteDesk):
    """That of a server."""

    def all(self, wanted: WantedCases) -> list[QuarantinedTask]:
        found: list[QuarantinedTask] = []
        cursor: str | None = ""
        while cursor is not None:
            page = self._page(PLACE, Page, cursor, wanted, limit=PAGE)
            found += page.tasks
            cursor = page.next
        return found

    def groups(self, wanted: WantedCases) -> list[QuarantineGroup]:
        parts: list[list[dict[str, Any]]] = []
        cursor: str | None = ""
        while cursor is not None:
            page = self._page(f"{PLACE}/groups", GroupsPage, cursor, wanted)
            parts.append(page.groups)
            cursor = page.next
        return convert(joined_groups(parts), list[QuarantineGroup])

    def _page(
        self, path: str, kind: type, cursor: str, wanted: WantedCases, **more: Any
    ) -> Any:
        query = {**query_of(wanted), **more}
        return self._asked(
            lambda: self._http.get(f"/api/v1{path}", kind, cursor=cursor, **query)
        )

    def retry(self, chosen: ChosenCases) -> int:
        return self._settle("retry", chosen)

    def purge(self, chosen: ChosenCases) -> int:
        return self._settle("purge", chosen)

    def _settle(self, verb: str, chosen: ChosenCases) -> int:
        count = 0
        while True:
            told: Settled = self._post(f"{PLACE}/{verb}", chosen, Settled)
            count += told.retried + told.purged
            if not told.more or chosen.canary or not told.retried + told.purged:
                return count

    def force(self, job_id: JobId, index: Index, target: str, reason: str) -> bool:
        body = Force(to=target, reason=reason)
        told: Forced = self._post(f"/tasks/{job_id}/{index}/force", body, Forced)
        return told.moved
