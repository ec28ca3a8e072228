"""What the loop needs from the world, each behind a door that a simulation can stand in.

Whoever takes time answers through `told`, at once or later, and exactly once. That is why the same
loop runs in the turns of a coordinator, in a simulation, and against a cluster far away.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from msgspec import Struct

from holdfast.core.ids import Instant
from holdfast.runtimes.actions import (
    ApplyWorkload,
    DeleteChildren,
    DeleteOrphans,
    EmitEvent,
    Enforce,
    EnsureMetricsTargets,
)
from holdfast.runtimes.observed import Observed
from holdfast.runtimes.resource import Resource
from holdfast.runtimes.status import ApplyCode, Recommendation, Router, Status


class Outcome(Struct, frozen=True, gc=False):
    """What an action came to. `message` is the child it met in a conflict, else what was said of
    it. `was_fallback`: a preferred way had vanished, and the next one failed as well."""

    code: ApplyCode = ApplyCode.OK
    message: str = ""
    was_fallback: bool = False


DONE = Outcome()

Deed = ApplyWorkload | DeleteOrphans | DeleteChildren | EnsureMetricsTargets | Enforce
"""The actions that change something where children run."""


class Clock(Protocol):
    def now(self) -> Instant: ...


class Store(Protocol):
    """Where runtimes are declared and their statuses are written down."""

    def names(self) -> Iterable[str]: ...

    def read(self, name: str) -> Resource | None:
        """The newest there is; None where there is none."""

    def put_status(
        self, name: str, status: Status, expects: int, told: Callable[[bool], None]
    ) -> None:
        """False: somebody else wrote since that version."""

    def set_finalizers(
        self, name: str, finalizers: tuple[str, ...], expects: int, told: Callable[[bool], None]
    ) -> None: ...

    def emit(self, name: str, event: EmitEvent, now: Instant) -> None: ...


class Substrate(Protocol):
    """Where children run."""

    def observe(self, resource: Resource, told: Callable[[Observed], None]) -> None: ...

    def act(self, resource: Resource, deed: Deed, told: Callable[[Outcome], None]) -> None:
        """Every deed may be repeated: done twice it leaves what once would have left."""

    def routers(self, resource: Resource) -> tuple[Router, ...]:
        """Where requests for its services may go, as far as is known."""


class Analyzer(Protocol):
    """Who recommends, by target (`replicas`, `replicas/hello`)."""

    def recommend(
        self,
        resource: Resource,
        observed: Observed,
        now: Instant,
        told: Callable[[Mapping[str, Recommendation]], None],
    ) -> None: ...
