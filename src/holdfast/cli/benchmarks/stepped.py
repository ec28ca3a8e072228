"""A real coordinator and a worker that only answers, stepped by hand: no thread, no disk.

What is left is the cost of deciding, recording, applying and placing. It is the same at every
run, so that memory can be counted and small differences can be seen.
"""

import psutil

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.exchanges import Exchanges
from holdfast.coordinator.ports import SystemClock, SystemDice
from holdfast.core import commands as c
from holdfast.core.decision import Refused
from holdfast.core.errors import BrokenInvariant
from holdfast.core.ids import NEVER, JobId, Position, WorkerId
from holdfast.core.record import Record
from holdfast.core.spec import JobSpec
from holdfast.core.state import State
from holdfast.wire.exchange import Capacity, Done, Exchange, Reply, Run

CHUNK_ITEMS = 1_000
PAYLOAD = b"\x91\xce\x00\x00\x00\x00"
RESULT = b"\xce\x00\x00\x00\x00"
SPEC = JobSpec(name="noop", kind="function", target="holdfast.cli.benchmarks.work:noop")
WORKER = WorkerId("bench")
CAPACITY = Capacity(2, 2_000, 1 << 40, 0)


class Stepped:
    """Durable at once: what is recorded is handed on and thrown away."""

    def __init__(self) -> None:
        self.coordinator = Coordinator(State(), SystemClock(NEVER), SystemDice())
        self._exchanges = Exchanges(self.coordinator, _read, term_ms=0)
        self._number = 0
        self._runs: tuple[Run, ...] = ()

    def execute(self, command: c.Command) -> None:
        decision = self.coordinator.execute(command, actor="bench")
        if isinstance(decision, Refused):
            raise BrokenInvariant(decision.message)

    def settle(self) -> None:
        batch = self.coordinator.take_batch()
        if batch is not None:
            self.coordinator.became_durable(batch.last)
        self.coordinator.settle()

    def open_map(self, job_id: JobId) -> None:
        self.execute(c.SubmitJob(job_id=job_id, spec=SPEC, sealed=False))
        self.settle()

    def feed(self, job_id: JobId, first: int, count: int) -> None:
        """More items for an open map, each payload an object of its own as in real life."""
        for start in range(first, first + count, CHUNK_ITEMS):
            stop = min(start + CHUNK_ITEMS, first + count)
            items = tuple([payload(index) for index in range(start, stop)])
            self.execute(c.AddTasks(job_id=job_id, first=start, items=items))
            self.settle()

    def submit_singles(self, first: int, count: int) -> None:
        """Jobs of one task each, a hundred to a frame."""
        for number in range(first, first + count):
            job_id = JobId(f"j{number:09d}")
            self.execute(c.SubmitJob(job_id=job_id, spec=SPEC, items=(payload(number),)))
            if number % 100 == 99:
                self.settle()
        self.settle()

    def work(self) -> int:
        """One exchange: what was granted is reported done, more is granted. How many were done."""
        done = tuple(
            [
                Done(run.job_id, item.index, item.lease_id, 0, RESULT)
                for run in self._runs
                for item in run.items
            ]
        )
        self._runs = ()
        seen, self._number = self._number, self._number + 1
        exchange = Exchange(
            WORKER, 1, self._number, seen, CAPACITY, (), done, (), (), (), 0, False
        )  # fmt: skip
        self._exchanges.take(exchange, self._receive)
        self._exchanges.round()
        self.settle()
        return len(done)

    def _receive(self, reply: Reply) -> None:
        self._runs = (*self._runs, *reply.runs)


def payload(number: int) -> bytes:
    """A call with one number, as msgpack writes it."""
    return b"\x91\xce" + number.to_bytes(4, "big")


def resident_bytes() -> int:
    """What the operating system holds for this process."""
    return int(psutil.Process().memory_info().rss)


def _read(position: Position) -> Record:
    raise BrokenInvariant(f"record {position} was asked for, and no report was late")
