"""A network that misbehaves: carries bytes between clients and a server, and loses them at will.

It lives on a thread of its own. What is cut before the server saw it, and what is cut after the
server acted on it, look the same to a client; that is what makes a network hard.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from random import Random
from typing import Final

CHUNK: Final = 65_536
PATIENCE_S: Final = 10.0


class Proxy:
    """`port` is where clients connect. Everything passes until something is told otherwise."""

    def __init__(self, target_port: int, host: str = "127.0.0.1") -> None:
        self.port = 0
        self.delay_s = 0.0
        self.refuses = False
        self.loses_answers = 0
        self.cuts = 0
        self._host = host
        self._target_port = target_port
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)

    def start(self) -> "Proxy":
        self._thread.start()
        if not self._ready.wait(PATIENCE_S):
            raise TimeoutError("the proxy did not start")
        return self

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)

    def cut(self) -> None:
        """Break every connection there is, in the middle of whatever it carries."""
        self._call(self._cut)

    def lose_answers(self, count: int) -> None:
        """The next `count` answers never arrive: the server has acted, and nobody is told."""
        self.loses_answers = count

    def misbehave(self, dice: Random) -> str:
        """Some fault, as the dice fall; what it was."""
        fault = dice.choice(("cut", "lose an answer", "delay", "recover"))
        if fault == "cut":
            self.cut()
        elif fault == "lose an answer":
            self.lose_answers(dice.randrange(1, 4))
        elif fault == "delay":
            self.delay_s = dice.choice((0.0, 0.01, 0.05))
        else:
            self.delay_s, self.loses_answers = 0.0, 0
        return fault

    def _call(self, work: Callable[[], None]) -> None:
        done = threading.Event()

        def run() -> None:
            work()
            done.set()

        self._loop.call_soon_threadsafe(run)
        done.wait(PATIENCE_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._carry, self._host, 0)
        )
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        self._cut()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    def _cut(self) -> None:
        for pair in list(self._pairs):
            self.cuts += 1
            for end in pair:
                end.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuses:
            writer.transport.abort()
            return
        try:
            there, back = await asyncio.open_connection(self._host, self._target_port)
        except OSError:
            writer.transport.abort()
            return
        pair = (writer, back)
        self._pairs.add(pair)
        try:
            await asyncio.gather(
                self._pass_on(reader, back, is_answer=False),
                self._pass_on(there, writer, is_answer=True),
            )
        finally:
            self._pairs.discard(pair)
            for end in pair:
                with contextlib.suppress(OSError):
                    end.close()

    async def _pass_on(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, is_answer: bool
    ) -> None:
        try:
            while chunk := await source.read(CHUNK):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                if is_answer and self.loses_answers > 0:
                    self.loses_answers -= 1
                    self.cuts += 1
                    break
                target.write(chunk)
                await target.drain()
        except OSError:
            pass  # The other side is gone, which is what networks do.
        finally:
            with contextlib.suppress(OSError):
                target.transport.abort() if is_answer else target.write_eof()
