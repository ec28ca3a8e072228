"""A real server on loopback, in a process that can be killed, and workers for it: processes that
can be killed too, or a thread of this program."""

import asyncio
import itertools
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import IO, Final

from holdfast.core.ids import WorkerId
from holdfast.wire.exchange import Capacity, Exchange, Hello, Reply
from holdfast.wire.http import Http, Server
from holdfast.wire.http_async import AsyncHttp
from holdfast.wire.ports import held_port
from holdfast.worker.agent import Agent
from holdfast.worker.remote import TOO_LATE, Remote, Terms
from holdfast.worker.results import Place, Spool
from holdfast.worker.stowing import StowedExecutor
from holdfast.worker.threads import ThreadExecutor

GREETING: Final = "serving"
STOP_S: Final = 30.0

_numbers = itertools.count(1)
_REFUSED: Final = re.compile(rf"{TOO_LATE} (\d+)")


def address_of(held: socket.socket) -> str:
    """Where to listen, as `--listen` takes it."""
    return f"127.0.0.1:{held.getsockname()[1]}"


class ServerProcess:
    """`holdfast serve` on a folder. Started again it listens where it did before. `entry` is what
    Python runs; `environment` is added to that of this program; `under` is a program that starts
    it, with its options."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        listen: str = "",
        entry: str = "holdfast",
        environment: Mapping[str, str] | None = None,
        under: tuple[str, ...] = (),
    ) -> None:
        self.data = folder / "data"
        self.under = under
        self.token_file = folder / "token"
        self.url = ""
        self._port = None if listen else held_port()
        self._listen = listen if self._port is None else address_of(self._port)
        self._options = options
        self._entry = entry
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[str] | None = None
        self._hearing: threading.Thread | None = None

    @property
    def token(self) -> str:
        return self.token_file.read_text(encoding="utf-8").strip()

    def start(self) -> None:
        """Start it, and return when it takes requests."""
        command = [
            *self.under, sys.executable, "-m", self._entry, "serve", "--data", str(self.data),
            "--listen", self._listen, "--token-file", str(self.token_file), *self._options,
        ]  # fmt: skip
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env=self._environment,
        )  # fmt: skip
        told: list[str] = []
        for line in self._said():
            told.append(line)
            if line.startswith(GREETING):
                self.url = line.split()[-1]
                # What it says later is read too: a full pipe would stop it in mid-sentence.
                self._hearing = threading.Thread(target=self._said().read, daemon=True)
                self._hearing.start()
                return
        raise RuntimeError(f"the server did not start: {''.join(told)}")

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("the server is not running")
        return self._process.pid

    def has_died(self) -> bool:
        """Whether it was started and is there no more, by no doing of this program."""
        return self._process is not None and self._process.poll() is not None

    def kill(self) -> None:
        """End it as a power cut would."""
        self._end(lambda process: process.kill())

    def stop(self) -> None:
        """Ask it to leave, and wait until it has. It is not started again."""
        self._end(lambda process: process.terminate())
        self._release_port()

    def _end(self, how: Callable[["subprocess.Popen[str]"], None]) -> None:
        process, self._process = self._process, None
        if process is not None:
            how(process)
            process.wait(STOP_S)
            if self._hearing is not None:
                # It reads until nobody holds the other end, and must not find the file closed.
                self._hearing.join(STOP_S)
            if process.stderr is not None:
                process.stderr.close()

    def _release_port(self) -> None:
        if self._port is not None:
            self._port.close()

    def _said(self) -> IO[str]:
        if self._process is None or self._process.stderr is None:
            raise RuntimeError("the server is not running")
        return self._process.stderr

    def __enter__(self) -> "ServerProcess":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self._release_port()


class WorkerProcess:
    """`holdfast worker start`, for a server that is running, in a session of its own. What it says
    is in a file beside its folder. `url`: the server is reached by way of another. `entry` and
    `environment` are as for a server."""

    def __init__(
        self,
        server: ServerProcess,
        folder: Path,
        *options: str,
        url: str = "",
        entry: str = "holdfast",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.is_frozen = False
        self._environment = {**os.environ, **(environment or {})}
        self._command = [
            sys.executable, "-m", entry, "worker", "start", "--server", url or server.url,
            "--token-file", str(server.token_file), "--scratch", str(folder), *options,
        ]  # fmt: skip
        self._said = folder.with_suffix(".txt")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._said.open("ab") as said:
            self._process = subprocess.Popen(
                self._command, stdout=said, stderr=said, start_new_session=True,
                env=self._environment,
            )  # fmt: skip

    def has_died(self) -> bool:
        """Whether it was started and is there no more, by no doing of this program."""
        return self._process is not None and self._process.poll() is not None

    def refused(self) -> int:
        """How many of its results were refused because their leases were lost, over all its lives,
        by what it was told and said."""
        return sum(map(int, _REFUSED.findall(self.said())))

    def said(self) -> str:
        """All that it has said, over all its lives."""
        return self._said.read_text(encoding="utf-8", errors="replace")

    def kill(self) -> None:
        """End it as a power cut would."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(STOP_S)

    def end(self) -> None:
        """Have it die as if by itself: somebody else sees it."""
        self._signal(signal.SIGKILL)

    def freeze(self) -> None:
        """It stops in the middle of whatever it does, and does not know it."""
        self._signal(signal.SIGSTOP)
        self.is_frozen = True

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)
        self.is_frozen = False

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def __enter__(self) -> "WorkerProcess":
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()


class WorkerThread:
    """A worker of a server, inside this program: its tasks are threads, its exchanges HTTP. It is
    entered when the server has answered it: one that nobody ever answered gives up by itself."""

    def __init__(
        self,
        server: ServerProcess,
        *,
        slots: int = 2,
        resources: tuple[tuple[str, int], ...] = (),
        attributes: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self._server = Server(url=server.url, token=server.token)
        self._slots = slots
        self._resources = resources
        self._attributes = attributes
        self._name = WorkerId(f"thread-{os.getpid()}-{next(_numbers)}")
        self._spool = TemporaryDirectory(prefix="holdfast-spool-")
        self._loop = asyncio.new_event_loop()
        self._remote: Remote | None = None
        self._answered = threading.Event()
        self._thread = threading.Thread(target=self._run, name="holdfast-test-worker", daemon=True)

    def __enter__(self) -> "WorkerThread":
        self._thread.start()
        if not self._answered.wait(STOP_S):
            self.__exit__()
            raise RuntimeError(f"nobody answered the worker at {self._server.url}")
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._leave)
        self._thread.join(STOP_S)
        self._spool.cleanup()

    def _leave(self) -> None:
        if self._remote is not None:
            self._remote.leave()
            self._remote.leave()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._work())
        finally:
            self._loop.close()

    async def _work(self) -> None:
        http = AsyncHttp(self._server)

        async def carry(exchange: Exchange, answer_s: float) -> Reply:
            return await http.post("/api/v1/exchange", exchange, Reply, answer_s=answer_s)

        def wake() -> None:
            if self._remote is not None:
                self._remote.wake()

        asking = Http(self._server)
        place = Place(self._spool.name, is_spool=True)
        threads = ThreadExecutor(self._slots, wake, monotonic_ms, results=place)
        executor = StowedExecutor(threads, Spool(Path(self._spool.name)), asking, wake)
        executor.start()
        capacity = Capacity(self._slots, self._slots * 1_000, 2**40, 0, self._resources)
        hello = Hello("loopback", os.getpid(), "test", "", self._attributes)
        agent = Agent(self._name, time.time_ns() // 1_000_000, executor, capacity, hello=hello)
        self._remote = Remote(
            agent,
            executor.carrying(carry),
            clock_ms=monotonic_ms,
            # It has nothing to tell before it was answered.
            tell=lambda line: self._answered.set(),
            terms=Terms(),
        )
        try:
            await self._remote.work()
        finally:
            await http.close()
            asking.close()


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
