"""One life of a worker's process: the real agent and the real line to the server, and tasks that
run nothing and take the time that chance gives them."""

from collections.abc import Callable, Iterable
from random import Random
from typing import Final, Protocol

import msgspec

from holdfast.core.ids import Index, JobId, LeaseId, WorkerId
from holdfast.core.owed import EFFECT, Entry
from holdfast.core.spec import STOP
from holdfast.testing.receivers import SteppedDeliverer, World
from holdfast.testing.sim.agenda import mixed
from holdfast.testing.sim.machines import Machine, Process
from holdfast.testing.sim.network import Network
from holdfast.testing.sim.plan import Scenario
from holdfast.testing.stepped import Attempt, SteppedExecutor, answer_to
from holdfast.wire.delivery import SERVER, WORKERS, Parcel
from holdfast.wire.exchange import Capacity, Done, Exchange, Hello, Reply, Run
from holdfast.wire.sinks import AnySink, FileSink, FunctionSink
from holdfast.worker.agent import Agent
from holdfast.worker.parcels import Parcels
from holdfast.worker.remote import Remote, Terms

MEMORY: Final = 1 << 30
FOREVER_S: Final = 1e9
KEYS: Final = ("", "ann", "bob")
SINKS: Final[dict[str, AnySink]] = {
    "ledger": FileSink(path="/ledger", tries=5, longest_wait="8s"),
    "call": FunctionSink(target="m:f", tries=5, longest_wait="8s"),
}

_encode = msgspec.msgpack.Encoder().encode
_decode_reply = msgspec.msgpack.Decoder(Reply).decode


def owed_by(payload: bytes) -> tuple[Entry, ...]:
    """What the task of this payload owes, wherever it runs."""
    chance = mixed(*payload)
    return tuple(
        Entry(
            EFFECT, ("ledger", "ledger", "call")[mixed(chance, n) % 3],
            KEYS[mixed(chance, n, 5) % 3], payload,
        )
        for n in range(chance % 4)
    )  # fmt: skip


class Witness(Protocol):
    """Whoever is told what workers do and hear."""

    def answered(self, worker: str, sent: Exchange, reply: Reply) -> None: ...

    def ran(self, worker: "Worker") -> None: ...


class TimedExecutor(SteppedExecutor):
    """Attempts take up to `longest_ms`, those that must not outlive their leases often longer than
    a lease. Their tasks owe what their payloads say, where they owe anything. `changed` is called
    when something has begun."""

    def __init__(
        self,
        scenario: Scenario,
        dice: Random,
        clock_ms: Callable[[], int],
        changed: Callable[[], None],
    ) -> None:
        super().__init__(scenario.slots, dice, failing=scenario.failing)
        self._scenario = scenario
        self._clock_ms = clock_ms
        self._changed = changed
        self._is_calm = False

    def assign(self, run: Run) -> None:
        super().assign(run)
        self.advance(self._clock_ms())
        self._changed()

    def _begin(self, attempt: Attempt, now_ms: int) -> None:
        self.ran[attempt.item.lease_id] += 1
        attempt.since = now_ms
        longest = self._scenario.longest_ms
        if attempt.run.on_disconnect == STOP and self._dice.random() < 0.3:
            longest = 2 * self._scenario.term_ms
        if self._is_calm and attempt.run.timeout_ms:
            longest = min(longest, attempt.run.timeout_ms // 2)
        attempt.until = now_ms + self._dice.randrange(1 + longest)

    def done_of(self, attempt: Attempt, ran_ms: int) -> Done:
        run, item = attempt.run, attempt.item
        owed = owed_by(item.payload) if self._scenario.owing else ()
        result = answer_to(item.payload)
        return Done(run.job_id, item.index, item.lease_id, ran_ms, result, owed)

    def alone(self) -> list[LeaseId]:
        """What runs and was to begin only when its start was durable."""
        heads = [lane[0] for lane in self._lanes if lane and lane[0].since and lane[0].run.alone]
        return [head.item.lease_id for head in heads]

    def be_calm(self) -> None:
        """From now on every attempt goes well, and ends before its timeout."""
        self._failing = 0.0
        self._is_calm = True


class TimedDeliverer(SteppedDeliverer):
    """Begins with what it is given the moment it is."""

    def __init__(
        self,
        scenario: Scenario,
        world: World,
        dice: Random,
        clock_ms: Callable[[], int],
        changed: Callable[[], None],
    ) -> None:
        # A place is served one after another: all that is owed must fit into the calm.
        longest_ms = min(max(2, scenario.longest_ms), 500)
        super().__init__(world, dice, failing=2 * scenario.failing, longest_ms=longest_ms)
        self._clock_ms = clock_ms
        self._changed = changed

    def give(self, parcels: Iterable[Parcel]) -> None:
        super().give(parcels)
        self.advance(self._clock_ms())
        self._changed()


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
        self.executor = TimedExecutor(scenario, dice, clock_ms, self._set_alarm)
        self.deliverer = TimedDeliverer(scenario, world, dice, clock_ms, self._set_alarm)
        delivers = (SERVER, WORKERS) if name in ("w0", "w1") else (WORKERS,)
        hello = Hello("host", incarnation, "test", lock=name, delivers=delivers)
        capacity = Capacity(scenario.slots, scenario.slots * 1_000, MEMORY, 0)
        parcels = Parcels(self.deliverer) if scenario.owing else None
        self.agent = Agent(
            WorkerId(name), incarnation, self.executor, capacity, hello=hello, parcels=parcels
        )
        self.is_leaving = False
        self._dice = dice
        self._network = network
        self._witness = witness
        self._alarm_us = 0
        self.process.post(self._begin)

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
        self._set_alarm()

    def _set_alarm(self) -> None:
        self._witness.ran(self)
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
