"""Coordinator, log and local workers in this program, wired together."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, cast

from holdfast.client.errors import Closed, Refused
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.embedding import Embedded, open_embedded
from holdfast.core.commands import Command
from holdfast.core.decision import Refused as RefusedDecision
from holdfast.core.ids import Instant, Position, WorkerId
from holdfast.core.record import Record
from holdfast.wire.exchange import Capacity
from holdfast.worker.agent import Agent
from holdfast.worker.executor import Executor

T = TypeVar("T")

LOCAL_WORKER = WorkerId("local")


class MakeExecutor(Protocol):
    def __call__(
        self, slots: int, wake: Callable[[], None], clock_ms: Callable[[], int]
    ) -> Executor: ...


class Pending(Generic[T]):
    """One answer on its way from the coordinator's thread."""

    __slots__ = ("_error", "_lock", "_value")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._value: T | None = None
        self._error: Exception | None = None

    def succeed(self, value: T) -> None:
        self._value = value
        self._lock.release()

    def fail(self, error: Exception) -> None:
        self._error = error
        self._lock.release()

    def get(self) -> T:
        self._lock.acquire()
        if self._error is not None:
            raise self._error
        return cast(T, self._value)


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class LocalWorker:
    """The in-process worker as a hook of the engine: the exchange without a transport."""

    def __init__(self, agent: Agent, embedded: Embedded) -> None:
        self.agent = agent
        self._embedded = embedded

    def step(self, now: Instant) -> None:
        exchange = self.agent.step(monotonic_ms())
        if exchange is not None:
            self._embedded.exchanges.take(exchange, self._receive)

    def next_due(self) -> Instant:
        here = monotonic_ms()
        due = self.agent.next_due(here)
        if not due:
            return Instant(0)
        return Instant(self._embedded.coordinator.now() + max(0, due - here))

    def _receive(self, reply: Any) -> None:
        self.agent.receive(reply)
        # The next exchange goes out in this very turn of the engine.
        self.step(Instant(0))


class Local:
    """An open folder. Every call goes through the engine's thread and comes back durable."""

    def __init__(self, path: Path, make_executor: MakeExecutor, slots: int) -> None:
        self.path = path
        self.slots = slots
        self.closed = False
        self._owner_pid = os.getpid()
        self._embedded = open_embedded(path)
        engine = self._embedded.engine
        wake = _Wake(engine.post)
        self.executor = make_executor(slots, wake, monotonic_ms)
        capacity = Capacity(slots, slots * 1_000, _memory_bytes(), 0)
        incarnation = self._embedded.epoch
        self._agent = Agent(LOCAL_WORKER, incarnation, self.executor, capacity)
        self.executor.start()
        engine.hooks.insert(0, LocalWorker(self._agent, self._embedded))
        engine.start()
        engine.post(_nothing)

    @property
    def coordinator(self) -> Coordinator:
        return self._embedded.coordinator

    def job_id(self) -> Any:
        return self._embedded.ids.job_id()

    def call(self, ask: Callable[[Coordinator], T]) -> T:
        """Run `ask` on the coordinator's thread; its answer, once all it saw is durable."""
        self.check_open()
        pending: Pending[T] = Pending()
        coordinator = self._embedded.coordinator

        def work() -> None:
            try:
                value = ask(coordinator)
            except Exception as error:  # noqa: BLE001 - it belongs to the caller, not to the engine
                pending.fail(error)
                return
            coordinator.answer(lambda: pending.succeed(value), pending.fail)

        self._embedded.engine.post(work)
        return pending.get()

    def execute(self, command: Command, *, reason: str = "") -> Any:
        """The answer of an accepted command; a refusal is raised."""
        decision = self.call(
            lambda coordinator: coordinator.execute(command, actor=_actor(), reason=reason)
        )
        if isinstance(decision, RefusedDecision):
            raise Refused(decision.code, decision.message)
        return decision.answer

    def post(self, work: Callable[[], None]) -> None:
        if not self.closed and os.getpid() == self._owner_pid:
            self._embedded.engine.post(work)

    def record(self, position: Position) -> Record:
        """A record of the log, wherever it is kept."""
        return self._embedded.read(position)

    def check_open(self) -> None:
        if os.getpid() != self._owner_pid:
            raise Closed(
                f"{self.path} was opened by process {self._owner_pid}; a forked copy cannot use "
                "it. To share it between processes run `holdfast serve --data "
                f"{self.path}` and use holdfast.connect()."
            )
        if self.closed:
            raise Closed(f"{self.path} was closed; open it again to go on")

    def close(self, grace_ms: int) -> None:
        """Stop granting, wait for what runs, release the rest without charge, let the folder go."""
        if self.closed or os.getpid() != self._owner_pid:
            return
        self.closed = True
        drained = threading.Event()

        def drain() -> None:
            self._embedded.exchanges.granting = False
            self._agent.draining = True
            drained.set()

        self._embedded.engine.post(drain)
        drained.wait()
        self._wait_for_running(grace_ms)
        finished = threading.Event()

        def finish() -> None:
            self._agent.finish(0)
            finished.set()

        self._embedded.engine.post(finish)
        finished.wait()
        self._embedded.close(self._agent.is_idle)

    def _wait_for_running(self, grace_ms: int) -> None:
        """Unstarted tasks are asked back at once; what runs gets its grace."""
        deadline = monotonic_ms() + grace_ms
        quiet = threading.Event()

        def look() -> None:
            unstarted = self._agent.unstarted()
            if unstarted:
                self.executor.recall(unstarted)
            if not self.executor.running():
                quiet.set()

        while monotonic_ms() < deadline and not quiet.is_set():
            self._embedded.engine.post(look)
            quiet.wait(0.02)


class _Wake:
    """Rings the engine at most once until it has answered."""

    def __init__(self, post: Callable[[Callable[[], None]], None]) -> None:
        self._post = post

    def __call__(self) -> None:
        self._post(_nothing)


def _nothing() -> None:
    """Something to post when only a turn of the engine is wanted."""


def _actor() -> str:
    return f"process:{os.getpid()}"


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
