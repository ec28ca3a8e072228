"""Real workers beside a real server, and a nemesis that kills, freezes and cuts them off.

Everything here is a process of its own on loopback. The nemesis follows one seed, so what it did
can be done again; when processes meet it is up to the machine, so a run proves what it shows and
not more.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

from holdfast.testing.loopback import ServerProcess
from holdfast.testing.proxy import Proxy
from holdfast.worker.remote import TOO_LATE

STOP_S: Final = 30.0
_REFUSED: Final = re.compile(rf"{TOO_LATE} (\d+)")


class WorkerProcess:
    """`holdfast worker start`, in a session of its own, to be ended in any way there is."""

    def __init__(self, url: str, token_file: Path, name: str, folder: Path) -> None:
        self.name = name
        self.is_frozen = False
        self._command = [
            sys.executable, "-m", "holdfast", "worker", "start", "--server", url,
            "--token-file", str(token_file), "--name", name, "--slots", "2",
        ]  # fmt: skip
        self._said = folder / f"{name}.txt"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._said.open("ab") as said:
            self._process = subprocess.Popen(
                self._command, stdout=said, stderr=said, start_new_session=True
            )

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        self._reap()

    def freeze(self) -> None:
        """It stops in the middle of whatever it does, and does not know it."""
        self._signal(signal.SIGSTOP)
        self.is_frozen = True

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)
        self.is_frozen = False

    def leave(self) -> None:
        """Ask it to go, and wait until it has gone."""
        if self.is_frozen:
            self.thaw()
        self._signal(signal.SIGTERM)
        self._reap()

    def said(self) -> str:
        return self._said.read_text(encoding="utf-8", errors="replace")

    def refused(self) -> int:
        """How many of its results were refused because their leases were lost, over all its lives,
        by what it was told and said."""
        return sum(map(int, _REFUSED.findall(self.said())))

    def _signal(self, number: signal.Signals) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            os.kill(process.pid, number)

    def _reap(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(STOP_S)


class Fleet:
    """One server, some workers, and a bad network between them."""

    def __init__(self, folder: Path, *, workers: int, term: str) -> None:
        self.server = ServerProcess(folder, "--lease-term", term)
        self.server.start()
        self.proxy = Proxy(int(self.server.url.rpartition(":")[2])).start()
        self.url = f"http://127.0.0.1:{self.proxy.port}"
        self.workers = [
            WorkerProcess(self.url, self.server.token_file, f"w{number}", folder)
            for number in range(workers)
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


def wait_until(is_so: Callable[[], bool], patience_s: float = STOP_S) -> None:
    """Look again and again; an answer that never comes is an error that says so."""
    give_up_at = time.monotonic() + patience_s
    while not is_so():
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"it was not so for {patience_s:g} s")
        time.sleep(0.02)
