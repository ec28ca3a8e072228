"""What a program asks of a coordinator, in one place: its own, or one behind a server.

Handles, feeders and the `Holdfast` itself know this and nothing more, so the same calls mean the
same thing wherever the coordinator runs. Whatever returns is durable.
"""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Protocol

from msgspec import Struct

from holdfast.client.audit import Answer, AuditEntry, AuditHead
from holdfast.client.bundles import Bundle
from holdfast.client.effects import OwedEffect
from holdfast.client.explained import Reasons
from holdfast.client.feed import JobFeed
from holdfast.client.foreseen import Foreseen
from holdfast.client.health import Health
from holdfast.client.limits import Limit
from holdfast.client.operations import Operation
from holdfast.client.quarantine import QuarantinedTask, QuarantineGroup
from holdfast.client.runtimes import KeptRuntimes
from holdfast.client.stalls import Approved, StallFound
from holdfast.core.commands import SubmitJob
from holdfast.core.ids import Index, JobId
from holdfast.core.schedule import Definition
from holdfast.core.transactions import Transaction
from holdfast.wire.bodies import ChosenCases, ChosenEffects, ChosenStalls, Edits, NewLimit, Query
from holdfast.wire.operations import NewOperation, Preview, Undo
from holdfast.wire.output import Output
from holdfast.wire.quarantine import WantedCases
from holdfast.wire.wanted import WantedEffects
from holdfast.wire.wanted_entries import WantedEntries

Decode = Callable[[bytes], Any]
View = dict[str, Any]


class Fed(Struct, frozen=True):
    """How far a job was fed. `digest` covers its items; a `stopped` one was told to take no
    more before all had come."""

    count: int
    digest: bytes
    sealed: bool
    stopped: bool


class Found(Struct, frozen=True):
    """A job that was submitted before, watched from now on, and what its tasks run."""

    feed: JobFeed
    kind: str
    target: str


class Outcomes(Protocol):
    """How tasks of one job ended, for one reader that goes through them."""

    def value(self, index: int, state: int, position: int) -> Any:
        """The result of a task, or the error it ended with, raised."""

    def holds(self, index: int, position: int) -> bool:
        """Whether `value` can tell without asking another machine."""

    def fetch(self, index: int, position: int) -> None:
        """Make it so that it can."""

    def expect(self, indices: Sequence[int], start: int, stop: int) -> None:
        """The reader is about to go through these places of `indices`."""


class Limits(Protocol):
    """The bounds that an operator set."""

    def all(self) -> list[Limit]: ...

    def set(self, scope: str, name: str, body: NewLimit) -> None: ...

    def clear(self, scope: str, name: str) -> bool:
        """False where there was none."""


class Schedules(Protocol):
    """Schedules of a coordinator: its own, or one behind a server. Refusals are raised as
    `Refused`, whatever returns is durable."""

    def set(self, name: str, definition: Definition, *, start: int, replace: bool) -> None: ...

    def show(self, name: str) -> View: ...

    def known(self) -> list[View]: ...

    def coming(self, name: str, count: int) -> list[str]: ...

    def pause(self, name: str, reason: str) -> None: ...

    def resume(self, name: str) -> None: ...

    def run(self, name: str) -> str: ...

    def backfill(self, name: str, first: int, last: int) -> list[str]: ...

    def delete(self, name: str) -> None: ...


class Effects(Protocol):
    """What commits owe."""

    def all(self, wanted: WantedEffects) -> list[OwedEffect]: ...

    def retry(self, chosen: ChosenEffects) -> int:
        """How many are tried again."""

    def discard(self, chosen: ChosenEffects) -> int:
        """How many were given up."""


class Operations(Protocol):
    """What is done to many by one request."""

    def preview(self, body: NewOperation) -> Preview: ...

    def perform(self, body: NewOperation) -> Operation: ...

    def undo(self, name: str, body: Undo) -> Operation: ...

    def all(self) -> list[Operation]: ...

    def show(self, name: str) -> Operation: ...


class StallsFound(Protocol):
    """What hangs."""

    def all(self) -> list[StallFound]: ...

    def approve(self, chosen: ChosenStalls) -> list[Approved]: ...


class Quarantine(Protocol):
    """Tasks that wait for an operator."""

    def all(self, wanted: WantedCases) -> list[QuarantinedTask]: ...

    def groups(self, wanted: WantedCases) -> list[QuarantineGroup]: ...

    def retry(self, chosen: ChosenCases) -> int:
        """How many were sent back."""

    def purge(self, chosen: ChosenCases) -> int:
        """How many were given up."""

    def force(self, job_id: JobId, index: Index, target: str, reason: str) -> bool:
        """False where it was there already."""


class Audit(Protocol):
    """Who did what and why, and what can be asked in SQL."""

    def entries(self, wanted: WantedEntries, limit: int) -> list[AuditEntry]:
        """The newest, the newest last; all of them where `limit` is 0."""

    def head(self) -> AuditHead: ...

    def answer(self, question: Query) -> Answer: ...


class Backend(Protocol):
    """Refusals are raised as `Refused`."""

    @property
    def closed(self) -> bool: ...

    @property
    def silence_s(self) -> float | None:
        """How long a feeder may say nothing; None where it lives and dies with the coordinator."""

    @property
    def schedules(self) -> Schedules: ...

    def describe(self) -> str: ...

    def bundle(self, folder: str | PathLike[str]) -> Bundle:
        """Bring a folder of code to where workers find it."""

    @property
    def limits(self) -> Limits: ...

    @property
    def effects(self) -> Effects: ...

    def health(self) -> Health:
        """Whether everything holds, as far as it was checked, and whether the disk has room."""

    @property
    def operations(self) -> Operations: ...

    @property
    def stalls(self) -> StallsFound: ...

    @property
    def quarantine(self) -> Quarantine: ...

    @property
    def audit(self) -> Audit: ...

    @property
    def reasons(self) -> Reasons: ...

    @property
    def runtimes(self) -> KeptRuntimes: ...

    def submit(self, request: SubmitJob, *, must_fit: bool = False) -> JobFeed:
        """Record a job and watch it from its first moment. `must_fit`: not unless somebody who is
        there could run it."""

    def foresee(self, request: SubmitJob, *, must_fit: bool = False) -> Foreseen:
        """What `submit` would come to. Nothing is recorded."""

    def find(self, job_id: JobId) -> Found: ...

    def state_of(self, job_id: JobId) -> str: ...

    def fed(self, job_id: JobId) -> Fed: ...

    def add_items(
        self, job_id: JobId, first: int, items: tuple[bytes, ...], digest: bytes
    ) -> None: ...

    def seal(self, job_id: JobId, count: int, *, interrupted: bool) -> None: ...

    def still_feeding(self, job_id: JobId) -> None:
        """A feeder's sign of life."""

    def cancel_job(self, job_id: JobId, reason: str) -> bool:
        """False where it had ended already."""

    def cancel_task(self, job_id: JobId, index: Index, reason: str) -> bool:
        """False where it had ended already."""

    def retry(self, job_id: JobId, indices: tuple[Index, ...], edits: Edits | None) -> int:
        """How many tasks went back, under the terms that `edits` names."""

    def reschedule(
        self, job_id: JobId, index: Index, *, delay_ms: int, not_before_wall: int
    ) -> None: ...

    def outcomes(
        self, feed: JobFeed, decode: Decode, *, return_exceptions: bool = False
    ) -> Outcomes: ...

    def attempts_of(self, job_id: JobId, index: Index) -> int:
        """How many attempts of a task there were, the one under way included."""

    def output(
        self, job_id: JobId, index: Index, attempt: int, stream: str, offset: int
    ) -> Output:
        """Some of what an attempt has printed, from an offset on."""

    def transactions(self, limit: int) -> list[Transaction]: ...

    def refusals(self) -> dict[str, int]: ...

    def resume(self, reason: str) -> bool:
        """False where the log was at work."""

    def is_foreign(self) -> bool:
        """Whether this is a forked copy, which owns neither a thread nor a connection."""

    def check_open(self) -> None:
        """Raises `Closed` where nothing can be asked any more."""

    def check_waitable(self, ended: str) -> None:
        """Waiting makes sense while somebody works, or when there is nothing to wait for."""

    def close(self, grace_ms: int) -> None: ...
