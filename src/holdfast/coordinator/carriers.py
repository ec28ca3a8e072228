"""Those who deliver what commits owe: who is there, who can, and who has fallen silent."""

from collections.abc import Mapping
from typing import Final

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.registry import Registry
from holdfast.coordinator.seats import Worker
from holdfast.core.debts import Owing, Place
from holdfast.core.ids import Instant, WorkerId
from holdfast.core.owed import EFFECT, FILE
from holdfast.wire.sinks import AnySink

PATIENCE_MS: Final = 15_000
"""How long somebody may be silent, at least, before what it has in hand is dealt out again."""


class Carriers:
    """`sinks` are where effects may go, by name. A file goes to those who say that its file system
    is their own; where none of them has been there for a while, to anybody who may see it."""

    def __init__(self, coordinator: Coordinator, registry: Registry) -> None:
        self.sinks: Mapping[str, AnySink] = {}
        self.patience_ms = max(coordinator.term_ms, PATIENCE_MS)
        self._coordinator = coordinator
        self._registry = registry
        self._since = coordinator.now()
        self._homeless: dict[str, Instant] = {}

    def all(self) -> list[Worker]:
        """Those who deliver anything: a thousand others may be there and must cost nothing."""
        workers = self._registry.workers
        known = self._registry.deliverers.values()
        return [worker for worker in known if workers.get(worker.worker) is worker]

    def living(self) -> list[Worker]:
        return [worker for worker in self.all() if self.is_alive(worker)]

    def is_alive(self, worker: Worker) -> bool:
        """Whether it may still be at what it has in hand."""
        if worker.has_left:
            return False
        is_waiting = worker.send is not None or not worker.term_ms
        return is_waiting or self._coordinator.now() < self._silent_at(worker)

    def _silent_at(self, worker: Worker) -> Instant:
        """Until when it may say nothing. Whoever waits long for an answer is not silent before it
        has one."""
        return Instant(max(worker.seen_at, worker.answered_at) + self.patience_ms)

    def is_there(self, name: WorkerId, incarnation: int) -> bool:
        worker = self._registry.workers.get(name)
        is_same = worker is not None and worker.incarnation == incarnation
        return worker is not None and is_same and self.is_alive(worker)

    def gone_at(self, name: WorkerId, incarnation: int) -> Instant:
        """When it counts as gone, if it says nothing more."""
        worker = self._registry.workers.get(name)
        if worker is None:
            return Instant(self._since + self.patience_ms)
        if worker.has_left or worker.incarnation != incarnation:
            # A name is given to another only when the former has gone.
            return self._coordinator.now()
        if worker.send is not None or not worker.term_ms:
            return Instant(self._coordinator.now() + self.patience_ms)
        return self._silent_at(worker)

    def may_take(self, worker: Worker, place: Place) -> bool:
        """Whether it can deliver there, as far as it says."""
        hello = worker.hello
        if hello is None:
            return False
        if place.kind == EFFECT:
            sink = self.sinks.get(place.name)
            return sink is not None and sink.where in hello.delivers
        if place.kind == FILE:
            return place.name in hello.places or self._is_homeless(place)
        return False

    def is_home(self, worker: Worker, owing: Owing) -> bool:
        """Whether the file lies on a file system of its own: then it is for nobody else."""
        if worker.hello is None or owing.debt.kind != FILE:
            return False
        return owing.debt.place in worker.hello.places

    def look_for_home(self, place: Place) -> None:
        """Note whether anybody of its own is there for a file system."""
        if place.kind != FILE:
            return
        if any(place.name in w.hello.places for w in self.living() if w.hello is not None):
            self._homeless.pop(place.name, None)
        else:
            self._homeless.setdefault(place.name, self._coordinator.now())

    def _is_homeless(self, place: Place) -> bool:
        since = self._homeless.get(place.name)
        return since is not None and self._coordinator.now() >= since + self.patience_ms

    def dues(self) -> list[Instant]:
        """When files may go to others than their own."""
        return [Instant(since + self.patience_ms) for since in self._homeless.values()]

    def prune(self) -> None:
        places = self._coordinator.state.debts.places
        self._homeless = {n: at for n, at in self._homeless.items() if (FILE, n) in places}
