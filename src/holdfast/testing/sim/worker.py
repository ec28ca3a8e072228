"""One life of a worker's process: the real agent and the real line to the server, and tasks that
run nothing and take the time that chance gives them."""

from collections.abc import Callable
from random import Random
from typing import Final, Protocol

import msgspec

from holdfast.core.ids import Index, JobId, LeaseId, WorkerId
from holdfast.testing.receivers import World
from holdfast.testing.sim.machines import Machine, Process
from holdfast.testing.sim.network import Network
from holdfast.testing.sim.plan import Scenario
from holdfast.testing.sim.programs import CountedPorts, ProgramExecutor, SteppedAttendant
from holdfast.testing.sim.timed import TimedDeliverer, TimedExecutor
from holdfast.wire.delivery import SERVER, WORKERS
from holdfast.wire.exchange import Capacity, Exchange, Hello, Reply
from holdfast.wire.sinks import AnySink, FileSink, FunctionSink
from holdfast.worker.agent import Agent
from holdfast.worker.executor import Executor
from holdfast.worker.parcels import Parcels
from holdfast.worker.remote import Remote, Terms
from holdfast.worker.servicebook import ServiceBook
from holdfast.worker.services import ServiceExecutor

MEMORY: Final = 1 << 30
FOREVER_S: Final = 1e9
SINKS: Final[dict[str, AnySink]] = {
    "ledger": FileSink(path="/ledger", tries=5, longest_wait="8s"),
    "call": FunctionSink(target="m:f", tries=5, longest_wait="8s"),
}

_encode = msgspec.msgpack.Encoder().encode
_decode_reply = msgspec.msgpack.Decoder(Reply).decode


class Witness(Protocol):
    """Whoever is told what workers do and hear."""

    def answered(self, worker: str, sent: Exchange, reply: Reply) -> None: ...

    def ran(self, worker: "Worker") -> None: ...

    def fired(self, name: str) -> None: ...


class Worker:
    """`incarnation` tells it from those of its name that were there before."""

    def __init__(
        self,
        scenario: Scenario,
        machine: Machine,
        name: str,
        incarnation: int,
        network: Network,
        world: World,
        witness: Witness,
        *,
        died: Callable[[BaseException], None],
        failed: Callable[[str], None],
    ) -> None:
        self.name = name
        self.incarnation = incarnation
        self.machine = machine
        self.process = Process(machine, name, died, failed)
        dice = Random(f"{scenario.seed}:{name}:{incarnation}")
        clock_ms = machine.boot_ms
        self.programs: ProgramExecutor | None = None
        self.executor, runs, book = self._executors(scenario, dice, witness)
        self.deliverer = TimedDeliverer(scenario, world, dice, clock_ms, self._set_alarm)
        delivers = (SERVER, WORKERS) if name in ("w0", "w1") else (WORKERS,)
        hello = Hello("host", incarnation, "test", lock=name, delivers=delivers)
        capacity = Capacity(scenario.slots, scenario.slots * 1_000, MEMORY, 0)
        parcels = Parcels(self.deliverer) if scenario.owing else None
        self.agent = Agent(
            WorkerId(name), incarnation, runs, capacity, hello=hello, parcels=parcels,
            services=book,
        )  # fmt: skip
        self.is_leaving = False
        self._dice = dice
        self._network = network
        self._witness = witness
        self._alarm_us = 0
        self.process.post(self._begin)

    def _executors(
        self, scenario: Scenario, dice: Random, witness: Witness
    ) -> tuple[TimedExecutor, Executor, ServiceBook]:
        """What tasks run in, what the agent sees of it, and what is told of services."""
        clock_ms, book = self.machine.boot_ms, ServiceBook()
        if not scenario.runtimes:
            executor = TimedExecutor(scenario, dice, clock_ms, self._began)
            return executor, executor, book
        programs = ProgramExecutor(scenario, dice, clock_ms, self._began, witness.fired)
        attendant = SteppedAttendant(book, self._wake, clock_ms, self.process, programs)
        programs.began = attendant.begun
        self.programs = programs
        ports = CountedPorts()
        services = ServiceExecutor(programs, attendant, book, clock_ms, self.machine.name, ports)
        return programs, services, book

    def _wake(self) -> None:
        self._remote.wake()

    def _begin(self) -> None:
        terms = Terms(first_contact_s=FOREVER_S, drain_ms=5_000)
        self._remote = Remote(
            self.agent, self._carry, clock_ms=self.machine.boot_ms, tell=_unheard, terms=terms,
            between=self._between,
        )  # fmt: skip
        self.process.create_task(self._work())

    async def _work(self) -> None:
        await self._remote.work()
        self.is_leaving = True

    def be_calm(self) -> None:
        """From now on nothing here goes wrong by itself."""
        self.executor.be_calm()
        self.deliverer.be_calm()

    def leave(self) -> None:
        """An orderly end, when its process comes to it."""
        self.process.post(self._ask_to_leave)

    def _ask_to_leave(self) -> None:
        self._remote.leave()

    async def _carry(self, exchange: Exchange, answer_s: float) -> Reply:
        content = await self._network.call(self.process, _encode(exchange), answer_s)
        reply = _decode_reply(content)
        self._witness.answered(self.name, exchange, reply)
        return reply

    # Tasks and deliveries end by themselves, not because the agent looks.

    def _advance(self) -> None:
        now_ms = self.machine.boot_ms()
        self.executor.advance(now_ms)
        self.deliverer.advance(now_ms)
        self._remote.wake()
        self._began()

    def _began(self) -> None:
        """What runs is as it should be by now: what is over has ended, and others have begun. Where
        something else has happened, to whoever was frozen, that may still be to come."""
        self._witness.ran(self)
        self._set_alarm()

    def _set_alarm(self) -> None:
        dues = (self.executor.next_due(), self.deliverer.next_due())
        due = min((due for due in dues if due), default=0)
        if due and due != self._alarm_us:
            self._alarm_us = due
            self.process.call_at(due / 1_000, self._ring, due)

    def _ring(self, due: int) -> None:
        if self._alarm_us == due:
            self._alarm_us = 0
            self._advance()

    def _between(self, least: float, most: float) -> float:
        return self._dice.uniform(least, most)

    def bound_tasks(self) -> set[tuple[JobId, Index]]:
        """What runs here and must not outlive its lease."""
        return {
            (running.job_id, running.index)
            for running in self.executor.running()
            if self.executor.is_bound(running.lease_id)
        }

    def ran_twice(self) -> list[LeaseId]:
        return [lease for lease, times in self.executor.ran.items() if times > 1]


def _unheard(line: str) -> None:
    """Nobody reads what a simulated worker prints."""
