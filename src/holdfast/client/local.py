"""Coordinator, log and local workers in this program, wired together."""

import os
import threading
import time
from collections.abc import Callable
from logging import getLogger
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, cast

from holdfast.client.errors import Closed, Refused
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.embedding import SNAPSHOT_PATIENCE_S, Embedded, open_embedded
from holdfast.coordinator.settings import Settings
from holdfast.core.commands import Command
from holdfast.core.decision import Refused as RefusedDecision
from holdfast.core.errors import OperatingError
from holdfast.core.ids import Instant, Position, WorkerId
from holdfast.core.record import Record
from holdfast.core.spec import JobSpec
from holdfast.wire.exchange import Capacity, Reply
from holdfast.worker.agent import Agent
from holdfast.worker.executor import Executor
from holdfast.worker.functions import MissingGuard

T = TypeVar("T")

LOCAL_WORKER = WorkerId("local")

log = getLogger("holdfast")


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


class Local:
    """An open folder. Every call goes through the engine's thread and comes back durable."""

    def __init__(
        self, path: Path, make_executor: MakeExecutor, slots: int, settings: Settings
    ) -> None:
        self.path = path
        self.slots = slots
        self.closed = False
        self._owner_pid = os.getpid()
        self.actor = f"process:{self._owner_pid}"
        self._embedded = open_embedded(path, settings)
        try:
            self._employ(make_executor)
        except BaseException:
            # Nobody gets to close what was never opened.
            self._embedded.log.close()
            raise

    def _employ(self, make_executor: MakeExecutor) -> None:
        engine, slots = self._embedded.engine, self.slots
        self.executor = make_executor(slots, lambda: engine.post(_nothing), monotonic_ms)
        self._capacity = Capacity(slots, slots * 1_000, _memory_bytes(), 0)
        self._agent = Agent(LOCAL_WORKER, self._embedded.epoch, self.executor, self._capacity)
        self._worker = LocalWorker(self._agent, self._embedded)
        engine.hooks.insert(0, self._worker)
        self.executor.start()
        engine.start()
        engine.post(_nothing)

    def call(self, ask: Callable[[Coordinator], T]) -> T:
        """Run `ask` on the coordinator's thread; its answer, once all it saw is durable."""
        self.check_open()
        pending: Pending[T] = Pending()
        coordinator = self._embedded.coordinator

        def work() -> None:
            try:
                # Asked here, in turn: whoever came before the news has been told by it.
                if self._worker.fatal is not None:
                    raise self._worker.fatal
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
            lambda coordinator: coordinator.execute(command, actor=self.actor, reason=reason)
        )
        if isinstance(decision, RefusedDecision):
            raise Refused(decision.code, decision.message)
        return decision.answer

    def check_fits(self, spec: JobSpec) -> None:
        """Nobody else can join an embedded coordinator: what does not fit here would wait for
        ever, unless its scheduling deadline ends the waiting."""
        offered = self._capacity
        lacking = [
            f"{wanted / unit:g} {name} (there is {available / unit:g})"
            for name, wanted, available, unit in (
                ("cpus", spec.cpus_milli, offered.cpus_milli, 1_000),
                ("bytes of memory", spec.memory_bytes, offered.memory_bytes, 1),
                ("gpus", spec.gpus, offered.gpus, 1),
            )
            if wanted > available
        ]
        if lacking and not spec.schedule_timeout_ms:
            raise Refused(
                "unschedulable",
                f"{spec.name} needs {' and '.join(lacking)}; open the folder with more workers, "
                "or give the task a schedule_timeout",
            )

    def post(self, work: Callable[[Coordinator], None]) -> None:
        """Have `work` done some time, where that still makes sense. Never raises."""
        if not self.closed and os.getpid() == self._owner_pid:
            coordinator = self._embedded.coordinator
            self._embedded.engine.post(lambda: work(coordinator))

    def record(self, position: Position) -> Record:
        """A record of the log, wherever it is kept."""
        self.check_open()
        return self._embedded.read(position)

    @property
    def oldest(self) -> int:
        """The first position whose history is still kept here."""
        return self._embedded.log.oldest

    def is_foreign(self) -> bool:
        """Whether this is a forked copy, which owns neither the folder nor any thread."""
        return os.getpid() != self._owner_pid

    def check_waitable(self, ended: str) -> None:
        """Waiting makes sense while somebody works, or when there is nothing to wait for."""
        if not ended or self.is_foreign():
            self.check_open()

    def check_open(self) -> None:
        if self.is_foreign():
            raise Closed(
                f"{self.path} was opened by process {self._owner_pid}; a forked copy cannot use "
                f"it. To share it, run `holdfast serve --data {self.path}` and use "
                "holdfast.connect()."
            )
        if self.closed:
            raise self._closed()

    def _closed(self) -> Closed:
        return Closed(f"{self.path} was closed; open it again to go on")

    def close(self, grace_ms: int) -> None:
        """Stop granting, wait for what runs, release the rest without charge, let the folder go."""
        if self.closed or self.is_foreign():
            return
        self.closed = True
        patience_s = 0.0
        try:
            self._on_engine(self._stop_granting)
            self._wait_for_running(grace_ms)
            patience_s = SNAPSHOT_PATIENCE_S
        finally:
            # A second Ctrl-C cuts the waiting short, never the orderly end.
            self._on_engine(lambda: self._agent.finish(0))
            self._embedded.close(self._agent.is_idle, self._closed(), patience_s)

    def _stop_granting(self) -> None:
        self._embedded.exchanges.granting = False
        self._agent.draining = True

    def _wait_for_running(self, grace_ms: int) -> None:
        """Unstarted tasks are asked back at once; what runs gets its grace."""
        deadline = monotonic_ms() + grace_ms
        quiet = threading.Event()
        told = False

        def look() -> None:
            self.executor.recall(self._agent.unstarted())
            if not self.executor.running():
                quiet.set()

        while not quiet.is_set() and monotonic_ms() < deadline:
            self._on_engine(look)
            if quiet.wait(0.05) or told:
                continue
            told = True
            log.warning(
                "waiting up to %g s for running tasks; interrupt again to leave now",
                grace_ms / 1_000,
            )

    def _on_engine(self, work: Callable[[], None]) -> None:
        done = threading.Event()

        def run() -> None:
            try:
                work()
            finally:
                done.set()

        self._embedded.engine.post(run)
        done.wait()


def _nothing() -> None:
    """Something to post when only a turn of the engine is wanted."""


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
