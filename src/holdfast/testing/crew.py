"""An agent for an executor under test: hands it tasks and collects what ended, and never polls."""

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from msgspec import structs

from holdfast.core.ids import Index, JobId, LeaseId
from holdfast.wire.exchange import Done, Failed, Item, Progress, Released, Run
from holdfast.worker.executor import Executor, Harvest, Left
from holdfast.worker.payloads import decode_result

PATIENCE_S = 60
TIMEOUT_MS = 5_000


class Ended(Protocol):
    """Any report of an attempt's end."""

    @property
    def lease_id(self) -> LeaseId: ...


class Crew:
    """An executor, and all that its attempts came to so far. `wakes` counts its rings."""

    def __init__(self, make: Callable[[Callable[[], None]], Executor]) -> None:
        self.wakes = 0
        self.done: list[Done] = []
        self.failed: list[Failed] = []
        self.released: list[Released] = []
        self.early: list[Done] = []
        self.left: list[Left] = []
        self.progress: list[Progress] = []
        self._bell = threading.Event()
        self._leases = itertools.count(1)
        self.executor = make(self._wake)
        self.executor.start()

    def assign(
        self,
        target: str,
        payloads: Sequence[bytes],
        *,
        slot: int = 0,
        job: str = "job",
        kind: str = "function",
        alone: bool = False,
        **terms: Any,
    ) -> list[LeaseId]:
        """Give a lane one run, and each task of it a lease of its own; `terms` are fields of the
        run."""
        leases = [LeaseId(next(self._leases)) for _ in payloads]
        items = tuple(
            Item(Index(place), lease, 1, payload)
            for place, (lease, payload) in enumerate(zip(leases, payloads, strict=True))
        )
        run = Run(JobId(job), slot, kind, target, TIMEOUT_MS, 0, alone, len(items), items)
        self.executor.assign(structs.replace(run, **terms))
        return leases

    def add(self, harvest: Harvest) -> None:
        self.done += harvest.done
        self.failed += harvest.failed
        self.released += harvest.released
        self.early += harvest.early
        self.left += harvest.left
        self.progress += harvest.progress

    def until(self, count: int) -> None:
        """Collect until this many attempts have ended, one way or another."""
        while len(self.done) + len(self.failed) + len(self.released) < count:
            self.hear_the_bell()

    def hear(self, words: Sequence[Any], count: int = 1) -> None:
        """Collect until so many are among these: commits made early, blocks left, progress."""
        while len(words) < count:
            self.hear_the_bell()

    def hear_the_bell(self) -> None:
        """Wait for a ring, and collect."""
        if not self._bell.wait(PATIENCE_S):
            raise TimeoutError("nothing ended in time")
        self._bell.clear()
        self.add(self.executor.harvest())

    def results(self) -> list[Any]:
        return [decode_result(done.result) for done in self.done]

    def leases(self, outcomes: Sequence[Ended]) -> list[LeaseId]:
        return [outcome.lease_id for outcome in outcomes]

    def _wake(self) -> None:
        self.wakes += 1
        self._bell.set()
