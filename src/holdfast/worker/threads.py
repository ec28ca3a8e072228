"""Tasks in threads of this process: the cheapest way to run a function, and the least protected.

A thread cannot be killed. An attempt that nobody wants any more is given up: it keeps its lane
until the function returns, and what it returns is thrown away. For code that may hang or crash,
use processes.

Lanes share no lock. Who starts a task and who takes it back is settled by one set of unstarted
leases: whoever removes the lease from it owns the task, and removing is atomic.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable

from holdfast.core.ids import LeaseId
from holdfast.wire.exchange import Lingering, Run
from holdfast.worker.bearings import LOCAL_WORKER
from holdfast.worker.bell import Bell
from holdfast.worker.copies import Original
from holdfast.worker.executor import Harvest, Running
from holdfast.worker.functions import MissingGuard
from holdfast.worker.lanes import (
    CLOSING,
    GIVEN_UP,
    NO_BUNDLES,
    STEAL_MAX,
    Aside,
    Entry,
    Leases,
    Outcome,
    failed,
    released,
)
from holdfast.worker.results import Place, keeper_of
from holdfast.worker.staging import Bench, Workbench
from holdfast.worker.threadlane import Lane


class ThreadExecutor:
    """Lanes that are threads. See `holdfast.worker.executor.Executor` for what each method owes.
    All share one interpreter, so none has the code of a bundle; `bundles`: it is run without. They
    share one environment too, so no task finds there what it is. `results` is where large results
    go, `bench` how files are staged."""

    def __init__(
        self,
        slots: int,
        wake: Callable[[], None],
        clock_ms: Callable[[], int],
        *,
        bundles: bool = False,
        worker: str = LOCAL_WORKER,
        results: Place | None = None,
        bench: Bench | None = None,
    ) -> None:
        self.slots = slots
        self.keep = keeper_of(results)
        self.workbench = Workbench(bench)
        self.worker = worker
        self._clock_ms = clock_ms
        self._bundles = bundles
        self.fatal: str | None = None
        self.fatal_kind: str | None = None
        self._leases = Leases()
        self.unstarted: set[LeaseId] = set()
        self.outcomes: deque[Outcome] = deque()
        self.asides: deque[Aside] = deque()
        self.bell = Bell(wake)
        self.original = Original()
        self._lanes = [Lane(number, self, clock_ms) for number in range(slots)]
        self._closing = False
        self._is_draining = False

    def start(self) -> None:
        """Nothing to do: a lane's thread starts with its first task."""

    def assign(self, run: Run) -> None:
        entries = self._leases.admit(run)
        lane = self._lane_for(run)
        if self.fatal is not None or self._closing or lane is None:
            self.outcomes.extend(released(entry, started=False) for entry in entries)
            self.bell.ring()
            return
        if run.bundle and not self._bundles:
            self.outcomes.extend(failed(entry, 0, NO_BUNDLES) for entry in entries)
            self.bell.ring()
            return
        self.unstarted.update([item.lease_id for item in run.items])
        lane.give(run, entries)
        if len(lane.queue) > 1:
            self._rouse_idle(lane)

    def harvest(self) -> Harvest:
        self.bell.hush()
        if self.fatal is not None:
            self._release(list(self.unstarted))
        has_asides = bool(self.asides)
        harvest = self._leases.gather(self.outcomes, self.asides, self._clock_ms(), self._refuse)
        if has_asides and self._free_the_stuck():
            self.bell.ring()
        return harvest

    def running(self) -> list[Running]:
        found = []
        for lane in self._lanes:
            current = lane.current
            if current is not None and not self._leases.is_over(current[0][1].lease_id):
                found.append(self._leases.running(*current[:2]))
        return found

    def recall(self, lease_ids: frozenset[LeaseId]) -> None:
        if self._release(lease_ids):
            self.bell.ring()

    def stop(self, lease_id: LeaseId, grace_ms: int | None = None) -> None:
        entry = self._leases.entry(lease_id)
        if entry is None or not self._leases.give_up(lease_id):
            return
        if self._take(lease_id):
            self.outcomes.append(released(entry, started=False))
            return
        self._free_the_stuck()
        self.bell.ring()

    def drain(self) -> None:
        self._is_draining = True

    def answer(self, lease_id: LeaseId, why: str) -> None:
        for lane in self._lanes:
            lane.answer(lease_id, why)

    def cut_off(self, lease_id: LeaseId, grace_ms: int) -> None:
        """A thread cannot be ended; it is answered for when it has returned."""

    def hold_until(self, ends_ms: int, kill_ms: int) -> None:
        """Left to whoever calls `stop`."""

    def lingering(self) -> tuple[Lingering, ...]:
        lanes = {
            current[0][1].lease_id: number
            for number, lane in enumerate(self._lanes)
            if (current := lane.current) is not None
        }
        return self._leases.lingering(lanes)

    def close(self, grace_ms: int) -> Harvest:
        self._closing = True
        self._release(list(self.unstarted))
        deadline = time.monotonic() + grace_ms / 1000
        for lane in self._lanes:
            lane.leave()
        for lane in self._lanes:
            if not self._is_stuck(lane):
                lane.join(max(0.0, deadline - time.monotonic()))
        self.bell.end()
        for lane in self._lanes:
            lane.refuse(CLOSING)
        return self._leases.gather_last(self.outcomes, self.asides)

    # What the lanes ask of their executor.

    def is_stopping(self, lease_id: LeaseId) -> bool:
        return self._is_draining or self._closing or self._leases.is_given_up(lease_id)

    def doom(self, error: MissingGuard) -> None:
        self.fatal_kind = type(error).__name__
        self.fatal = str(error)
        self.bell.ring()

    def steal(self, thief: "Lane") -> list[Entry]:
        """Half of what waits in the longest lane that runs the thief's job, from its end."""
        others = [lane for lane in self._lanes if lane is not thief and lane.job == thief.job]
        victim = max(others, key=lambda lane: len(lane.queue), default=None)
        if victim is None or thief.job is None:
            return []
        stolen: list[Entry] = []
        waiting = len(victim.queue)
        # A lane that is in no task starts the first itself.
        share = (waiting + (victim.current is not None)) // 2
        while len(stolen) < min(share, STEAL_MAX):
            try:
                entry = victim.queue.pop()
            except IndexError:
                break
            if entry[0].job_id != thief.job or entry[0].alone:
                victim.queue.append(entry)
                victim.rouse()
                break
            stolen.append(entry)
        stolen.reverse()
        return stolen

    def _lane_for(self, run: Run) -> Lane | None:
        """The lane of the run's slot, or the one that stands in while that is stuck.

        A coordinator counts how many lanes are left, not which. None when it did not know yet.
        """
        home = self._lanes[run.slot]
        if not self._is_stuck(home):
            return home
        able = [lane for lane in self._lanes if not self._is_stuck(lane)]
        for lane in able:
            if lane.slot == run.slot:
                return lane
        return next((lane for lane in able if lane.is_free), None)

    def _is_stuck(self, lane: Lane) -> bool:
        current = lane.current
        return current is not None and self._leases.is_over(current[0][1].lease_id)

    def _refuse(self, lease_id: LeaseId) -> None:
        self.answer(lease_id, GIVEN_UP)

    def _free_the_stuck(self) -> bool:
        """A lane may be stuck for ever; what waits behind it is placed anew. False for nothing."""
        stuck = [lane for lane in self._lanes if self._is_stuck(lane)]
        return self._release([item.lease_id for lane in stuck for _, item in tuple(lane.queue)])

    def _take(self, lease_id: LeaseId) -> bool:
        """Make an unstarted task one's own. The lanes do the same; only one caller wins."""
        try:
            self.unstarted.remove(lease_id)
        except KeyError:
            return False
        return True

    def _release(self, lease_ids: Iterable[LeaseId]) -> bool:
        """Give back those of these that have not started. False when all of them have."""
        found = False
        for lease_id in lease_ids:
            entry = self._leases.entry(lease_id)
            if entry is not None and self._take(lease_id):
                self.outcomes.append(released(entry, started=False))
                found = True
        return found

    def _rouse_idle(self, busy: "Lane") -> None:
        for lane in self._lanes:
            if lane is not busy and lane.job is not None and lane.job == busy.job:
                lane.rouse()
