"""The no-op bench of another queue, for whichever Python has that queue installed.

This file is copied as `peer.py` into a folder of its own and run there: by that Python alone, as
the program that submits, and once more by the queue's own worker, which imports it. So it knows
nothing of Holdfast, and finds the queue's library by name when it runs. PEER names the queue and
PEER_URL its store. What was measured is written to `figures.json`.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import quantiles
from typing import Any

URL = os.environ.get("PEER_URL", "")
AT_ONCE = 1_000
TOGETHER = 50
LOOK_S = 0.02
PATIENCE_S = 120.0
WARM_CALLS = 20


def noop(item: int) -> int:
    return item


async def noop_async(item: int) -> int:
    return item


async def mark(path: str) -> None:
    """Say when it was run, by the clock that all processes of this machine share."""
    now = time.monotonic_ns()
    with open(path, "wb", buffering=0) as said:
        said.write(now.to_bytes(8, "big"))


class Peer:
    """One queue: how it is filled, how much is left in it, and which command works it off."""

    worker: tuple[str, ...]

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def submit(self, count: int) -> None: ...

    async def remaining(self) -> int:
        """What was submitted and is not yet acknowledged as done."""
        return 0

    # Not every queue is asked how soon it starts a task.
    starter: Callable[[str], Awaitable[object]] | None = None


class Pgqueuer(Peer):
    """A thousand to an insert, batches of a hundred: what its own documents do for speed."""

    worker = (sys.executable, "peer.py", "work")

    async def open(self) -> None:
        self._connection = await import_module("asyncpg").connect(URL)
        library = import_module("pgqueuer")
        self._queries = library.Queries(library.AsyncpgDriver(self._connection))
        await self._queries.install()

    async def close(self) -> None:
        await self._connection.close()

    async def submit(self, count: int) -> None:
        for first in range(0, count, AT_ONCE):
            payloads = [b"%d" % item for item in range(first, min(first + AT_ONCE, count))]
            size = len(payloads)
            await self._queries.enqueue(["noop"] * size, payloads, [0] * size)

    async def remaining(self) -> int:
        return int(await self._connection.fetchval("SELECT count(*) FROM pgqueuer"))

    async def work(self) -> None:
        library = import_module("pgqueuer")
        connection = await import_module("asyncpg").connect(URL)
        queue = library.PgQueuer(library.AsyncpgDriver(connection))

        async def work(job: Any) -> None:
            noop(int(job.payload))

        queue.entrypoint("noop")(work)
        await queue.run(batch_size=100)


class Huey(Peer):
    """SQLite with its log written ahead, synced at every commit; a worker in a thread."""

    worker = (sys.executable, "peer.py", "work")

    def __init__(self) -> None:
        self._huey = import_module("huey").SqliteHuey(filename=URL, fsync=True, results=False)
        self._noop = self._huey.task()(noop)

    async def submit(self, count: int) -> None:
        for item in range(count):
            self._noop(item)

    async def remaining(self) -> int:
        return int(self._huey.pending_count())

    async def work(self) -> None:
        options = {"workers": 1, "initial_delay": 0.01, "max_delay": 0.01, "periodic": False}
        self._huey.create_consumer(**options).run()


class OnRedis(Peer):
    async def open(self) -> None:
        self._redis = import_module("redis").Redis.from_url(URL)

    async def close(self) -> None:
        self._redis.close()


class Dramatiq(OnRedis):
    """A process a core, with a prefetch for short tasks."""

    worker = (
        *(sys.executable, "-m", "dramatiq", "peer:broker"),
        *("--processes", str(os.cpu_count() or 1), "--threads", "8"),
    )

    def __init__(self) -> None:
        library = import_module("dramatiq")
        self.broker = import_module("dramatiq.brokers.redis").RedisBroker(url=URL)
        library.set_broker(self.broker)
        self._noop = library.actor(noop, actor_name="noop")

    async def submit(self, count: int) -> None:
        for item in range(count):
            self._noop.send(item)

    async def remaining(self) -> int:
        return int(self._redis.hlen("dramatiq:default.msgs"))


class Taskiq(OnRedis):
    """Streams, which are acknowledged; many submitted and many run at a time on one loop."""

    worker = (
        *(sys.executable, "-m", "taskiq", "worker", "peer:broker", "--workers", "1"),
        *("--log-level", "WARNING", "--max-prefetch", "100"),
    )

    def __init__(self) -> None:
        redis = import_module("taskiq_redis")
        self.broker = redis.RedisStreamBroker(URL, consumer_id="0")
        self._noop = self.broker.task(task_name="noop")(noop_async)
        self.starter = self.broker.task(task_name="mark")(mark).kiq

    async def open(self) -> None:
        await super().open()
        await self.broker.startup()

    async def close(self) -> None:
        await self.broker.shutdown()
        await super().close()

    async def submit(self, count: int) -> None:
        for first in range(0, count, TOGETHER):
            items = range(first, min(first + TOGETHER, count))
            await asyncio.gather(*[self._noop.kiq(item) for item in items])

    async def remaining(self) -> int:
        (group,) = self._redis.xinfo_groups("taskiq")
        return int(group["lag"] or 0) + int(group["pending"])


class Celery(OnRedis):
    """Acknowledged late, a process a core, a large prefetch as advised for short tasks."""

    worker = (
        *(sys.executable, "-m", "celery", "-A", "peer:app", "worker", "--loglevel", "WARNING"),
        *("--without-gossip", "--without-mingle", "--without-heartbeat"),
    )

    def __init__(self) -> None:
        self.app = import_module("celery").Celery("peer", broker=URL)
        self.app.conf.update(
            task_acks_late=True,
            task_ignore_result=True,
            worker_prefetch_multiplier=128,
            broker_connection_retry_on_startup=True,
            worker_send_task_events=False,
        )
        self._noop = self.app.task(name="noop")(noop)

    async def submit(self, count: int) -> None:
        with self.app.producer_pool.acquire(block=True) as producer:
            for item in range(count):
                self._noop.apply_async((item,), producer=producer)

    async def remaining(self) -> int:
        return int(self._redis.llen("celery")) + int(self._redis.hlen("unacked"))


PEERS: dict[str, type[Any]] = {
    "pgqueuer": Pgqueuer,
    "huey": Huey,
    "dramatiq": Dramatiq,
    "taskiq": Taskiq,
    "celery": Celery,
}


async def measure(peer: Peer, count: int, calls: int) -> dict[str, float]:
    """Fill the queue while nobody works, then have it emptied, then both at the same time."""
    await peer.open()
    began = time.perf_counter()
    await peer.submit(count)
    submitting_s = time.perf_counter() - began
    worker = subprocess.Popen(peer.worker, start_new_session=False)
    try:
        # The worker's own start is not counted: the clock begins with the first that is gone.
        left = await _until(peer, worker, lambda left: left < count)
        began = time.perf_counter()
        await _until(peer, worker, lambda left: left == 0)
        # A few tasks may all be gone between two looks.
        completed = (left or count) / max(LOOK_S, time.perf_counter() - began)

        began = time.perf_counter()
        await peer.submit(count)
        await _until(peer, worker, lambda left: left == 0)
        together_s = time.perf_counter() - began
        apart_s = submitting_s + count / completed
        figures = {
            "submitted": count / submitting_s,
            "completed": completed,
            "combined": count / min(together_s, apart_s),
        }
        if peer.starter is not None:
            figures.update(await _latency(peer.starter, calls))
        await peer.close()
        return figures
    finally:
        _end(worker)


async def _until(
    peer: Peer, worker: "subprocess.Popen[bytes]", enough: Callable[[int], bool]
) -> int:
    give_up_at = time.monotonic() + PATIENCE_S
    while True:
        left = await peer.remaining()
        if enough(left):
            return left
        if worker.poll() is not None:
            raise RuntimeError(f"the worker ended with {worker.returncode}")
        if time.monotonic() > give_up_at:
            raise RuntimeError(f"{left} tasks are still there after {PATIENCE_S} s")
        await asyncio.sleep(LOOK_S)


async def _latency(start: Callable[[str], Awaitable[object]], calls: int) -> dict[str, float]:
    path = str(Path("began").absolute())
    os.mkfifo(path)
    waits: list[float] = []
    ear = os.open(path, os.O_RDWR)
    try:
        for number in range(WARM_CALLS + calls):
            asked = time.monotonic_ns()
            await start(path)
            began = int.from_bytes(os.read(ear, 8), "big")
            if number >= WARM_CALLS:
                waits.append((began - asked) / 1e6)
    finally:
        os.close(ear)
    cuts = quantiles(waits, n=100, method="inclusive")
    return {"start_p50": cuts[49], "start_p99": cuts[98]}


def _end(worker: "subprocess.Popen[bytes]") -> None:
    worker.send_signal(signal.SIGTERM)
    try:
        worker.wait(10)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()


def _run(work: Any) -> Any:
    # Looked for before anything runs: what a queue fails to import is another matter.
    fast = find_spec("uvloop") is not None
    return import_module("uvloop").run(work) if fast else asyncio.run(work)


if os.environ.get("PEER"):
    chosen = PEERS[os.environ["PEER"]]()
    # What the command lines of workers look for here.
    broker, app = getattr(chosen, "broker", None), getattr(chosen, "app", None)
    if __name__ == "__main__" and sys.argv[1] == "work":
        _run(chosen.work())
    elif __name__ == "__main__":
        found = _run(measure(chosen, int(sys.argv[1]), int(sys.argv[2])))
        Path("figures.json").write_text(json.dumps(found), encoding="utf-8")
