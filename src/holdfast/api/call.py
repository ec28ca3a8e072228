"""One request and its answer, without a word about the framework that carries them."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from msgspec import Struct

from holdfast.api.identity import Identity
from holdfast.api.problems import Declined
from holdfast.api.service import Service
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.inspect import HistoryGone
from holdfast.core import commands as c
from holdfast.core.decide.jobs import unknown
from holdfast.core.decision import Decision, Refused, Repeated
from holdfast.core.events import AnyEvent
from holdfast.core.ids import JobId
from holdfast.core.job import Job
from holdfast.core.state import State

T = TypeVar("T")


class Answer(Struct, frozen=True):
    """What is told. `tagged`: it gets an ETag, and a client that has it already is told so."""

    value: Any = None
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    tagged: bool = False


class Stream(Struct, frozen=True):
    """An answer in pieces: until somebody has had enough, or until there is no more."""

    content_type: str
    chunks: AsyncGenerator[bytes, None]
    headers: tuple[tuple[str, str], ...] = ()


class Text(Struct, frozen=True):
    """An answer for programs and people that speak neither JSON nor msgpack."""

    content_type: str
    text: str


class Raw(Struct, frozen=True):
    """An answer that is bytes, and what is to be known about them in headers."""

    content: bytes
    headers: tuple[tuple[str, str], ...] = ()


Answered = Answer | Stream | Text | Raw


class Done(Struct, frozen=True):
    """An accepted command: what it made true, now or when it was asked first."""

    events: tuple[AnyEvent, ...]
    answer: Any
    repeated: bool = False

    def find(self, kind: type[T]) -> T | None:
        return next((event for event in self.events if isinstance(event, kind)), None)


async def nothing() -> AsyncGenerator[bytes, None]:
    """An answer without a byte in it."""
    none: tuple[bytes, ...] = ()
    for chunk in none:
        yield chunk


class _Nothing(AsyncIterator[bytes]):
    async def __anext__(self) -> bytes:
        raise StopAsyncIteration


NOTHING: Final = _Nothing()
"""The body of a request that has none, or whose body was read before."""


async def forever() -> None:
    """For whoever cannot go away."""
    await asyncio.Event().wait()


def never(do: Callable[[], None]) -> None:
    """For the same."""


class Call(Struct):
    """A request as the functions of this room see it.

    `key` and `digest` name it where it may be repeated. `gone` returns when the asker has left,
    and `when_left` has something done in that moment.
    `body` is what `content` says, where the route takes one; `chunks` is the body of a route that
    takes it raw, as it comes.
    """

    service: Service
    identity: Identity
    path: Mapping[str, str] = {}
    query: Mapping[str, list[str]] = {}
    headers: Mapping[str, str] = {}
    content: bytes = b""
    body: Any = None
    key: str = ""
    digest: bytes = b""
    gone: Callable[[], Awaitable[None]] = forever
    when_left: Callable[[Callable[[], None]], None] = never
    chunks: AsyncIterator[bytes] = NOTHING

    def one(self, name: str, otherwise: str = "") -> str:
        """A value of the query that is given once, or not at all."""
        values = self.query.get(name, [])
        if len(values) > 1:
            raise Declined("invalid", f"`{name}` is given {len(values)} times")
        return values[0] if values else otherwise

    def flag(self, name: str) -> bool:
        """A value of the query that is true or false, and false where it is not given."""
        text = self.one(name)
        if text not in ("", "true", "false"):
            raise Declined("invalid", f"{name}={text[:40]!r} is neither true nor false")
        return text == "true"

    def number(self, name: str, otherwise: int, *, most: int) -> int:
        text = self.one(name)
        if not text:
            return otherwise
        if not (text.isascii() and text.isdigit() and len(text) <= 18):
            raise Declined("invalid", f"{name}={text[:40]!r} is not a whole number")
        return min(int(text), most)

    @property
    def strict(self) -> bool:
        """Whether whoever asks wants to be told of a repeat (RFC 7240)."""
        wishes = self.headers.get("prefer", "").lower().replace('"', "").split(",")
        return "handling=strict" in [w.partition(";")[0].strip() for w in wishes] or (
            self.flag("strict")
        )

    def keying(self) -> dict[str, Any]:
        """What makes a command the same request when it comes again."""
        return {"request_key": self.key, "request_digest": self.digest} if self.key else {}

    def was_answered(self, coordinator: Coordinator) -> bool:
        """Whether the log has the answer to this request already: it is not judged again."""
        return bool(self.key) and self.key in coordinator.state.requests

    async def ask(self, question: Callable[[Coordinator], T]) -> T:
        """What the coordinator says, once all it saw is durable: a no waits for that too."""

        def ask(coordinator: Coordinator) -> T | Declined:
            try:
                return question(coordinator)
            except Declined as no:
                return no

        answer = await self.service.served.ask(ask)
        if isinstance(answer, Declined):
            raise answer
        return answer

    async def look(self, question: Callable[[State], T]) -> T:
        """What the state says, once that is durable."""
        return await self.ask(lambda coordinator: question(coordinator.state))

    async def execute(self, command: c.Command, *, reason: str = "") -> Done:
        """The outcome of a command, durable; `Declined` where it was refused."""
        return await self.found(await self.ask(lambda k: self.decide(k, command, reason=reason)))

    def decide(
        self,
        coordinator: Coordinator,
        command: c.Command,
        *,
        reason: str = "",
        request_id: str = "",
    ) -> Decision:
        """`request_id`: that of the operation it is part of, instead of its own."""
        strict = True if self.strict else None
        try:
            return coordinator.execute(
                command,
                actor=self.identity.actor,
                request_id=request_id or self.key,
                reason=reason,
                strict=strict,
            )
        except (OverflowError, TypeError, ValueError) as error:
            # A value that no log can hold harms nobody but its asker.
            if coordinator.failure is not None:
                raise
            raise Declined("invalid", f"a value cannot be recorded: {error}") from error

    async def found(self, decision: Decision) -> Done:
        if isinstance(decision, Refused):
            raise Declined(decision.code.value, decision.message)
        if not isinstance(decision.answer, Repeated):
            return Done(decision.events, decision.answer)
        try:
            record = await self.service.served.read(decision.answer.position)
        except HistoryGone as gone:
            raise Declined("gone", f"this request was answered before; {gone}") from gone
        return Done(record.events, None, repeated=True)


def job_of(state: State, job_id: str) -> Job:
    """The job a path names; `Declined` says why it is not there."""
    job = state.jobs.get(JobId(job_id))
    if job is None:
        refused = unknown(state, JobId(job_id))
        raise Declined(refused.code.value, refused.message)
    return job
