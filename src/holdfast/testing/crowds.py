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

import msgspec

from holdfast.core.ids import WorkerId
from holdfast.testing.stepped import SteppedExecutor
from holdfast.wire.exchange import Capacity, Exchange, Hello, Reply
from holdfast.wire.http import MSGPACK, Server, Unreachable
from holdfast.worker.agent import Agent
from holdfast.worker.remote import Remote, Terms

FOR_EVER_MS: Final = 10**9
STOP_S: Final = 60.0
STEP_S: Final = 0.02
HTTP_ERROR: Final = 400


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class Post:
    """Carries exchanges over plain sockets: hundreds of workers share one processor here, and a
    client library would take most of it."""

    def __init__(self, server: Server) -> None:
        host, _, port = server.url.rpartition("/")[2].rpartition(":")
        self._place = (host, int(port))
        self._head = (
            f"POST /api/v1/exchange HTTP/1.1\r\nhost: {host}:{port}\r\n"
            f"authorization: Bearer {server.token}\r\naccept: {MSGPACK}\r\n"
            f"content-type: {MSGPACK}\r\ncontent-length: "
        )
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    def close(self) -> None:
        for _, writer in self._idle:
            writer.transport.abort()

    async def carry(self, exchange: Exchange) -> Reply:
        body = msgspec.msgpack.encode(exchange)
        line = self._idle.pop() if self._idle else await asyncio.open_connection(*self._place)
        reader, writer = line
        try:
            writer.write(f"{self._head}{len(body)}\r\n\r\n".encode() + body)
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            size = int(head.partition("content-length: ")[2].partition("\r\n")[0])
            answer = await reader.readexactly(size)
        except BaseException:
            writer.transport.abort()
            raise
        status = int(head.split(None, 2)[1])
        if status >= HTTP_ERROR:
            writer.transport.abort()
            raise ConnectionError(f"{status}: {answer!r}")
        self._idle.append(line)
        return msgspec.msgpack.decode(answer, type=Reply)


class Crowd:
    """`size` workers of one slot each. Their tasks run until `finish`. `sent` is when each exchange
    was sent, by a clock that nobody sets."""

    def __init__(self, server: Server, size: int) -> None:
        self.size = size
        self.told: list[str] = []
        self.sent: list[float] = []
        self._server = server
        self._executors: list[SteppedExecutor] = []
        self._remotes: list[Remote] = []
        self._posts: list[Post] = []
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
        for number in range(self.size):
            self._hire(number)
        clock = asyncio.create_task(self._tick())
        try:
            await asyncio.gather(*(remote.work() for remote in self._remotes))
        finally:
            clock.cancel()
            for post in self._posts:
                post.close()

    def _hire(self, number: int) -> None:
        post = Post(self._server)
        self._posts.append(post)

        async def carry(exchange: Exchange, answer_s: float) -> Reply:
            self.sent.append(time.monotonic())
            try:
                return await asyncio.wait_for(post.carry(exchange), answer_s)
            except (OSError, EOFError, TimeoutError) as error:
                raise Unreachable(self._server.url, repr(error)) from error

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
