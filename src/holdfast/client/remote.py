"""A coordinator behind a server: the same questions, asked over HTTP.

Every request that changes something carries a key of its own, so it may be repeated while the
server is away: what was done already is not done twice.
"""

import os
import re
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct

from holdfast.client.backend import Decode, Fed, Found
from holdfast.client.bundles import Bundle, upload
from holdfast.client.desks_remote import RemoteDesks
from holdfast.client.errors import Closed, NotAllowed, Refused, ResultLost, refused
from holdfast.client.feed import JobFeed
from holdfast.client.fetched import FetchedOutcomes
from holdfast.client.foreseen import Foreseen
from holdfast.client.health import Health
from holdfast.client.streams import Streams
from holdfast.core.commands import SubmitJob
from holdfast.core.ids import NOWHERE, Index, Instant, JobId, Position
from holdfast.core.transactions import Action, Transaction
from holdfast.wire import bodies
from holdfast.wire.http import AnyBody, Http, Rejected, Server
from holdfast.wire.output import Output
from holdfast.wire.specs import body_of, instant_of
from holdfast.wire.watching import spans_of
from holdfast.wire.wishes import afters_told

T = TypeVar("T")

API: Final = "/api/v1"
SILENCE_S: Final = 10.0
"""A server seals a job whose feeder says nothing for a minute; a sign of life may be lost."""

TRANSACTIONS_A_PAGE: Final = 1_000
DAMAGED: Final = "damaged"

REFUSED: Final = re.compile(r'^holdfast_refus\w*_total\{.*?code="(\w+)".*?\} (\S+)$', re.MULTILINE)
"""How often something was refused, among what a server measures."""


class Spec(Struct):
    """What a job's tasks run, as a server tells it."""

    kind: str
    target: str


class JobShown(Struct):
    """A job, as a server tells it; it may tell more than we know."""

    id: str
    state: str
    tasks: int
    sealed: bool
    spec: Spec
    reason: str | None = None
    digest: str | None = None


class Stopped(Struct):
    stopped: int


class Retried(Struct):
    retried: int


class Resumed(Struct):
    was: str | None


class Told(Struct):
    outcomes: list[bodies.Outcome]


class TransactionShown(Struct):
    """A transaction, as a server tells it. What only its memory has, such as that a worker came,
    has no position."""

    position: int | None
    time: str
    command: str
    actor: str
    request_id: str
    reason: str
    events: list[Any]
    actions: list[Action]


class AttemptShown(Struct):
    attempt: int


class TaskShown(Struct):
    attempts: list[AttemptShown]


class Transactions(Struct):
    transactions: list[TransactionShown]
    next: str | None = None


class Remote(RemoteDesks):
    """A connection to a server. Threads and sockets come with the first question."""

    def __init__(self, server: Server, *, patience_s: float) -> None:
        self.closed = False
        self._server = server
        self._owner_pid = os.getpid()
        self._patience_s = patience_s
        self._http = Http(server, patience_s=patience_s)
        self._streams = Streams(self._http, f"{API}/watch", patience_s, self._told)
        super().__init__(self._http, self._asked, self._post)

    @property
    def silence_s(self) -> float | None:
        return SILENCE_S

    def describe(self) -> str:
        return f"{self._server.url} closed" if self.closed else self._server.url

    # Work.

    def submit(self, request: SubmitJob, *, must_fit: bool = False) -> JobFeed:
        self.check_open()
        with self._streams.expecting() as expected:
            body = _body(request)
            body.must_fit = must_fit
            body.watch = expected.name
            job = self._post("/jobs", body, JobShown)
            # Under a key it may be an old job; who may not watch at all learns that by waiting.
            if request.key and expected.name:
                return expected.was_found(JobId(job.id))
            return expected.began(JobId(job.id), job.tasks, sealed=job.sealed)

    def foresee(self, request: SubmitJob, *, must_fit: bool = False) -> Foreseen:
        body = _body(request)
        body.must_fit = must_fit
        path = f"{API}/jobs"
        return self._asked(lambda: self._http.post(path, body, Foreseen, dry_run="true"))

    def health(self) -> Health:
        found: Health = self._asked(lambda: self._http.get("/api/v1/doctor", Health))
        return found

    def bundle(self, folder: str | os.PathLike[str]) -> Bundle:
        return self._asked(lambda: upload(self._http, folder))

    def find(self, job_id: JobId) -> Found:
        job = self._show(job_id)
        return Found(self._streams.watch(job_id), job.spec.kind, job.spec.target)

    def state_of(self, job_id: JobId) -> str:
        return self._show(job_id).state

    def fed(self, job_id: JobId) -> Fed:
        job = self._show(job_id)
        stopped = job.reason not in (None, "interrupted", "quarantined")
        return Fed(job.tasks, bytes.fromhex(job.digest or ""), job.sealed, stopped)

    def add_items(self, job_id: JobId, first: int, items: tuple[bytes, ...], digest: bytes) -> None:
        body = bodies.Items(first=first, items=list(items), digest=digest)
        self._post(f"{_job(job_id)}/items", body, dict)

    def seal(self, job_id: JobId, count: int, *, interrupted: bool) -> None:
        body = bodies.Seal(count=count, interrupted=interrupted)
        self._post(f"{_job(job_id)}/seal", body, dict)

    def still_feeding(self, job_id: JobId) -> None:
        self._post(f"{_job(job_id)}/alive", None, dict)

    def cancel_job(self, job_id: JobId, reason: str) -> bool:
        body = bodies.Reason(reason=reason)
        stopped = self._post(f"{_job(job_id)}/cancel", body, Stopped).stopped
        self._streams.catch_up(job_id)
        return stopped > 0

    def cancel_task(self, job_id: JobId, index: Index, reason: str) -> bool:
        body = bodies.Reason(reason=reason)
        stopped = self._post(f"{_task(job_id, index)}/cancel", body, Stopped).stopped
        self._streams.catch_up(job_id)
        return stopped > 0

    def retry(self, job_id: JobId, indices: tuple[Index, ...], edits: bodies.Edits | None) -> int:
        body = bodies.Retries(indices=list(indices), set=edits)
        retried = self._post(f"{_job(job_id)}/retry", body, Retried).retried
        self._streams.catch_up(job_id)
        return retried

    def reschedule(
        self, job_id: JobId, index: Index, *, delay_ms: int, not_before_wall: int
    ) -> None:
        body = bodies.Reschedule(delay=_span(delay_ms), not_before=_instant(not_before_wall))
        self._post(f"{_task(job_id, index)}/reschedule", body, dict)

    # What became of it.

    def outcomes(
        self, feed: JobFeed, decode: Decode, *, return_exceptions: bool = False
    ) -> FetchedOutcomes:
        fetch = partial(self._outcomes, feed.job_id)
        read = partial(self._result, feed.job_id)
        return FetchedOutcomes(fetch, read, feed, decode, return_exceptions=return_exceptions)

    def _result(self, job_id: JobId, index: int) -> bytes:
        path = f"{API}{_task(job_id, Index(index))}/result"
        return self._asked(lambda: self._http.fetch(path))

    def _outcomes(self, job_id: JobId, indices: Sequence[int]) -> list[bodies.Outcome]:
        while True:
            chosen = ",".join(
                f"{first}-{last}" if last > first else str(first)
                for first, last in spans_of(indices)
            )
            try:
                return self._get(f"{_job(job_id)}/outcomes", Told, indices=chosen).outcomes
            except Refused as no:
                if no.code != "too_large" or len(indices) < 2:
                    raise
                indices = indices[: len(indices) // 2]

    def attempts_of(self, job_id: JobId, index: Index) -> int:
        told = self._get(_task(job_id, index), TaskShown)
        return max((each.attempt for each in told.attempts), default=0)

    def output(
        self, job_id: JobId, index: Index, attempt: int, stream: str, offset: int
    ) -> Output:
        path = f"/logs/{quote(job_id, safe='')}/{index}/{attempt}/{stream}"
        return self._get(path, Output, offset=offset)

    def transactions(self, limit: int) -> list[Transaction]:
        """Events come as plain values under their names, and their time is that of the wall
        clock. One without a position is not in the log: a worker that came, say."""
        return [
            Transaction(
                Position(told.position or NOWHERE),
                Instant(instant_of(told.time, "time")),
                told.command,
                told.actor,
                told.request_id,
                told.reason,
                tuple(told.events),
                tuple(told.actions),
            )
            for told in self._newest(limit)
        ]

    def _newest(self, limit: int) -> list[TransactionShown]:
        """So many, the newest last, asked for page by page from the newest on."""
        found: list[TransactionShown] = []
        cursor: str | None = ""
        while cursor is not None and len(found) < limit:
            part = min(limit - len(found), TRANSACTIONS_A_PAGE)
            told = self._get("/transactions", Transactions, limit=part, cursor=cursor)
            found, cursor = told.transactions + found, told.next
        return found[-limit:] if limit > 0 else []

    def refusals(self) -> dict[str, int]:
        text = self._asked(lambda: self._http.text(f"{API}/metrics"))
        return {code: int(float(number)) for code, number in REFUSED.findall(text)}

    def resume(self, reason: str) -> bool:
        body = bodies.Reason(reason=reason)
        return self._post("/log/resume", body, Resumed).was is not None

    # Whether it may be asked, and the end of it.

    def is_foreign(self) -> bool:
        return os.getpid() != self._owner_pid

    def check_open(self) -> None:
        if self.is_foreign():
            raise Closed(
                f"{self._server.url} was connected to by process {self._owner_pid}; a forked copy "
                "cannot use that connection. Call holdfast.connect() in this process."
            )
        if self.closed:
            raise self._closed()

    def check_waitable(self, ended: str) -> None:
        if not ended or self.is_foreign():
            self.check_open()
            self._streams.revive()

    def close(self, grace_ms: int) -> None:
        """Let the server go. What was submitted goes on there."""
        if self.closed or self.is_foreign():
            return
        self.closed = True
        self._http.close()
        self._streams.close(self._closed())

    def _closed(self) -> Closed:
        return Closed(f"the connection to {self._server.url} was closed; connect again to go on")

    # How it is asked.

    def _show(self, job_id: JobId) -> JobShown:
        return self._get(_job(job_id), JobShown)

    def _get(self, path: str, kind: type[T], **query: Any) -> T:
        return self._asked(lambda: self._http.get(API + path, kind, **query))

    def _post(self, path: str, body: AnyBody | None, kind: type[T]) -> T:
        key = uuid.uuid4().hex
        return self._asked(lambda: self._http.post(API + path, body, kind, key=key))

    def _asked(self, ask: Callable[[], T]) -> T:
        """The answer; what the server says no to is raised."""
        self.check_open()
        try:
            return ask()
        except Rejected as no:
            raise self._told(no) from None
        except msgspec.MsgspecError as error:
            told = f"{self._server.url} answered something else than Holdfast would: {error}"
            raise Refused("unknown", told) from error
        except RuntimeError:
            if self.closed:
                raise self._closed() from None
            raise

    def _told(self, no: Rejected) -> Exception:
        """A problem that the server told, as what a program would catch."""
        problem = no.problem
        detail = problem.detail or problem.title
        if problem.code == DAMAGED:
            return ResultLost(detail)
        if problem.status not in (401, 403):
            return refused(problem.code, detail)
        what = "did not accept the token" if problem.status == 401 else "does not allow this"
        return NotAllowed(
            problem.code,
            f"{self._server.url} {what}: {detail}. The token is the one given to connect() as "
            "token or token_file, else HOLDFAST_TOKEN, else the file HOLDFAST_TOKEN_FILE names, "
            "else the file that `holdfast serve` wrote for this user.",
        )


def _body(request: SubmitJob) -> bodies.Submit:
    body = body_of(request.spec)
    body.items = list(request.items)
    body.count = 0 if request.items else request.count
    body.shared = request.shared
    body.sealed = request.sealed
    body.key = request.key
    body.digest = request.digest
    body.delay = _span(request.delay_ms)
    body.not_before = _instant(request.not_before_wall)
    body.deadline = _instant(request.deadline_wall)
    body.after = afters_told(request.after)
    body.on_failed_parent = request.fate
    body.parent, body.detached = request.parent, request.detached
    body.unique_for = _span(request.unique_for_ms)
    body.existing = request.existing
    return body


def _job(job_id: JobId) -> str:
    if not job_id:
        raise Refused("not_found", "there is no job without a name")
    return f"/jobs/{quote(job_id, safe='')}"


def _task(job_id: JobId, index: Index) -> str:
    return f"/tasks/{quote(job_id, safe='')}/{index}"


def _span(ms: int) -> str:
    return f"{ms}ms" if ms else ""


def _instant(wall_ms: int) -> str:
    if not wall_ms:
        return ""
    try:
        return datetime.fromtimestamp(wall_ms / 1_000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError):
        raise Refused("invalid", "that instant is beyond the calendar") from None
