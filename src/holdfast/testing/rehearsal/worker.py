"""One worker of a rehearsal: the real agent, the user's functions, a process that can be struck."""

from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from holdfast.core.ids import JobId, WorkerId
from holdfast.testing.rehearsal.blows import COMMIT, Struck
from holdfast.testing.rehearsal.executor import BodyExecutor
from holdfast.testing.rehearsal.sink import RehearsedDeliverer
from holdfast.version import VERSION
from holdfast.wire.delivery import SERVER, WORKERS
from holdfast.wire.exchange import Capacity, Exchange, Hello, Reply, Run
from holdfast.worker.agent import Agent
from holdfast.worker.parcels import Parcels
from holdfast.worker.places import own_place
from holdfast.worker.results import Place
from holdfast.worker.staging import Bench

MEMORY: Final = 1 << 40
SIGN_MS: Final = 1_800_000
"""How often a worker with nothing to say says so: one not heard of for an hour is forgotten."""


class Around(Protocol):
    """What a worker finds around it."""

    functions: dict[str, Callable[..., Any]]
    place: Place
    bench: Bench

    def now_ms(self) -> int: ...

    def reach(self, worker: "Worker", moment: str, job_id: JobId, note: str = "") -> None:
        """Somebody here has come to a point. Raises `Struck` where it does not go on from it."""

    def send(self, worker: "Worker", exchange: Exchange) -> None: ...


class Worker:
    """`sent` is what was said last and has no answer. What comes while it is frozen waits."""

    def __init__(
        self,
        around: Around,
        name: str,
        incarnation: int,
        slots: int,
        resources: tuple[tuple[str, int], ...],
    ) -> None:
        self.name = WorkerId(name)
        self.incarnation = incarnation
        self.is_alive = True
        self.is_frozen = False
        self.sent: Exchange | None = None
        self._around = around
        self._spoke_at = around.now_ms()
        self._inbox: deque[tuple[Exchange, Reply]] = deque()
        self.executor = BodyExecutor(
            slots, name, around.now_ms, self._reach_body, results=around.place, bench=around.bench
        )
        self.deliverer = RehearsedDeliverer(
            around.now_ms, around.functions, own_place(), self._reach_effect
        )
        hello = Hello(
            "rehearsal", incarnation, VERSION, delivers=(WORKERS, SERVER), places=(own_place(),),
            lock=name,
        )  # fmt: skip
        capacity = Capacity(slots, slots * 1_000, MEMORY, 0, resources)
        self.agent = Agent(
            self.name, incarnation, self.executor, capacity, hello=hello,
            parcels=Parcels(self.deliverer),
        )  # fmt: skip

    def step(self) -> bool:
        """Do what can be done at this instant. False where there was nothing."""
        if not self.is_alive or self.is_frozen:
            return False
        try:
            return self._step()
        except Struck:
            return True

    def _step(self) -> bool:
        has_heard = bool(self._inbox)
        while self._inbox:
            told, reply = self._inbox[0]
            if told.done and reply.number == told.number:
                self._reach_commits(told)
            self._inbox.popleft()
            self.agent.receive(reply, self._around.now_ms())
        self.executor.advance(self._around.now_ms())
        self.deliverer.advance()
        now_ms = self._around.now_ms()
        if now_ms - self._spoke_at >= SIGN_MS:
            self.agent.speak_up()
        exchange = self.agent.step(now_ms)
        if exchange is None:
            return has_heard
        self._spoke_at = now_ms
        self.sent = exchange
        self._around.send(self, exchange)
        return True

    def take(self, told: Exchange, reply: Reply) -> None:
        """An answer has come."""
        if not self.is_alive or reply.refused:
            return
        if self.sent is not None and reply.number == self.sent.number:
            self.sent = None
        self._inbox.append((told, reply))

    def say_again(self) -> None:
        """Whoever was told is gone: say the very same to whoever is there now."""
        if self.is_alive and not self.is_frozen and self.sent is not None:
            self._around.send(self, self.sent)

    def is_busy(self) -> bool:
        return bool(self._inbox) or self.executor.is_busy() or not self.agent.is_idle()

    def next_due(self) -> int:
        """When something happens here that nobody announces; zero for never."""
        if not self.is_alive or self.is_frozen:
            return 0
        dues = (
            self.executor.next_due(),
            self.agent.next_due(self._around.now_ms()),
            self._spoke_at + SIGN_MS,
        )
        return min((due for due in dues if due), default=0)

    def _reach_body(self, moment: str, run: Run, note: str = "") -> None:
        self._around.reach(self, moment, run.job_id, note)

    def _reach_effect(self, job_id: JobId) -> None:
        self._around.reach(self, "effect", job_id)

    def _reach_commits(self, told: Exchange) -> None:
        for job_id in dict.fromkeys(done.job_id for done in told.done):
            self._around.reach(self, COMMIT, job_id)

