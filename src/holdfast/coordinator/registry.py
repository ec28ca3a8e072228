"""Who works for us, as far as exchanges tell. Safe to lose: it is learnt again from the next ones.

A name belongs to one living worker. Another process of that name is let in when the former one is
known to be dead: it said goodbye, it was silent for a term, or the newcomer holds a lock on the
same machine that only one of them can hold. Whatever the former one held ends in one record.
"""

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.seats import FORMER, Worker
from holdfast.core import commands as c
from holdfast.core.ids import Instant, WorkerId
from holdfast.core.shape import shape_of
from holdfast.core.transactions import worker_registered
from holdfast.wire.exchange import Exchange, Hello

FORGET_MS = 3_600_000
"""How long a worker that fell silent is still listed."""


class Registry:
    """`term_ms` zero: workers inside this process, where a later incarnation always follows a
    dead one. `changed` names everybody who came, went or said something new of itself, until
    whoever keeps notes of that has taken it."""

    def __init__(self, coordinator: Coordinator, term_ms: int) -> None:
        self.workers: dict[WorkerId, Worker] = {}
        self._coordinator = coordinator
        self.term_ms = term_ms
        self.changed: set[WorkerId] = set()
        # Those who deliver anything: a thousand others may be there and must cost nothing.
        self.deliverers: dict[WorkerId, Worker] = {}

    def admit(self, exchange: Exchange) -> Worker | str:
        """Where this incarnation sits, or why it may not."""
        worker = self.workers.get(exchange.worker)
        if worker is None or worker.incarnation != exchange.incarnation:
            refusal = self._refusal(worker, exchange)
            if refusal:
                return refusal
            self.lose(exchange.worker, "it was started again", besides=exchange.incarnation)
            worker = self._seat(exchange)
        worker.seen_at = self._coordinator.now()
        if exchange.hello is not None:
            self._meet(worker, exchange.hello)
        return worker

    def is_alive(self, worker: Worker) -> bool:
        """Heard of within a term, or waiting for an answer at this moment, and not gone."""
        is_heard = worker.send is not None or self._silent_ms(worker) < self.term_ms
        return is_heard and not worker.has_left

    def is_silent(self, worker: Worker) -> bool:
        """Not heard of for a term, without a goodbye. Who is inside this process lives as long as
        it does."""
        is_unheard = worker.send is None and self._silent_ms(worker) >= self.term_ms
        return is_unheard and self.term_ms > 0 and not worker.has_left

    def missed(self, worker: Worker) -> int:
        """How many renewals it has missed since it was last heard of."""
        half = 0 if worker.has_left else self.term_ms // 2
        return self._silent_ms(worker) // half if half else 0

    def _silent_ms(self, worker: Worker) -> int:
        """How long we have listened and not heard of it. While it waited for an answer it was
        there; that may have been parked for longer than a term, and has leases in it that are good
        for another. What it says while we are away cannot be heard."""
        now = self._coordinator.now()
        there = max(worker.seen_at, worker.answered_at, self._coordinator.listening_since(now))
        return now - there

    def prune(self, now: Instant) -> None:
        """Let go of those that are long gone and hold nothing."""
        if not self.term_ms:
            return
        gone = [
            worker.worker
            for worker in self.workers.values()
            if now - worker.seen_at > FORGET_MS and not worker.has_leases(self._coordinator.state)
        ]
        for name in gone:
            self.forget(name)

    def forget(self, name: WorkerId) -> Worker | None:
        """Nobody of this name is known from now on; whom that was, if anybody."""
        self.changed.add(name)
        self.deliverers.pop(name, None)
        return self.workers.pop(name, None)

    def _refusal(self, worker: Worker | None, exchange: Exchange) -> str:
        name = exchange.worker
        if not self.term_ms:
            later = worker is not None and worker.incarnation > exchange.incarnation
            return "a later incarnation of this worker is at work" if later else ""
        if worker is not None:
            if not self.is_alive(worker) or _proves_death(exchange, worker):
                return ""
            where = f" on {worker.hello.host}" if worker.hello is not None else ""
            return f"another worker called {name} is at work{where}; give this one another name"
        held = sum(
            len(holder.leases)
            for (known, incarnation), holder in self._coordinator.state.holders.items()
            if known == name and incarnation != exchange.incarnation
        )
        if not held:
            return ""
        return f"a former worker called {name} may still hold {held} leases; wait for their end"

    def lose(self, name: WorkerId, error: str, *, besides: int | None = None) -> None:
        """End what incarnations of this name hold that are known to be dead."""
        state = self._coordinator.state
        holding = [key for key, holder in state.holders.items() if holder.leases]
        dead = {
            incarnation
            for known, incarnation in (*holding, *state.debts.blocks)
            if known == name and incarnation != besides
        }
        for incarnation in sorted(dead):
            self._coordinator.execute(
                c.LoseWorker(worker=name, incarnation=incarnation, error=error),
                actor=f"worker:{name}",
            )

    def _seat(self, exchange: Exchange) -> Worker:
        fresh = Worker(exchange.worker, exchange.incarnation, exchange.capacity)
        fresh.term_ms = self.term_ms
        fresh.since = self._coordinator.now()
        # Whoever drained it told a coordinator before this one; the worker remembers.
        fresh.drained = exchange.draining and exchange.worker in self._coordinator.state.cordoned
        holder = self._coordinator.state.holders.get((exchange.worker, exchange.incarnation))
        if holder is not None:
            # Granted by a coordinator before this one, whose answer may still be on its way. Once
            # the worker has heard from us it takes no older answer, and says so: a message that was
            # long on its way may be of a time when it had not even asked for what it runs now.
            fresh.unseen = ((FORMER, frozenset(holder.leases)),)
            jobs = self._coordinator.state.jobs
            for task in holder.leases.values():
                fresh.give((task.lease_id,), task.slot, shape_of(jobs[task.job_id]))
        self.workers[exchange.worker] = fresh
        self.changed.add(exchange.worker)
        return fresh

    def _meet(self, worker: Worker, hello: Hello) -> None:
        if worker.hello == hello:
            return
        worker.hello = hello
        if hello.delivers or hello.places:
            self.deliverers[worker.worker] = worker
        self.changed.add(worker.worker)
        notice = worker_registered(worker.worker, hello.address or hello.host)
        self._coordinator.notices.append((self._coordinator.now(), notice))


def _proves_death(exchange: Exchange, former: Worker) -> bool:
    """The newcomer holds the very lock that the former one held when it introduced itself."""
    if exchange.hello is None or former.hello is None or not exchange.hello.lock:
        return False
    same = exchange.hello.lock == former.hello.lock
    return same and exchange.incarnation > former.incarnation
