"""The worker inside this program: the exchange without a transport."""

import os
import socket
import time
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from holdfast.client.errors import Refused
from holdfast.coordinator.embedding import Embedded
from holdfast.coordinator.fitting import misfits
from holdfast.core.errors import OperatingError
from holdfast.core.ids import Instant
from holdfast.core.spec import JobSpec
from holdfast.scheduler.seats import Seat
from holdfast.version import VERSION
from holdfast.wire.delivery import SERVER, WORKERS
from holdfast.wire.exchange import Hello, Reply
from holdfast.worker.agent import Agent
from holdfast.worker.delivering import Deliverer
from holdfast.worker.executor import Executor
from holdfast.worker.functions import MissingGuard
from holdfast.worker.places import own_place
from holdfast.worker.results import Place
from holdfast.worker.staging import Bench


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


MakeDeliverer = Callable[[Callable[[], None], Callable[[], int]], Deliverer]
"""Given whom to wake, and a clock in milliseconds."""


class Offers(Struct, frozen=True):
    """What the worker of a folder has beyond slots: named resources in thousandths, what is to be
    known about it, and whoever delivers what is owed."""

    resources: tuple[tuple[str, int], ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()
    deliverer: MakeDeliverer | None = None

    def hello(self) -> Hello:
        """How it introduces itself. It is worker and server in one, so it delivers as both."""
        delivers = (WORKERS, SERVER) if self.deliverer is not None else ()
        return Hello(
            socket.gethostname(), os.getpid(), VERSION, "", self.attributes, delivers=delivers,
            places=(own_place(),) if delivers else (),
        )  # fmt: skip


class MakeExecutor(Protocol):
    """What runs the tasks of a folder, threads or processes. `results`: where large ones
    go; `bench`: how files are staged."""

    def __call__(
        self,
        slots: int,
        wake: Callable[[], None],
        clock_ms: Callable[[], int],
        *,
        results: Place | None,
        bench: Bench | None,
    ) -> Executor: ...


class LocalWorker:
    """The in-process worker as a hook of the engine: the exchange without a transport."""

    def __init__(self, agent: Agent, embedded: Embedded) -> None:
        self.agent = agent
        self.fatal: Exception | None = None
        self._embedded = embedded

    def step(self, now: Instant) -> None:
        exchange = self.agent.step(monotonic_ms())
        if exchange is not None:
            self._embedded.exchanges.take(exchange, self._receive)
        if self.agent.executor.fatal is not None and self.fatal is None:
            self._give_up(self.agent.executor.fatal, self.agent.executor.fatal_kind)

    def next_due(self) -> Instant:
        here = monotonic_ms()
        due = self.agent.next_due(here)
        if not due:
            return Instant(0)
        return Instant(self._embedded.coordinator.now() + max(0, due - here))

    def _receive(self, reply: Reply) -> None:
        self.agent.receive(reply)
        # The next exchange goes out in this very turn of the engine.
        self.step(Instant(0))

    def _give_up(self, why: str, kind: str | None) -> None:
        """Nothing can run here: everyone who waits is told, and nobody's work is charged."""
        known = kind == MissingGuard.__name__
        self.fatal = MissingGuard.told(why) if known else OperatingError(why)
        self._embedded.exchanges.granting = False
        self._embedded.coordinator.watchers.fail(self.fatal)


def check_fits(seat: Seat, spec: JobSpec, count: int, *, must_fit: bool = False) -> None:
    """Nobody else can join an embedded coordinator: what does not fit here would wait for ever,
    unless its scheduling deadline ends the waiting."""
    if spec.schedule_timeout_ms and not must_fit:
        return
    reasons = misfits(spec, count, [seat])
    if reasons:
        raise Refused(
            "unschedulable",
            f"{spec.name} cannot run here: {'; '.join(reasons)}; open the folder with more, or "
            "give the task a schedule_timeout",
        )
