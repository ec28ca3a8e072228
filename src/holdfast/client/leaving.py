"""Leaving a folder: nothing new begins, what runs may end, and what is owed is paid."""

import threading
from collections.abc import Callable
from logging import getLogger
from typing import Final

from holdfast.client.localworker import monotonic_ms
from holdfast.coordinator.embedding import Embedded
from holdfast.worker.agent import Agent

log = getLogger("holdfast")

LOOK_S: Final = 0.05
TELL_MS: Final = 500
"""How long somebody may wait without being told why."""


class Leaving:
    """Called by the thread that closes; the worker and the coordinator belong to the engine's."""

    def __init__(self, embedded: Embedded, agent: Agent) -> None:
        self._embedded = embedded
        self._agent = agent

    def wait(self, grace_ms: int) -> None:
        """Unstarted tasks are asked back at once. What runs gets its grace, and so does what is
        owed and can be delivered now: who leaves pays first."""
        self._on_engine(self._stop_granting)
        began = monotonic_ms()
        deadline = began + grace_ms
        quiet = threading.Event()
        told = False

        def look() -> None:
            if self._is_quiet():
                quiet.set()

        while not quiet.is_set() and monotonic_ms() < deadline:
            self._on_engine(look)
            if quiet.wait(LOOK_S) or told or monotonic_ms() < began + TELL_MS:
                continue
            told = True
            log.warning(
                "waiting up to %g s for running tasks and what they owe; interrupt again to leave "
                "now",
                grace_ms / 1_000,
            )

    def let_go(self) -> None:
        """End what is left, and give it back."""
        self._on_engine(self._let_go)

    def _stop_granting(self) -> None:
        exchanges = self._embedded.exchanges
        exchanges.granting, exchanges.settling = False, True
        # Tasks that look are told that they should end.
        self._agent.executor.drain()

    def _let_go(self) -> None:
        self._embedded.exchanges.settling = False
        self._agent.drain()
        self._agent.finish(0)

    def _is_quiet(self) -> bool:
        """Whether nothing runs, all is told, and nothing is owed that could be delivered now."""
        agent = self._agent
        agent.executor.recall(agent.unstarted())
        is_at_rest = not (agent.executor.running() or agent.has_unsaid())
        is_idle = is_at_rest and agent.parcels.is_idle()
        return is_idle and not self._embedded.exchanges.deliveries.has_ready()

    def _on_engine(self, work: Callable[[], None]) -> None:
        done = threading.Event()

        def run() -> None:
            try:
                work()
            finally:
                done.set()

        self._embedded.engine.post(run)
        done.wait()
