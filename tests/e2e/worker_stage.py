"""A real coordinator behind one route on loopback, and real `holdfast worker start` processes.

The stage has no tokens and no API: a test submits by asking the coordinator itself.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import psutil
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.promise import Promise
from holdfast.coordinator.serving import Served
from holdfast.coordinator.settings import Settings
from holdfast.coordinator.taking import take_folder
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decision import Accepted
from holdfast.core.ids import JobId
from holdfast.core.job import Job, is_finished
from holdfast.core.record import Record
from holdfast.core.spec import JobSpec, RetryPolicy
from holdfast.testing.patience import until
from holdfast.wire.bodies import Command
from holdfast.wire.exchange import Exchange, Reply
from holdfast.wire.ports import held_port
from holdfast.worker.payloads import encode_call

T = TypeVar("T")
PATIENCE_S = 60
TERM_MS = 2_000
TASKS = Path(__file__).with_name("worker_tasks.py")

# Prints its number to a file, and then waits for a signal that ends it.
FOREVER = (
    "import os, signal, sys; open(sys.argv[1], 'a').write(f'{os.getpid()}\\n'); signal.pause()"
)
# The same, until the file beside it is there.
PATIENT = (
    "import os, sys, time; open(sys.argv[1], 'a').write(f'{os.getpid()}\\n')\n"
    "while not os.path.exists(sys.argv[1] + '.go'): time.sleep(0.01)"
)
# Begins, and does not listen to whoever asks it to end.
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + PATIENT
# Says whether the process that wrote its number there is still among us.
LOOKS = (
    "import os, sys; there = os.path.exists('/proc/' + open(sys.argv[1]).read().strip()); "
    "open(sys.argv[2], 'w').write('beside it' if there else 'alone')"
)


class Stage:
    """A folder that is served on a port of its own; it can be taken away and brought back."""

    def __init__(self, folder: Path, *, term_ms: int = TERM_MS, token: str = "") -> None:
        self.folder = folder
        self.term_ms = term_ms
        self.token = token
        self._held = held_port()
        self.port = self._held.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.served: Served | None = None
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        self._socket = _listening(self.port)
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(ready)))
        self._thread.start()
        assert ready.wait(PATIENCE_S)

    def end(self) -> None:
        """Go away as a server does that is stopped: connections are cut, the folder is let go."""
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._over.set)
            self._thread.join()
            self._thread = None
        self._socket.close()

    def close(self) -> None:
        """Go away for good."""
        self.end()
        self._held.close()

    async def _serve(self, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        served = Served(
            take_folder(self.folder, term_ms=self.term_ms), Settings(), term_ms=self.term_ms
        )
        served.engine.start()
        app = Starlette(routes=[Route("/api/v1/exchange", self._exchange, methods=["POST"])])
        config = uvicorn.Config(app, log_level="critical", lifespan="off", access_log=False,
                                timeout_graceful_shutdown=1)  # fmt: skip
        server = uvicorn.Server(config)
        server.install_signal_handlers = lambda: None
        self.served = served
        serving = asyncio.create_task(server._serve(sockets=[self._socket]))
        ready.set()
        await self._over.wait()
        served.drain()
        server.should_exit = True
        await serving
        await served.close()

    async def _exchange(self, request: Request) -> Response:
        if self.token and request.headers.get("authorization") != f"Bearer {self.token}":
            return Response(status_code=401)
        message = msgspec.msgpack.decode(await request.body(), type=Exchange)
        assert self.served is not None
        answer: Promise[Reply] = Promise()
        self.served.exchange(message, 20.0, answer.keep)
        reply = await answer
        return Response(msgspec.msgpack.encode(reply), media_type="application/msgpack")

    # What users do.

    def ask(self, question: Callable[[Coordinator], T]) -> T:
        assert self.served is not None
        return asyncio.run_coroutine_threadsafe(self.served.ask(question), self._loop).result(
            PATIENCE_S
        )

    def do(self, command: c.Command) -> Any:
        decision = self.ask(lambda coordinator: coordinator.execute(command, actor="test"))
        assert isinstance(decision, Accepted), decision
        return decision.answer

    def submit(self, spec: JobSpec, *payloads: bytes) -> JobId:
        return JobId(str(self.do(c.SubmitJob(spec=spec, items=payloads))))

    def command(self, *argv: str, times: int = 1, **options: Any) -> JobId:
        env = options.pop("env", {})
        payload = msgspec.msgpack.encode(Command(argv=list(argv), env=env))
        return self.submit(a_spec("command", argv[0], **options), *[payload] * times)

    def python(self, code: str, *arguments: str, **options: Any) -> JobId:
        return self.command(sys.executable, "-c", code, *arguments, **options)

    def call(self, function: str, *calls: Any, kind: str = "function", **options: Any) -> JobId:
        spec = a_spec(kind, f"script:{TASKS}:{function}", **options)
        return self.submit(spec, *[encode_call((call,)) for call in calls])

    def cancel(self, job_id: JobId) -> None:
        self.do(c.KillJob(job_id=job_id))

    # What is looked at.

    def job(self, job_id: JobId) -> Job:
        return self.ask(lambda coordinator: coordinator.state.jobs[job_id])

    def until(self, is_so: Callable[[], bool]) -> None:
        until(is_so)

    def finished(self, *job_ids: JobId) -> None:
        self.until(lambda: all(is_finished(self.job(job_id)) for job_id in job_ids))

    def records(self) -> list[Record]:
        assert self.served is not None
        last = self.ask(lambda coordinator: coordinator.state.position)
        first = self.served.log.oldest
        return [self.served._taken.read(position) for position in range(first, last + 1)]

    def commits(self, job_id: JobId) -> dict[int, list[bytes]]:
        """Every result that was ever recorded for each task: one, or something is broken."""
        found: dict[int, list[bytes]] = {}
        for record in self.records():
            for event in record.events:
                if isinstance(event, e.TasksCompleted) and event.job_id == job_id:
                    for commit in event.commits:
                        found.setdefault(commit.index, []).append(commit.result)
        return found

    def results(self, job_id: JobId) -> list[Any]:
        commits = self.commits(job_id)
        assert all(len(results) == 1 for results in commits.values()), commits
        return [msgspec.msgpack.decode(commits[index][0]) for index in sorted(commits)]

    def ends(self, job_id: JobId) -> list[e.End]:
        """How attempts of this job ended that did not commit, in order."""
        kinds = e.AttemptsReturned | e.TasksQuarantined | e.TasksKilled
        return [
            end
            for record in self.records()
            for event in record.events
            if isinstance(event, kinds) and event.job_id == job_id
            for end in event.ends
        ]

    def holders(self) -> dict[str, int]:
        """How many leases each worker holds."""
        return self.ask(
            lambda coordinator: {
                str(worker): len(holder.leases)
                for (worker, _), holder in coordinator.state.holders.items()
                if holder.leases
            }
        )


class Hand:
    """A `holdfast worker start` process, and what it printed."""

    def __init__(self, stage: Stage, home: Path, *options: str, name: str = "w") -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.name = name
        self._printed = home / f"{name}-{time.monotonic_ns()}.txt"
        environment = {
            **os.environ,
            "HOME": str(home),
            "XDG_RUNTIME_DIR": str(home / "run"),
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_CONFIG_HOME": str(home / "config"),
        }
        (home / "run").mkdir(exist_ok=True, mode=0o700)
        with self._printed.open("wb") as printed:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "holdfast", "worker", "start", "--server", stage.url,
                 "--name", name, "--slots", "2", "--cpus", "2", *options],
                stdin=subprocess.DEVNULL, stdout=printed, stderr=printed, cwd=home,
                env=environment, start_new_session=True,
            )  # fmt: skip

    @property
    def printed(self) -> str:
        return self._printed.read_text()

    def says(self, words: str) -> "Hand":
        until(lambda: words in self.printed or self.process.poll() is not None)
        assert words in self.printed, self.printed
        return self

    def family(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ends(self) -> int:
        return self.process.wait(PATIENCE_S)

    def clean_up(self) -> None:
        if self.process.poll() is None:
            family = self.family()
            self.process.kill()
            self.process.wait()
            psutil.wait_procs(family, PATIENCE_S)


def a_spec(kind: str, target: str, **options: Any) -> JobSpec:
    return JobSpec(name="work", kind=kind, target=target, retry=RetryPolicy(kind="none"), **options)


def _listening(port: int) -> socket.socket:
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.bind(("127.0.0.1", port))
    found.listen(64)
    return found
