"""What goes into one evaluation and what comes out of it, and how often what is tried."""

from typing import Final

from msgspec import Struct

from holdfast.core.ids import Instant
from holdfast.runtimes.actions import Action
from holdfast.runtimes.descriptor import TemplateDescriptor
from holdfast.runtimes.observed import Observed
from holdfast.runtimes.resource import Resource
from holdfast.runtimes.status import (
    Condition,
    FunctionStatus,
    OdgmStatus,
    Phase,
    ResourceRef,
    Stability,
    Tried,
)
from holdfast.runtimes.workload import Workload


class ControllerConfig(Struct, frozen=True, kw_only=True, gc=False):
    """How the controller is set. `crash_restarts`: from so many on it is a crash loop. `tries`: so
    often something missing is brought back before that is called degraded. Waits double from
    `retry_ms` to `retry_most_ms`; an apply has `settle_ms` to show before it is missed, and a
    listing that failed is tried again after `unknown_ms`."""

    crash_restarts: int = 3
    tries: int = 3
    retry_ms: int = 1_000
    retry_most_ms: int = 60_000
    settle_ms: int = 1_000
    unknown_ms: int = 5_000
    poll_ms: int = 500
    poll_most_ms: int = 30_000


DEFAULT_CONFIG: Final = ControllerConfig()


class EvalInput(Struct, frozen=True, kw_only=True):
    """One look at one runtime. `workloads` is what the descriptor renders of the resource, from
    whoever keeps that between looks; None where nobody does."""

    resource: Resource
    observed: Observed
    now: Instant
    descriptor: TemplateDescriptor
    config: ControllerConfig = DEFAULT_CONFIG
    workloads: tuple[Workload, ...] | None = None


class EvalOutput(Struct, frozen=True, kw_only=True):
    """What follows: where it is, what is said of it, what to do, in this order, and when to look
    again at the latest. None: whenever something happens. `function_keys` are those of the spec;
    whatever is kept for another function goes."""

    phase: Phase
    generation: int
    template: str
    function_keys: tuple[str, ...]
    conditions: tuple[Condition, ...]
    functions: tuple[FunctionStatus, ...]
    odgm: OdgmStatus | None
    resource_refs: tuple[ResourceRef, ...]
    tries: dict[str, Tried]
    stability: dict[str, Stability]
    actions: tuple[Action, ...]
    requeue_after_ms: int | None


class Tries:
    """Who was tried how often, what of it may be tried again now, and when the rest may.

    The count is in the status, not in the caller: a storm of events makes nobody try faster, and
    a restart makes nobody forget. What is asked for no more is forgotten.
    """

    def __init__(self, tries: dict[str, Tried], config: ControllerConfig, now: Instant) -> None:
        self.kept: dict[str, Tried] = {}
        self.soonest_ms: int | None = None
        self.were_any = bool(tries)
        self._tries = tries
        self._config = config
        self._now = now

    def may(self, key: str) -> bool:
        """Whether it may be tried now. If so it counts as tried."""
        tried = self._tries.get(key)
        if tried is not None:
            wait_ms = tried.last_at + self._wait_ms(tried.count) - self._now
            if wait_ms > 0:
                self.kept[key] = tried
                self.remind(wait_ms)
                return False
        count = 1 if tried is None else tried.count + 1
        self.kept[key] = Tried(count=count, last_at=self._now)
        self.remind(self._wait_ms(count))
        return True

    def tried(self, key: str) -> Tried | None:
        """How often it was tried before this look."""
        return self._tries.get(key)

    def is_spent(self, key: str) -> bool:
        """Whether it was tried often enough to say that trying does not help."""
        tried = self._tries.get(key)
        if tried is None or tried.count < self._config.tries:
            return False
        is_over = tried.last_at + self._wait_ms(tried.count) <= self._now
        return is_over or tried.count > self._config.tries

    def remind(self, wait_ms: int) -> None:
        """Look again in so long, or sooner."""
        if self.soonest_ms is None or wait_ms < self.soonest_ms:
            self.soonest_ms = wait_ms

    def poll(self, since: Instant) -> None:
        """Look again soon where something has just begun, and the more seldom the longer it
        lasts."""
        wait_ms = (self._now - since) // 4
        self.remind(min(max(wait_ms, self._config.poll_ms), self._config.poll_most_ms))

    def _wait_ms(self, count: int) -> int:
        return int(min(self._config.retry_ms * 2 ** min(count - 1, 20), self._config.retry_most_ms))
