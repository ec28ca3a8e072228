"""One worker of a simulated cluster: an agent, an executor that runs nothing, and a bad network."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final, Protocol

from holdfast.core.ids import Index, JobId, WorkerId
from holdfast.testing.clock import ManualClock
from holdfast.testing.stepped import SteppedExecutor
from holdfast.wire.exchange import Capacity, Exchange, Hello, Reply
from holdfast.worker.agent import Agent

ASK_AGAIN_MS: Final = 3_000
MEMORY: Final = 1 << 30
GPUS: Final = 1

Action = Callable[[], None]


class Surroundings(Protocol):
    """What a worker finds around it: time, chance, a network, and somebody who looks."""

    dice: Random
    clock: ManualClock
    seen: Counter[str]

    def after(self, ms: int, action: Action) -> None: ...

    def wake(self, sleeper: object, instant: int, action: Action) -> None: ...

    def carry(self, message: Action) -> None: ...

    def deliver(self, member: "Member", exchange: Exchange) -> None: ...

    def look_at_what_runs(self, member: "Member") -> None: ...


class Member:
    """One worker's process: an agent, its executor, and a clock that differs from all others."""

    def __init__(
        self,
        cluster: Surroundings,
        name: str,
        incarnation: int,
        slots: int,
        *,
        attributes: tuple[tuple[str, str], ...] = (),
        resources: tuple[tuple[str, int], ...] = (),
        failing: float = 0.1,
        takes_ms: int | None = None,
    ) -> None:
        self.name = WorkerId(name)
        self.incarnation = incarnation
        self.is_alive = True
        self.is_frozen = False
        self.is_cut_off = False
        self.is_leaving = False
        self.executor = SteppedExecutor(
            slots, cluster.dice, failing=failing, takes_ms=takes_ms
        )
        self.capacity = Capacity(slots, slots * 1_000, MEMORY, GPUS, resources)
        self.attributes = attributes
        # One lock a name: whoever is started again proves that the former process is dead.
        hello = Hello("host", incarnation, "test", attributes=attributes, lock=name)
        self.agent = Agent(self.name, incarnation, self.executor, self.capacity, hello=hello)
        self._cluster = cluster
        self._offset = cluster.dice.randrange(1, 10**6)
        self._sent: Exchange | None = None

    def now_ms(self) -> int:
        return self._cluster.clock.now() + self._offset

    def poll(self) -> None:
        if not self.is_alive or self.is_frozen:
            return
        self.executor.advance(self.now_ms())
        self._cluster.look_at_what_runs(self)
        if self.is_leaving and self.agent.is_idle():
            self.agent.say_goodbye()
        exchange = self.agent.step(self.now_ms())
        if exchange is not None:
            self._sent = exchange
            self._send(exchange)
        dues = (self.executor.next_due(), self.agent.next_due(self.now_ms()))
        due = min((due for due in dues if due), default=0)
        if due:
            self._cluster.wake(self, due - self._offset, self.poll)

    def receive(self, reply: Reply) -> None:
        if not self.is_alive or self.is_frozen or self.is_cut_off:
            return
        if reply.refused:
            # Another of this name may be alive: say the very same again, later.
            self._cluster.seen["refused"] += 1
            return
        for verdict in (*reply.verdicts, *reply.stops):
            self._cluster.seen[verdict.verdict] += 1
        if self._sent is not None and reply.number == self._sent.number:
            self._sent = None
        self.agent.receive(reply, self.now_ms())
        self.poll()

    def freeze_for(self, ms: int) -> None:
        """The process is stopped and goes on later, with no idea that time has passed."""
        self.is_frozen = True
        self._cluster.after(ms, self._thaw)

    def cut_off_for(self, ms: int) -> None:
        """No message comes or goes; the process works on and does not know why nobody answers."""
        self.is_cut_off = True
        self._cluster.after(ms, self._reconnect)

    def _reconnect(self) -> None:
        self.is_cut_off = False

    def leave(self) -> None:
        """An orderly end: nothing more is taken, what runs is given back, and it says goodbye."""
        self.is_leaving = True
        self.agent.draining = True
        self.agent.finish(0)
        self.poll()

    def _thaw(self) -> None:
        self.is_frozen = False
        if self._sent is not None:
            self._send(self._sent)
        self.poll()

    def _send(self, exchange: Exchange) -> None:
        self._cluster.carry(partial(self._cluster.deliver, self, exchange))
        self._cluster.after(ASK_AGAIN_MS, partial(self._ask_again, exchange))

    def _ask_again(self, exchange: Exchange) -> None:
        """No answer yet: say the very same once more, as a transport does."""
        if self.is_alive and not self.is_frozen and self._sent is exchange:
            self._cluster.seen["asked again"] += 1
            self._send(exchange)

    def bound_tasks(self) -> set[tuple[JobId, Index]]:
        """What runs here and must not outlive its lease."""
        return {
            (running.job_id, running.index)
            for running in self.executor.running()
            if self.executor.is_bound(running.lease_id)
        }

    def has_too_much(self) -> bool:
        """Whether more runs here, wanted or not, than there is room for."""
        room = self.capacity
        cpus_milli, memory_bytes, gpus = self.executor.in_use()
        too_much = cpus_milli > room.cpus_milli or memory_bytes > room.memory_bytes
        named = dict(room.resources)
        used = self.executor.named_in_use().items()
        return (
            too_much
            or gpus > room.gpus
            or any(amount > named.get(name, 0) for name, amount in used)
        )
