"""Tasks in warm processes: a crash or an endless loop costs one task, never the worker.

Each lane has a child that stays from task to task. Killing one is always possible, so an attempt
that nobody wants any more really ends, and with it everything it started in its process group.
"""

import os
import threading
import time
from collections.abc import Callable, Sequence

from holdfast.core.ids import LeaseId
from holdfast.wire.exchange import Lingering, Run
from holdfast.worker.bearings import LOCAL_WORKER
from holdfast.worker.executor import Harvest, Running
from holdfast.worker.guarding import Guardian, NoGuardian
from holdfast.worker.keeper import Keeper
from holdfast.worker.lanes import GIVEN_UP, NO_BUNDLES, Leases, failed, released
from holdfast.worker.orders import Answer, Assign, Close, Recall, Retire, Stop
from holdfast.worker.outbox import Shown
from holdfast.worker.prints import LanePrints
from holdfast.worker.results import Place
from holdfast.worker.slate import NO_LEASE
from holdfast.worker.staging import Bench
from holdfast.worker.warm import starter


class ProcessExecutor:
    """Lanes that are processes. See `holdfast.worker.executor.Executor` for what each owes.

    `kill_grace_ms` is how long a child that must end may take before it is killed outright.
    `dooms`: a program without a guard, which belongs to whoever runs this, ends all of it; where
    programs are strangers' it fails their tasks alone. `prints`: where the tasks of each lane
    print; without, they print where this program does. `bundles` is the folder in which unpacked
    bundles are found by their digests. `worker` is what tasks are told they run on. `results` is
    where large results go, `bench` how files are staged.
    """

    def __init__(
        self,
        slots: int,
        wake: Callable[[], None],
        clock_ms: Callable[[], int],
        *,
        kill_grace_ms: int = 2000,
        dooms: bool = True,
        prints: Sequence[LanePrints] = (),
        guardian: Guardian | None = None,
        bundles: str = "",
        worker: str = LOCAL_WORKER,
        results: Place | None = None,
        bench: Bench | None = None,
    ) -> None:
        self.slots = slots
        self._clock_ms = clock_ms
        self._bundles = bundles
        self._leases = Leases()
        start = starter(
            os.getcwd(), dooms=dooms, bundles=bundles, worker=worker, results=results,
            bench=bench,
        )
        self._keeper = Keeper(slots, wake, kill_grace_ms, guardian or NoGuardian(), start)
        for lane, its in zip(self._keeper.lanes, prints, strict=False):
            lane.prints = its
        self._thread: threading.Thread | None = None
        self._is_closed = False

    @property
    def fatal(self) -> str | None:
        """Why nothing can run here, once that is known."""
        return self._keeper.doom[1] if self._keeper.doom is not None else None

    @property
    def fatal_kind(self) -> str | None:
        """`MissingGuard` or `ChildrenCannotStart`, once nothing can run here."""
        return self._keeper.doom[0] if self._keeper.doom is not None else None

    def start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._keeper.keep, name="holdfast-keeper", daemon=True
            )
            self._thread.start()

    def assign(self, run: Run) -> None:
        entries = self._leases.admit(run)
        if self._is_closed:
            self._keeper.outcomes.extend(released(entry, started=False) for entry in entries)
            return
        if run.bundle and not self._bundles:
            self._keeper.outcomes.extend(failed(entry, 0, NO_BUNDLES) for entry in entries)
            return
        self.start()
        self._keeper.lanes[run.slot].is_retired = False
        self._keeper.tell(Assign(run, entries))

    def harvest(self) -> Harvest:
        if self._thread is not None and not self._thread.is_alive():
            return self._last_harvest()
        keeper = self._keeper
        return self._leases.gather(keeper.outcomes, keeper.asides, self._clock_ms(), self._refuse)

    def running(self) -> list[Running]:
        now_ms, now_ns = self._clock_ms(), time.monotonic_ns()
        found: list[Running] = []
        for lane in () if self._is_closed else self._keeper.lanes:
            lease, since_ns = lane.slate.named()
            entry = self._leases.entry(LeaseId(lease)) if lease != NO_LEASE else None
            if entry is not None and not self._leases.is_over(LeaseId(lease)):
                since_ms = now_ms - (now_ns - since_ns) // 1_000_000
                found.append(self._leases.running(entry, since_ms))
        return found

    def retire(self, slot: int) -> None:
        """Give this slot nothing more of what waits in others; it is wanted for something else."""
        if self._thread is None:
            self._keeper.lanes[slot].is_retired = True
        else:
            self._keeper.tell(Retire(slot))

    def is_free(self, slot: int) -> bool:
        """Whether a retired slot has come to rest. It stays so until it is assigned something."""
        lane = self._keeper.lanes[slot]
        return lane.is_retired and not lane.queue and not lane.inside

    def showing(self) -> list[Shown]:
        """What the tasks that run now have printed so far, where that is known."""
        found: list[Shown] = []
        for lane in () if self._is_closed else self._keeper.lanes:
            if lane.prints is not None:
                found.extend(lane.prints.shown(lane.slate, self._leases.entry))
        return found

    def recall(self, lease_ids: frozenset[LeaseId]) -> None:
        self._keeper.tell(Recall(lease_ids))

    def stop(self, lease_id: LeaseId, grace_ms: int | None = None) -> None:
        if self._leases.give_up(lease_id):
            self._keeper.tell(Stop(lease_id, None if grace_ms is None else grace_ms / 1_000))

    def cut_off(self, lease_id: LeaseId, grace_ms: int) -> None:
        self._keeper.tell(Stop(lease_id, grace_ms / 1_000, is_wanted=True))

    def drain(self) -> None:
        """A child is asked when it is ended."""

    def answer(self, lease_id: LeaseId, why: str) -> None:
        self._keeper.tell(Answer(lease_id, why))

    def hold_until(self, ends_ms: int, kill_ms: int) -> None:
        """Left to whoever calls `stop`."""

    def lingering(self) -> tuple[Lingering, ...]:
        if self._is_closed:
            return ()
        named = [LeaseId(lane.slate.named()[0]) for lane in self._keeper.lanes]
        return self._leases.lingering({lease: number for number, lease in enumerate(named)})

    def close(self, grace_ms: int) -> Harvest:
        if not self._is_closed:
            self._is_closed = True
            self.start()
            self._keeper.tell(Close(time.monotonic() + grace_ms / 1000))
            if self._thread is not None:
                self._thread.join()
            for lane in self._keeper.lanes:
                lane.close()
        return self._last_harvest()

    def _last_harvest(self) -> Harvest:
        """Nothing runs any more. What the keeper could not answer for is given back."""
        return self._leases.gather_last(self._keeper.outcomes, self._keeper.asides)

    def _refuse(self, lease_id: LeaseId) -> None:
        self.answer(lease_id, GIVEN_UP)
