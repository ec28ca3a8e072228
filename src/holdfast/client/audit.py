"""Who did what and why, as a program is told; and answers to questions in SQL."""

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct, field

from holdfast.client.remote_desk import RemoteDesk
from holdfast.wire.bodies import Query
from holdfast.wire.wanted_entries import WantedEntries, query_of

PLACE: Final = "/api/v1/audit"
PAGE: Final = 1_000
ANSWER_S: Final = 660.0
"""A long history is read before a question about it is answered."""


class AuditEntry(Struct, frozen=True, kw_only=True):
    """A line of the audit trail: a move of a task, or whatever else a record did. What was refused
    has no `position`; it comes from notes beside the log that are safe to lose."""

    position: int | None
    at: str
    source: str
    action: str
    status: str
    command: str
    operator: str
    reason: str
    request_id: str
    job_id: str | None
    task_id: str | None
    from_state: str | None = field(name="from")
    to_state: str | None = field(name="to")
    metadata: dict[str, Any]


class AuditHead(Struct, frozen=True):
    """How far a log is durable, and the head of its chain there. As text it is what
    `holdfast audit verify --head` compares: keep it elsewhere."""

    log_id: str
    position: int
    head: str

    def __str__(self) -> str:
        return f"{self.position}:{self.head}"


class Answer(Struct, frozen=True):
    """What a question in SQL came to, at a position of the log. `complete`: nothing was left out.
    It goes through its rows as dicts."""

    columns: list[str]
    rows: list[list[Any]]
    complete: bool
    position: int
    at: str

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows)

    def __len__(self) -> int:
        return len(self.rows)


class Page(Struct):
    entries: list[AuditEntry]
    next: str | None = None


class RemoteAudit(RemoteDesk):
    """That of a server."""

    def entries(self, wanted: WantedEntries, limit: int) -> list[AuditEntry]:
        found: list[AuditEntry] = []
        cursor: str | None = ""
        while cursor is not None and (not limit or len(found) < limit):
            size = min(limit - len(found), PAGE) if limit else PAGE
            page = self._page(wanted, size, cursor)
            found, cursor = page.entries + found, page.next
        return found[-limit:] if limit else found

    def _page(self, wanted: WantedEntries, size: int, cursor: str) -> Page:
        query = query_of(wanted)
        page: Page = self._asked(
            lambda: self._http.get(PLACE, Page, limit=size, cursor=cursor, **query)
        )
        return page

    def head(self) -> AuditHead:
        found: AuditHead = self._asked(lambda: self._http.get(f"{PLACE}/head", AuditHead))
        return found

    def answer(self, question: Query) -> Answer:
        found: Answer = self._asked(
            lambda: self._http.post("/api/v1/query", question, Answer, answer_s=ANSWER_S)
        )
        return found
