"""Hundreds of workers in one process: real exchanges over HTTP, and tasks that run as long as told.

They hold leases and renew them like any worker; only what runs is played, because a machine has
not two hundred processors.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from random import Random
from typing import Final

from holdfast.core.ids import WorkerId
from holdfast.testing.stepped import SteppedExecutor
from holdfast.wire.exchange import Capacity, Exchange, Hello, Reply
from holdfast.wire.http import Server
from holdfast.wire.http_async import AsyncHttp
from holdfast.worker.agent import Agent
from holdfast.worker.remote import Remote, Terms

FOR_EVER_MS: Final = 10**9
STOP_S: Final = 60.0
STEP_S: Final = 0.02


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class Crowd:
    """`size` workers of one slot each. Their tasks run until `finish`."""

    def __init__(self, server: Server, size: int) -> None:
        self.size = size
        self.told: list[str] = []
        self._server = server
        self._executors: list[SteppedExecutor] = []
        self._remotes: list[Remote] = []
        self._ahead_ms = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="crowd", daemon=True)

    def __enter__(self) -> "Crowd":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._leave)
        self._thread.join(STOP_S)

    def running(self) -> int:
        """How many of them run something at this moment."""
        return sum(bool(executor.running()) for executor in self._executors)

    def finish(self) -> None:
        """Whatever runs is over."""
        self._ahead_ms = 2 * FOR_EVER_MS

    def _leave(self) -> None:
        for remote in self._remotes:
            remote.leave()
            remote.leave()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._work())
        finally:
            self._loop.close()

    async def _work(self) -> None:
        # One client each: a pool looks at all its connections for every request.
        clients = [AsyncHttp(self._server) for _ in range(self.size)]
        for number, http in enumerate(clients):
            self._hire(http, number)
        clock = asyncio.create_task(self._tick())
        try:
            await asyncio.gather(*(remote.work() for remote in self._remotes))
        finally:
            clock.cancel()
            await asyncio.gather(*(http.close() for http in clients))

    def _hire(self, http: AsyncHttp, number: int) -> None:
        async def carry(exchange: Exchange, answer_s: float) -> Reply:
            return await http.post("/api/v1/exchange", exchange, Reply, answer_s=answer_s)

        executor = SteppedExecutor(1, Random(number), takes_ms=FOR_EVER_MS)
        name = WorkerId(f"crowd-{number}")
        hello = Hello("crowd", number, "test")
        capacity = Capacity(1, 1_000, 2**30, 0)
        agent = Agent(name, time.time_ns() // 1_000_000, executor, capacity, hello=hello)
        tell: Callable[[str], None] = self.told.append
        self._executors.append(executor)
        self._remotes.append(
            Remote(agent, carry, clock_ms=monotonic_ms, tell=tell, terms=Terms())
        )

    async def _tick(self) -> None:
        """What is assigned begins, and what is over ends, a little later than it might."""
        while True:
            for executor, remote in zip(self._executors, self._remotes, strict=True):
                executor.advance(monotonic_ms() + self._ahead_ms)
                if self._ahead_ms:
                    remote.wake()
            await asyncio.sleep(STEP_S)
