"""Looking at a server: the same views as a folder gives, asked for over HTTP."""

import time
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from holdfast.cli.asking import Asker
from holdfast.cli.audit_servers import ServerAudit
from holdfast.cli.errors import NOT_FOUND, Trouble
from holdfast.cli.output import View
from holdfast.cli.server_runtimes import ServerRuntimes
from holdfast.cli.server_wards import ServerWard
from holdfast.cli.shelves import PIECE_BYTES, STREAMS_A_PAGE, Place, Shelf
from holdfast.cli.sources import (
    LAST,
    Found,
    ambiguous,
    no_effect,
    no_operation,
    no_schedule,
    no_worker,
)
from holdfast.core.owed import DebtName
from holdfast.wire.http import Rejected
from holdfast.wire.output import Output
from holdfast.wire.wanted import Wanted, WantedEffects

PAGE: Final = 1_000


class FromServer:
    """A server as it is now."""

    def __init__(self, asker: Asker) -> None:
        self.asker = asker

    @property
    def place(self) -> str:
        return f"at {self.asker.url}"

    @property
    def options(self) -> str:
        return self.asker.options

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def refresh(self) -> None:
        """Every answer of a server is of now."""

    def jobs(self, wanted: Wanted, limit: int = 0) -> Found:
        pages = self._pages(
            "jobs",
            limit,
            "jobs",
            state=",".join(sorted(wanted.states)),
            name=wanted.name,
            namespace=wanted.namespace,
            queue=wanted.queue,
            label=[f"{key}={value}" for key, value in wanted.labels],
        )
        return _first(pages, limit)

    def why_empty(self) -> str:
        if self._newest() is not None:
            return f"no such jobs {self.place}; `holdfast job list{self.options}` has all"
        return f"no jobs {self.place} yet; `holdfast submit{self.options} -- echo hello` makes one"

    def job(self, text: str) -> View:
        if text == LAST:
            newest = self._newest()
            if newest is None:
                raise Trouble(
                    f"there is no job {self.place} yet. "
                    f"`holdfast submit{self.options} -- echo hello` makes one.",
                    NOT_FOUND,
                )
            return self.asker.get("jobs", newest["id"])
        try:
            return self.asker.get("jobs", text)
        except Rejected as no:
            if no.problem.code != "not_found":
                raise
        # A number is a whole name: 1 must never come to mean 17.
        names = [] if not text or text.isdigit() else self._beginning(text)
        if len(names) == 1:
            return self.asker.get("jobs", names[0])
        if names:
            raise ambiguous(text, names)
        raise Trouble(
            f"there is no job {text} {self.place}. `holdfast job list{self.options}` lists what "
            "there is.",
            NOT_FOUND,
        )

    def await_end(self, job: View, wait_s: float) -> View:
        return self.asker.get("jobs", job["id"], wait=f"{round(wait_s * 1_000)}ms")

    def shelf(self, *, follows: bool) -> Shelf:
        return ServerShelf(self.asker)

    def _newest(self) -> View | None:
        found = self.jobs(Wanted(), 1).views
        return found[0] if found else None

    def _beginning(self, text: str) -> list[str]:
        ids = (view["id"] for view in self._pages("jobs", 0, "jobs"))
        return [name for name in ids if name.startswith(text)]

    def tasks(
        self, job: View, indices: Sequence[int], states: frozenset[str], limit: int = 0
    ) -> Found:
        wanted = set(indices)
        first, last = (indices[0], indices[-1]) if indices else (0, -1)
        state = ",".join(sorted(states))
        pages = self._pages(
            "tasks", limit, "jobs", job["id"], "tasks", state=state, cursor=first or None
        )
        chosen = (view for view in _until(pages, last) if view["index"] in wanted)
        return _first(chosen, limit)

    def task(self, job: View, index: int) -> View:
        return self.asker.get("tasks", job["id"], index)

    @property
    def ward(self) -> ServerWard:
        return ServerWard(self.asker)

    def effects(self, wanted: WantedEffects, limit: int = 0) -> Found:
        pages = self._pages(
            "effects",
            limit,
            "effects",
            state=",".join(sorted(wanted.states)),
            sink=wanted.sink,
            job=wanted.job,
            kind=wanted.kind,
        )
        return _first(pages, limit)

    def effect(self, name: DebtName) -> View:
        try:
            return self.asker.get("effects", name.job_id, f"{name.index}.{name.number}")
        except Rejected as no:
            if no.problem.code != "not_found":
                raise
        raise no_effect(name, self)

    def history(self, job: View, index: int) -> View:
        return self.asker.get("tasks", job["id"], index, "history")

    def explain_job(self, job: View, level: int = 1) -> View:
        return self.asker.get("jobs", job["id"], "explain", level=level)

    def explain_task(self, job: View, index: int, level: int = 1) -> View:
        return self.asker.get("tasks", job["id"], index, "explain", level=level)

    def summary(self) -> View:
        return self.asker.get("explain", "summary")

    def schedules(self, namespace: str) -> list[View]:
        found: list[View] = self.asker.get("schedules", namespace=namespace)["schedules"]
        return found

    def schedule(self, name: str) -> View:
        try:
            return self.asker.get("schedules", name)
        except Rejected as no:
            raise self._unknown(name, no) from None

    def coming(self, name: str, count: int) -> list[str]:
        try:
            found: list[str] = self.asker.get("schedules", name, "next", count=count)["coming"]
        except Rejected as no:
            raise self._unknown(name, no) from None
        return found

    def _unknown(self, name: str, no: Rejected) -> Exception:
        if no.problem.code != "not_found":
            return no
        return no_schedule(name, self)

    def operations(self) -> list[View]:
        found: list[View] = self.asker.get("operations")["operations"]
        return found

    def operation(self, name: str) -> View:
        try:
            return self.asker.get("operations", name)
        except Rejected as no:
            if no.problem.code != "not_found":
                raise
        raise no_operation(name, self)

    def stalls(self, patience_ms: int) -> list[View]:
        """The server has a time of its own after which something hangs."""
        return list(self._pages("stalls", 0, "stalls"))

    def circuits(self) -> list[View]:
        found: list[View] = self.asker.get("circuits")["circuits"]
        return found

    def limits(self) -> list[View]:
        found: list[View] = self.asker.get("limits")["limits"]
        return found

    @property
    def runtimes(self) -> ServerRuntimes:
        return ServerRuntimes(self.asker)

    @property
    def audit(self) -> ServerAudit:
        return ServerAudit(self.asker)

    def workers(self) -> list[View]:
        found: list[View] = self.asker.get("workers")["workers"]
        return found

    def worker(self, name: str) -> View:
        try:
            return self.asker.get("workers", name)
        except Rejected as no:
            if no.problem.code != "not_found":
                raise
            raise no_worker(name, self) from None

    def queues(self) -> list[View]:
        found: list[View] = self.asker.get("queues")["queues"]
        return found

    def tokens(self) -> list[View]:
        found: list[View] = self.asker.get("tokens")["tokens"]
        return found

    def transactions(self, limit: int) -> list[View]:
        found: list[View] = []
        cursor: str | None = ""
        while cursor is not None and (not limit or len(found) < limit):
            part = min(limit - len(found), PAGE) if limit else PAGE
            told = self.asker.get("transactions", limit=part, cursor=cursor)
            found, cursor = told["transactions"] + found, told["next"]
        return found[-limit:] if limit else found

    def _pages(self, plural: str, limit: int, *path: object, **query: Any) -> Iterator[View]:
        """Everything there is, page after page."""
        page = min(limit + 1, PAGE) if limit else PAGE
        cursor = query.pop("cursor", None)
        while True:
            told = self.asker.get(*path, limit=page, cursor=cursor, **query)
            yield from told[plural]
            cursor = told["next"]
            if cursor is None:
                return


class ServerShelf:
    """What a server keeps."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    def read(self, place: Place, offset: int, wait_s: float = 0) -> Output:
        # A place is made of a known job and of numbers, so it needs no spelling out.
        path = f"/api/v1/logs/{place.job_id}/{place.index}/{place.attempt}/{place.stream}"
        wait = f"{round(wait_s * 1_000)}ms" if wait_s else ""
        return self._asker.http.get(path, Output, offset=offset, limit=PIECE_BYTES, wait=wait)

    def listed(self, job_id: str, first: int = 0) -> Iterator[tuple[Place, int]]:
        cursor: str | None = str(first)
        while cursor is not None:
            page = self._asker.get("jobs", job_id, "logs", cursor=cursor, limit=STREAMS_A_PAGE)
            for each in page["logs"]:
                place = Place(job_id, each["index"], each["attempt"], each["stream"])
                yield place, each["size"]
            cursor = page["next"]


def _until(views: Iterator[View], last: int) -> Iterator[View]:
    for view in views:
        if view["index"] > last:
            return
        yield view


def _first(views: Iterator[View], limit: int) -> Found:
    if not limit:
        every = list(views)
        return Found(every, len(every))
    found = list(islice(views, limit + 1))
    return Found(found[:limit], None if len(found) > limit else len(found))
