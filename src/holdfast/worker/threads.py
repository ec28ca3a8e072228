"""Tasks in threads of this process: the cheapest way to run a function, and the least protected.

A thread cannot be killed. An attempt that nobody wants any more is given up: it keeps its lane
until the function returns, and what it returns is thrown away. For code that may hang or crash,
use processes.

Lanes share no lock. Who starts a task and who takes it back is settled by one set of unstarted
leases: whoever removes the lease from it owns the task, and removing is atomic.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import Protocol

from holdfast.core.ids import JobId, LeaseId
from holdfast.wire.exchange import Done, Lingering, Run
from holdfast.worker.bell import Bell
from holdfast.worker.calls import Calls
from holdfast.worker.copies import Original, end_copy
from holdfast.worker.current import enter_job
from holdfast.worker.executor import Harvest, Running
from holdfast.worker.functions import MissingGuard
from holdfast.worker.lanes import NO_BUNDLES, STEAL_MAX, Entry, Leases, Outcome, failed, released
from holdfast.worker.payloads import Bound
from holdfast.worker.results import INLINE_BYTES, Keep, Place, keeper_of
from holdfast.worker.troubles import describe


class Floor(Protocol):
    """What a lane needs of the executor it belongs to."""

    unstarted: set[LeaseId]
    outcomes: deque[Outcome]
    bell: Bell
    original: Original
    keep: Keep

    def doom(self, error: MissingGuard) -> None:
        """Nothing can run here: a lane has found out before its task began."""

    def steal(self, thief: "Lane") -> list[Entry]:
        """Unstarted tasks of the thief's job, taken from a lane that has more than it can run."""


class Lane:
    """One thread and the tasks waiting for it. The thread starts with the first task."""

    def __init__(self, number: int, floor: Floor, clock_ms: Callable[[], int]) -> None:
        self.queue: deque[Entry] = deque()
        self.job: JobId | None = None
        # The slot it works for: its own, or that of a lane it stands in for.
        self.slot = number
        # The attempt under way and when it began: one reference, so that readers see both or none.
        self.current: tuple[Entry, int] | None = None
        self._number = number
        self._floor = floor
        self._clock_ms = clock_ms
        self._inbox: SimpleQueue[bool] = SimpleQueue()
        self._is_idle = False
        self._thread: threading.Thread | None = None
        self._calls = Calls()

    # Called by the agent's thread.

    @property
    def is_free(self) -> bool:
        return self.current is None and not self.queue

    def give(self, run: Run, entries: list[Entry]) -> None:
        self.job, self.slot = run.job_id, run.slot
        self.queue.extend(entries)
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._work, name=f"holdfast-lane-{self._number}", daemon=True
            )
            self._thread.start()
        else:
            self.rouse()

    def rouse(self) -> None:
        if self._is_idle:
            self._inbox.put(True)

    def leave(self) -> None:
        self._inbox.put(False)

    def join(self, seconds: float) -> None:
        if self._thread is not None:
            self._thread.join(seconds)

    # Called by the lane's own thread.

    def _work(self) -> None:
        floor, queue, clock_ms = self._floor, self.queue, self._clock_ms
        take, report, bell = floor.unstarted.remove, floor.outcomes.append, floor.bell
        original, keep = floor.original, floor.keep
        prepared: Run | None = None
        call: Bound | None = None
        ended = clock_ms()
        while True:
            try:
                entry = queue.popleft()
            except IndexError:
                if not self._find_more():
                    break
                ended = clock_ms()
                continue
            run, item = entry
            try:
                take(item.lease_id)
            except KeyError:
                continue
            # One look at the clock a task: it begins when the one before it has ended.
            began = ended
            self.current = (entry, began)
            if run is not prepared:
                call, prepared = self._prepare(run), run
                enter_job(run.job_id)
            try:
                if call is None:
                    report(released(entry, started=False))
                else:
                    result = call(item)
                    if original.is_copy:
                        end_copy(None)
                    stored = None
                    if len(result) > INLINE_BYTES:
                        stored, result = keep(item.lease_id, result), b""
                    ended = clock_ms()
                    took = ended - began
                    report(Done(run.job_id, item.index, item.lease_id, took, result, (), stored))
            except BaseException as error:  # noqa: BLE001 - it ends this attempt alone
                trouble = describe(error)
                if original.is_copy:
                    end_copy(trouble)
                ended = clock_ms()
                report(failed(entry, ended - began, trouble))
            self.current = None
            if bell.is_quiet:
                bell.ring_soon()
        self._calls.close()

    def _find_more(self) -> bool:
        """Wait until there is something to do. False when the lane must end.

        Idle is said before the last look around, so that work which comes in between is never
        overlooked: whoever brings it sees the flag and leaves a token.
        """
        self._floor.bell.ring_if_due()
        self._is_idle = True
        self.queue.extend(self._floor.steal(self))
        goes_on = True if self.queue else self._inbox.get()
        self._is_idle = False
        return goes_on

    def _prepare(self, run: Run) -> Bound | None:
        """The call for this run; None when it turned out that nothing can run here."""
        try:
            return self._calls.prepare(run.kind, run.target)
        except MissingGuard as error:
            self._floor.doom(error)
            return None


class ThreadExecutor:
    """Lanes that are threads. See `holdfast.worker.executor.Executor` for what each method owes.
    All share one interpreter, so none has the code of a bundle; `bundles`: it is run without. They
    share one environment too, so no task finds there what it is. `results` is where large results
    go."""

    def __init__(
        self,
        slots: int,
        wake: Callable[[], None],
        clock_ms: Callable[[], int],
        *,
        bundles: bool = False,
        results: Place | None = None,
    ) -> None:
        self.slots = slots
        self.keep = keeper_of(results)
        self._bundles = bundles
        self.fatal: str | None = None
        self.fatal_kind: str | None = None
        self._leases = Leases()
        self.unstarted: set[LeaseId] = set()
        self.outcomes: deque[Outcome] = deque()
        self.bell = Bell(wake)
        self.original = Original()
        self._lanes = [Lane(number, self, clock_ms) for number in range(slots)]
        self._closing = False

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
        return self._leases.settle(self._drain())

    def running(self) -> list[Running]:
        found = []
        for lane in self._lanes:
            current = lane.current
            if current is not None and not self._leases.is_given_up(current[0][1].lease_id):
                found.append(self._leases.running(*current))
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
        # The lane may now be stuck for ever; what waits behind it is placed anew.
        for lane in filter(self._is_stuck, self._lanes):
            self._release([item.lease_id for _, item in tuple(lane.queue)])
        self.bell.ring()

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
        harvest = self._leases.settle(self._drain())
        left = [released(entry, started=True) for entry in self._leases.wanted()]
        harvest.released.extend(self._leases.settle(left).released)
        return harvest

    # What the lanes ask of their executor.

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
        return current is not None and self._leases.is_given_up(current[0][1].lease_id)

    def _take(self, lease_id: LeaseId) -> bool:
        """Make an unstarted task one's own. The lanes do the same; only one caller wins."""
        try:
            self.unstarted.remove(lease_id)
        except KeyError:
            return False
        return True

    def _drain(self) -> list[Outcome]:
        outcomes = self.outcomes
        return [outcomes.popleft() for _ in range(len(outcomes))]

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
