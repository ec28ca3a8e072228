"""A thousand class runtimes brought up and then left alone: how long it takes, and what it costs
to look at them all again.

The coordinator, its loop and its own workers' seats are the real ones; the workers only talk: what
they are given they call ready, in the messages in which a real one would. There is no disk.
"""

import sys
import time
from pathlib import Path
from typing import Final

from holdfast.cli.benchmarks.row import Figure, Row, RowFailed, Values, at_most, main
from holdfast.cli.benchmarks.stepped import resident_bytes
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.exchanges import Exchanges
from holdfast.coordinator.ports import SystemClock, SystemDice
from holdfast.coordinator.reconciling.hook import Reconciling
from holdfast.coordinator.ticker import Rounds, Ticker
from holdfast.core import commands_resources as r
from holdfast.core.decision import Refused
from holdfast.core.errors import BrokenInvariant
from holdfast.core.ids import NEVER, LeaseId, Position, WorkerId
from holdfast.core.record import Record
from holdfast.core.state import State
from holdfast.runtimes.manifest import ClassRuntime, decode, encode
from holdfast.runtimes.resource import API_VERSION, KIND
from holdfast.runtimes.spec import Spec
from holdfast.runtimes.status import Phase
from holdfast.wire.exchange import Capacity, Exchange, Hello, Reply, Started
from holdfast.wire.servicing import READY, ServiceNews

SLOTS: Final = 64
SPARE_WORKERS: Final = 2
TERM_MS: Final = 60_000
PATIENCE_S: Final = 300.0
KEEP_FINISHED: Final = 10_000
LOOKS_A_STEP: Final = 1_000


class Keeper:
    """A coordinator that keeps runtimes, durable at once, and as many workers as they take."""

    def __init__(self, replicas: int) -> None:
        self.coordinator = Coordinator(
            State(), SystemClock(NEVER), SystemDice(), term_ms=TERM_MS
        )
        self.exchanges = Exchanges(self.coordinator, _read, term_ms=TERM_MS)
        self.reconciling = Reconciling(self.coordinator, self.exchanges, _read)
        ticker = Ticker(self.coordinator, keep_finished=KEEP_FINISHED)
        rounds = Rounds(self.coordinator, self.exchanges)
        self._hooks = (ticker, self.reconciling, rounds)
        count = -(-replicas // SLOTS) + SPARE_WORKERS
        self.workers = [Talker(self.exchanges, number) for number in range(count)]

    def apply(self, name: str, spec: Spec) -> None:
        command = r.PutResource(kind=KIND, name=name, spec=encode(spec))
        decision = self.coordinator.execute(command, actor="bench")
        if isinstance(decision, Refused):
            raise RowFailed(decision.message)
        self.settle()

    def turn(self) -> None:
        now = self.coordinator.now()
        for hook in self._hooks:
            hook.step(now)
        self.settle()
        for worker in self.workers:
            worker.talk()
        self.settle()

    def settle(self) -> None:
        batch = self.coordinator.take_batch()
        if batch is not None:
            self.coordinator.became_durable(batch.last)
        self.coordinator.settle()

    def is_due(self) -> bool:
        """Whether a runtime is to be looked at now."""
        due = self.reconciling.next_due()
        return due != NEVER and due <= self.coordinator.now()

    def available(self) -> int:
        return self.reconciling.tally.phases().get(Phase.AVAILABLE, 0)


class Talker:
    """A worker that calls ready what it is given. It speaks when it has something to say."""

    def __init__(self, exchanges: Exchanges, number: int) -> None:
        self._exchanges = exchanges
        self._name = WorkerId(f"w{number}")
        self._hello: Hello | None = Hello(f"host-{number}", number + 1, "bench")
        self._number = 0
        self._epoch = 0
        self._replies: list[Reply] = []
        self._held: list[LeaseId] = []

    def talk(self) -> None:
        began: list[Started] = []
        news: list[ServiceNews] = []
        for reply in self._replies:
            self._epoch = reply.epoch
            for run in reply.runs:
                for item in run.items:
                    self._held.append(item.lease_id)
                    began.append(Started(run.job_id, item.index, item.lease_id, 0))
                    address = f"{self._name}:{item.lease_id}"
                    news.append(ServiceNews(item.lease_id, READY, address))
        if self._number and not self._replies:
            return
        self._replies = []
        seen, self._number = self._number, self._number + 1
        exchange = Exchange(
            self._name, 1, self._number, seen, Capacity(SLOTS, SLOTS * 1_000, 1 << 40, 0),
            tuple(began), (), (), (), tuple(self._held), 0, False, self._hello,
            services=tuple(news), epoch=self._epoch,
        )  # fmt: skip
        self._hello = None
        self._exchanges.take(exchange, self._replies.append)


def run(size: int, folder: Path) -> Values:
    keeper, spec = Keeper(size), _spec()
    before = resident_bytes()
    began, began_ns = time.perf_counter(), time.process_time_ns()
    for number in range(size):
        keeper.apply(f"r{number}", spec)
    while keeper.available() < size:
        keeper.turn()
        if time.perf_counter() - began > PATIENCE_S:
            raise RowFailed(f"{keeper.available()} of {size} are available after {PATIENCE_S:g} s")
    took_s, spent_s = time.perf_counter() - began, (time.process_time_ns() - began_ns) / 1e9
    grown = resident_bytes() - before
    while keeper.is_due():
        keeper.turn()
    written = keeper.coordinator.state.position
    spent_ms = _resync(keeper, size)
    return {
        "available": took_s,
        "spent": spent_s,
        "records": keeper.coordinator.state.position - written,
        "resync": spent_ms,
        "memory": grown / size / 1_024,
    }


def _resync(keeper: Keeper, size: int) -> float:
    """Every runtime looked at once; the processor time of that."""
    reconciler = keeper.reconciling.reconciler
    for number in range(size):
        reconciler.enqueue(f"r{number}")
    began = time.process_time_ns()
    while keeper.is_due():
        reconciler.step(keeper.coordinator.now(), most=LOOKS_A_STEP)
    spent_ms = (time.process_time_ns() - began) / 1e6
    keeper.settle()
    return spent_ms


def _spec() -> Spec:
    command = ["python3", "-m", "http.server", "$PORT"]
    functions = [{"key": "hello", "command": command, "health": {"path": "/"}}]
    spec = {"template": "dev", "functions": functions}
    runtime = decode(
        {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "measured"}, "spec": spec}
    )
    if not isinstance(runtime, ClassRuntime):
        raise RowFailed(str(runtime))
    return runtime.spec


def _read(position: Position) -> Record:
    raise BrokenInvariant(f"record {position} was asked for, and nothing crashed")


ROW = Row(
    name="runtimes",
    what="1,000 class runtimes of one function, brought up and looked at again",
    figures=(
        Figure("available", "until all of them are available", "s", at_most(60)),
        Figure("spent", "processor time of that", "s"),
        Figure("records", "records written by looking at all of them again", "", at_most(0)),
        Figure("resync", "processor time of that look", "ms"),
        Figure("memory", "memory of each", "KiB"),
    ),
    size=1_000,
    quick_size=100,
    run=run,
)

if __name__ == "__main__":
    sys.exit(main(ROW, sys.argv[1:]))
