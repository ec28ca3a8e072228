"""Real workers beside a real server, and a nemesis that kills, freezes and cuts them off.

Everything here is a process of its own on loopback. The nemesis follows one seed, so what it did
can be done again; when processes meet it is up to the machine, so a run proves what it shows and
not more.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

from holdfast.testing.loopback import ServerProcess, WorkerProcess
from holdfast.testing.proxy import Proxy

STOP_S: Final = 30.0


class Fleet:
    """One server, some workers, and a bad network between them."""

    def __init__(self, folder: Path, *, workers: int, term: str) -> None:
        self.server = ServerProcess(folder, "--lease-term", term)
        self.server.start()
        self.proxy = Proxy(int(self.server.url.rpartition(":")[2])).start()
        self.url = f"http://127.0.0.1:{self.proxy.port}"
        self.workers = [
            WorkerProcess(
                self.server, folder / name, "--name", name, "--slots", "2", url=self.url
            )
            for name in (f"w{number}" for number in range(workers))
        ]
        for worker in self.workers:
            worker.start()

    def refused(self) -> int:
        """How many results came too late. A lease is lost here only by a worker that was stopped
        past its end: whatever else happens is over sooner, or gives every lease a new term."""
        return sum(worker.refused() for worker in self.workers)

    def close(self) -> None:
        for worker in self.workers:
            worker.kill()
        self.proxy.close()
        self.server.stop()

    def __enter__(self) -> "Fleet":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Nemesis:
    """Does one evil after another until it is told to stop; then it makes everything good again."""

    def __init__(self, fleet: Fleet, seed: int, *, term_s: float) -> None:
        self.done: Counter[str] = Counter()
        self._fleet = fleet
        self._dice = Random(seed)
        self._term_s = term_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nemesis", daemon=True)
        self._trouble: BaseException | None = None

    def __enter__(self) -> "Nemesis":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._thread.join(STOP_S)
        if self._trouble is not None:
            raise self._trouble

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                evil = self._dice.choice(self._evils())
                self.done[evil.__name__.strip("_")] += 1
                evil()
                self._pause(self._dice.uniform(0.05, 0.4))
        except BaseException as error:  # noqa: BLE001 - told to whoever waits for the end
            self._trouble = error
        finally:
            self._make_good()

    def _evils(self) -> tuple[Callable[[], None], ...]:
        return (
            self._kill_a_worker, self._freeze_a_worker, *3 * (self._freeze_past_the_lease,),
            self._kill_the_server, self._bother_the_network, self._bother_the_network,
        )  # fmt: skip

    def _kill_a_worker(self) -> None:
        worker = self._dice.choice(self._fleet.workers)
        worker.kill()
        self._pause(self._dice.uniform(0.0, 0.3))
        worker.start()

    def _freeze_a_worker(self) -> None:
        self._freeze(1, self._dice.uniform(0.05, 0.5) * self._term_s)

    def _freeze_past_the_lease(self) -> None:
        """Some of them, or all. Their tasks go on in processes of their own, and what those come
        to is reported under leases that others may hold by then."""
        workers = self._dice.randint(1, len(self._fleet.workers))
        self._freeze(workers, self._dice.uniform(1.2, 2.0) * self._term_s)

    def _freeze(self, count: int, seconds: float) -> None:
        workers = self._dice.sample(self._fleet.workers, count)
        for worker in workers:
            worker.freeze()
        self._pause(seconds)
        for worker in workers:
            worker.thaw()

    def _kill_the_server(self) -> None:
        self._fleet.server.kill()
        self._pause(self._dice.uniform(0.0, 0.5))
        self._fleet.server.start()

    def _bother_the_network(self) -> None:
        self._fleet.proxy.misbehave(self._dice)

    def _make_good(self) -> None:
        self._fleet.proxy.delay_s, self._fleet.proxy.loses_answers = 0.0, 0
        for worker in self._fleet.workers:
            if worker.is_frozen:
                worker.thaw()

    def _pause(self, seconds: float) -> None:
        self._stopping.wait(seconds)


def wait_until(
    is_so: Callable[[], bool], patience_s: float = STOP_S, *, what: str = "it was not so"
) -> None:
    """Look again and again; an answer that never comes is an error that says so."""
    give_up_at = time.monotonic() + patience_s
    while not is_so():
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"in vain for {patience_s:g} s: {what}")
        time.sleep(0.02)
