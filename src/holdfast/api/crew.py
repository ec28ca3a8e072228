"""Workers that a server starts beside itself: ordinary ones, in processes of their own.

They differ from others in one thing alone: the server is their parent, so it sees them die and need
not wait for their leases to end. What was started is noted in the data folder, so that the next
server can see the same of those whose parent was killed.
"""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from logging import getLogger
from pathlib import Path
from typing import Final

import msgspec
import psutil
from msgspec import Struct

from holdfast.coordinator.serving import Served
from holdfast.core.ids import WorkerId
from holdfast.core.unreadable import UNREADABLE

log = getLogger("holdfast")

NOTE: Final = "local-workers.json"
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
WELL_S: Final = 60.0
LAST_BREATH_S: Final = 5.0
WORKER: Final = (sys.executable, "-m", "holdfast", "worker", "start")
DELIVERY: Final = (sys.executable, "-m", "holdfast", "worker", "deliver")
DELIVERY_NAME: Final = WorkerId("delivery")
"""The process that delivers effects for the server: a worker that runs no task."""

# Runs in the child before the worker does: have the kernel end it with its parent, and look whether
# the parent is still there, since it may have died before the kernel was asked.
TETHER: Final = (
    "import ctypes, os, sys\n"
    f"ctypes.CDLL(None).prctl(1, {int(signal.SIGKILL)})\n"
    "os.getppid() == int(sys.argv[1]) or sys.exit(1)\n"
    "os.execv(sys.argv[2], sys.argv[2:])\n"
)


class Started(Struct, frozen=True):
    """A process by what nobody else can have: its number and the moment it began."""

    name: str
    pid: int
    began: float


class Crew:
    """`count` workers, started again when they die, with growing pauses; beside them, while it is
    wanted, the process that delivers effects for the server."""

    def __init__(
        self,
        served: Served,
        count: int,
        *,
        url: str,
        token_file: Path,
        ca_file: str = "",
        program: Sequence[str] = WORKER,
        delivery: Sequence[str] = DELIVERY,
    ) -> None:
        self._served = served
        self._note = served.log.path / NOTE
        options = ["--server", url, "--token-file", str(token_file)]
        if ca_file:
            options += ["--ca-file", ca_file]
        self._delivery = [*delivery, *options]
        # What to start, by the name it gets.
        self._programs = {
            WorkerId(f"local-{number + 1}"): [*program, *options, *_share(count)]
            for number in range(count)
        }
        self._processes: dict[WorkerId, asyncio.subprocess.Process] = {}
        self._keepers: dict[WorkerId, asyncio.Task[None]] = {}
        self._is_started = False
        self._leaving = asyncio.Event()

    def start(self) -> None:
        self._bury_former()
        self._is_started = True
        for name in self._programs:
            self._hire(name)

    def deliver(self, *, is_wanted: bool) -> None:
        """Have the delivery process, or have it finish what it carries and end."""
        if is_wanted:
            self._programs[DELIVERY_NAME] = self._delivery
            self._hire(DELIVERY_NAME)
        elif self._programs.pop(DELIVERY_NAME, None) is not None:
            self._signal(signal.SIGTERM, DELIVERY_NAME)

    def _hire(self, name: WorkerId) -> None:
        keeper = self._keepers.get(name)
        if self._is_started and (keeper is None or keeper.done()):
            self._keepers[name] = asyncio.ensure_future(self._keep(name))

    async def stop(self, grace_s: float) -> None:
        """Have them finish what runs, for as long as that is bearable."""
        self._leaving.set()
        self._signal(signal.SIGTERM)
        keepers = list(self._keepers.values())
        if keepers:
            await asyncio.wait(keepers, timeout=grace_s)
        self.kill()
        await asyncio.gather(*keepers)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: int, only: WorkerId | None = None) -> None:
        for name, process in self._processes.items():
            if process.returncode is None and only in (None, name):
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(number)

    def _is_wanted(self, name: WorkerId) -> bool:
        return name in self._programs and not self._leaving.is_set()

    async def _keep(self, name: WorkerId) -> None:
        pause_s = FIRST_PAUSE_S
        while self._is_wanted(name):
            began = time.monotonic()
            code = await self._run(name)
            if not self._is_wanted(name):
                return
            if time.monotonic() - began > WELL_S:
                pause_s = FIRST_PAUSE_S
            log.warning(
                "worker %s ended with code %s; another is started in %g s", name, code, pause_s
            )
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._leaving.wait(), pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    async def _run(self, name: WorkerId) -> int:
        """One life of a worker; its exit code."""
        command = [*self._programs[name], "--name", name]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", TETHER, str(os.getpid()), *command,
            stdin=asyncio.subprocess.DEVNULL,
            # A Ctrl-C is for the server, which then ends its workers in good order.
            start_new_session=True,
        )  # fmt: skip
        self._processes[name] = process
        if not self._is_wanted(name):
            # Whoever said so while it was being started could not tell it.
            self._signal(signal.SIGTERM, name)
        self._write_note()
        code = await process.wait()
        del self._processes[name]
        self._lose(name, f"it ended with code {code}")
        self._write_note()
        return code

    def _lose(self, name: WorkerId, error: str) -> None:
        if self._served.coordinator.failure is None:
            self._served.lose(name, error)

    def _bury_former(self) -> None:
        """Those that a former server left: it ended, so they did or do now."""
        try:
            former = msgspec.json.decode(self._note.read_bytes(), type=list[Started])
        except (FileNotFoundError, *UNREADABLE):
            return
        for started in former:
            if _is_over(started):
                self._lose(WorkerId(started.name), "it ended with the server that started it")

    def _write_note(self) -> None:
        """Only advice: without it the former leases end by time."""
        started = []
        for name, process in self._processes.items():
            with contextlib.suppress(psutil.NoSuchProcess):
                began = psutil.Process(process.pid).create_time()
                started.append(Started(name, process.pid, began))
        with contextlib.suppress(OSError):
            self._note.write_bytes(msgspec.json.encode(started))


def _share(count: int) -> list[str]:
    """What each of them may give out: its part of this machine, and at least one processor."""
    cpus = max(1.0, (os.cpu_count() or 1) / max(1, count))
    memory = psutil.virtual_memory().total // max(1, count)
    return ["--cpus", f"{cpus:g}", "--memory", str(memory)]


def _is_over(started: Started) -> bool:
    """Whether this very process is gone; it is ended if it is not."""
    try:
        process = psutil.Process(started.pid)
        if process.create_time() == started.began:
            process.kill()
            process.wait(LAST_BREATH_S)
    except psutil.NoSuchProcess:
        return True
    except (psutil.TimeoutExpired, psutil.AccessDenied):
        return False
    return True
