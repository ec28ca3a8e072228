"""A real agent with real processes under it, and a desk in the place of the coordinator."""

import itertools
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from holdfast.core.ids import Index, JobId, LeaseId, WorkerId
from holdfast.core.reports import Failed, Released
from holdfast.wire.exchange import (
    LEASE_LOST,
    Capacity,
    Exchange,
    Hello,
    Item,
    PartitionNews,
    Reply,
    Run,
    Sample,
    Verdict,
    is_empty,
)
from holdfast.wire.service import SERVICE, ServicePlan, encode_plan
from holdfast.worker.agent import Agent
from holdfast.worker.attendant import Attendant
from holdfast.worker.commands import CommandExecutor
from holdfast.worker.sampling import Meter
from holdfast.worker.servicebook import ServiceBook
from holdfast.worker.services import ServiceExecutor
from holdfast.worker.surroundings import Surroundings

PATIENCE_S: Final = 60
PYTHON: Final = sys.executable
HERE: Final = "127.0.0.1"

SERVE: Final = """
import http.server, os
at = ('127.0.0.1', int(os.environ['PORT']))
http.server.ThreadingHTTPServer(at, http.server.SimpleHTTPRequestHandler).serve_forever()
"""

# Says its number to whoever connects.
TALK: Final = """
import os, socket, sys
line = socket.create_server(('127.0.0.1', int(os.environ['PORT'])))
print(os.getpid(), flush=True)
while True:
    line.accept()[0].sendall(str(os.getpid()).encode())
"""
FOREVER: Final = "import os, signal; print(os.getpid(), flush=True); signal.pause()"
DEAF: Final = """
import os, signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'],
                         start_new_session=True)
print(os.getpid(), child.pid, flush=True)
while True:
    signal.pause()
"""


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class ServiceStage:
    """What is reported is answered at once, and so is everything where there is something to say;
    the rest is parked. Nothing is answered while the desk `is_away`."""

    def __init__(self, scratch: Path, *, slots: int = 3, host: str = HERE) -> None:
        self.scratch = scratch
        environment = {**os.environ, "HOLDFAST_SECRET_KEY": "hunter2-hunter2"}
        surroundings = Surroundings(scratch / "worker", WorkerId("w"), environment=environment)
        self._bell = threading.Event()
        book = self.book = ServiceBook()
        self.attendant = Attendant(book, self._bell.set, monotonic_ms, Meter())
        self.commands = CommandExecutor(
            slots, self._bell.set, monotonic_ms, surroundings, companion=self.attendant,
            # Longer than anybody waits: what has no grace of its own would show.
            grace_ms=10 * PATIENCE_S * 1_000,
        )  # fmt: skip
        executor = ServiceExecutor(self.commands, self.attendant, book, monotonic_ms, host)
        executor.start()
        self.agent = Agent(
            WorkerId("w"), 1, executor, Capacity(slots, 0, 0, 0), services=book,
            hello=Hello("host", os.getpid(), "0"),
        )  # fmt: skip
        self.is_away = False
        self.is_drained = False
        self.asks_who = False
        self.heard: list[tuple[LeaseId, str, str]] = []
        self.addresses: dict[LeaseId, str] = {}
        self.samples: list[Sample] = []
        self.partitions: list[PartitionNews] = []
        self.failed: list[Failed] = []
        self.released: list[Released] = []
        self.held: tuple[LeaseId, ...] = ()
        self.scrapes: list[LeaseId] = []
        self._parked: Exchange | None = None
        self._runs: list[Run] = []
        self._stops: list[Verdict] = []
        self._leases = itertools.count(1)

    def give(self, *argv: str, slot: int = 0, **plan: Any) -> LeaseId:
        return self.give_payload(encode_plan(ServicePlan(argv=argv, **plan)), slot)

    def give_payload(self, payload: bytes, slot: int = 0) -> LeaseId:
        lease = LeaseId(next(self._leases))
        item = Item(Index(0), lease, 1, payload)
        self._runs.append(Run(JobId(f"j{lease}"), slot, SERVICE, "", 0, 0, False, 1, (item,)))
        self.agent.speak_up()
        return lease

    def python(self, code: str, slot: int = 0, **plan: Any) -> LeaseId:
        return self.give(PYTHON, "-uc", code, slot=slot, **plan)

    def stop(self, lease: LeaseId) -> None:
        self._stops.append(Verdict(lease, LEASE_LOST, "stopped"))
        self.agent.speak_up()

    def turn(self) -> None:
        while (exchange := self.agent.step(monotonic_ms())) is not None:
            self._parked = exchange
            if self.is_away or (is_empty(exchange) and not self.has_orders()):
                return
            self._answer(exchange)

    def _answer(self, exchange: Exchange) -> None:
        self.held = exchange.held
        for news in exchange.services:
            self.heard.append((news.lease_id, news.state, news.why))
            self.addresses[news.lease_id] = news.address
        self.samples += exchange.samples
        self.partitions += exchange.partitions
        self.failed += exchange.failed
        self.released += exchange.released
        runs, self._runs = self._runs, []
        stops, self._stops = self._stops, []
        who, self.asks_who = self.asks_who, False
        scrapes, self.scrapes = self.scrapes, []
        reply = Reply(
            exchange.number, (), tuple(stops), (), tuple(runs), who=who, drain=self.is_drained,
            scrapes=tuple(scrapes),
        )  # fmt: skip
        self.agent.receive(reply, monotonic_ms())

    def has_orders(self) -> bool:
        """Whether whoever is at the desk has something to say."""
        told = (self._runs, self._stops, self.asks_who, self.scrapes)
        return any(told) or self.is_drained != self.agent.is_drained

    def come_back(self) -> None:
        """The desk answers again, first what was said to it last."""
        self.is_away = False
        if self._parked is not None:
            self._answer(self._parked)

    def until(self, is_so: Callable[[], bool]) -> None:
        """The agent is stepped as a worker steps it: when it is woken, and when it is due."""
        give_up_at = time.monotonic() + PATIENCE_S
        self.turn()
        while not is_so():
            if time.monotonic() >= give_up_at:
                raise TimeoutError(f"it did not come in time: {self.heard}")
            is_woken = self._bell.wait(0.02)
            due_ms = self.agent.next_due(monotonic_ms())
            if is_woken or 0 < due_ms <= monotonic_ms() or self.has_orders():
                self._bell.clear()
                self.turn()

    def states(self, lease: LeaseId) -> list[str]:
        return [state for known, state, _ in self.heard if known == lease]

    def why(self, lease: LeaseId) -> str:
        return next(why for known, _, why in reversed(self.heard) if known == lease)

    def until_state(self, lease: LeaseId, state: str) -> None:
        self.until(lambda: self.states(lease)[-1:] == [state])

    def output(self, lease: LeaseId, stream: str = "stdout") -> str:
        found = list((self.scratch / "worker" / "outputs").glob(f"*-{lease}/{stream}"))
        return found[0].read_text() if found else ""

    def pids(self, lease: LeaseId) -> list[int]:
        """What a replica that prints its numbers has printed."""
        return [int(word) for word in self.output(lease).split() if word.isdigit()]

    def ask(self, lease: LeaseId) -> bytes:
        """Whatever the replica says to a connection."""
        host, _, port = self.addresses[lease].rpartition(":")
        with socket.create_connection((host, int(port)), PATIENCE_S) as line:
            return line.recv(100)

    def close(self) -> None:
        self.agent.finish(0)

    def folders(self) -> list[str]:
        return os.listdir(self.scratch / "worker" / "attempts")
