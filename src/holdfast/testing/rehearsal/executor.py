"""An executor that runs the user's own functions at virtual instants.

It ends what it is told to end, as one with processes does: a body that is stopped never goes on.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from holdfast.core.ids import LeaseId
from holdfast.testing.rehearsal.lane import Lane
from holdfast.wire.exchange import Lingering, Run
from holdfast.worker.executor import Harvest, Running
from holdfast.worker.lanes import CLOSING, NO_BUNDLES, Aside, Leases, Outcome, failed, released
from holdfast.worker.results import Place, keeper_of
from holdfast.worker.staging import Bench, Workbench


class Reach(Protocol):
    """Tells that a body has come to a point; raises where its worker does not go on from here."""

    def __call__(self, moment: str, run: Run, note: str = "") -> None: ...


class BodyExecutor:
    """See `holdfast.worker.executor.Executor` for what each method owes."""

    fatal: str | None = None
    fatal_kind: str | None = None

    def __init__(
        self,
        slots: int,
        worker: str,
        clock_ms: Callable[[], int],
        reach: Reach,
        *,
        results: Place,
        bench: Bench,
    ) -> None:
        self.slots = slots
        self.worker = worker
        self.reach = reach
        self.keep = keeper_of(results)
        self.workbench = Workbench(bench)
        self.outcomes: deque[Outcome] = deque()
        self.asides: deque[Aside] = deque()
        self._clock_ms = clock_ms
        self._leases = Leases()
        self._is_draining = False
        self._lanes = [Lane(number, self) for number in range(slots)]

    # Called by whoever drives.

    def advance(self, now_ms: int) -> None:
        """Let everything run that can run at this instant."""
        for lane in self._lanes:
            lane.advance(now_ms)

    def next_due(self) -> int:
        """When the next body wants to go on; zero for never."""
        return min((due for lane in self._lanes if (due := lane.next_due())), default=0)

    def is_busy(self) -> bool:
        """Whether anything runs here, or is about to."""
        return any(lane.current is not None or lane.queue for lane in self._lanes)

    def end(self) -> None:
        """The test is over: no thread is left behind."""
        for lane in self._lanes:
            lane.close()

    # What the agent asks.

    def start(self) -> None:
        """There is nothing to bring up."""

    def assign(self, run: Run) -> None:
        entries = self._leases.admit(run)
        if run.bundle:
            self.outcomes.extend(failed(entry, 0, NO_BUNDLES) for entry in entries)
        else:
            self._lanes[run.slot].queue.extend(entries)

    def harvest(self) -> Harvest:
        return self._leases.gather(self.outcomes, self.asides, self._clock_ms(), self._refuse)

    def running(self) -> list[Running]:
        seats = [lane.current for lane in self._lanes if lane.body is not None]
        return [
            self._leases.running(*seat[:2])
            for seat in seats
            if seat is not None and not self._leases.is_over(seat[0][1].lease_id)
        ]

    def recall(self, lease_ids: frozenset[LeaseId]) -> None:
        for lane in self._lanes:
            back = [entry for entry in lane.queue if entry[1].lease_id in lease_ids]
            for entry in back:
                lane.queue.remove(entry)
                self.outcomes.append(released(entry, started=False))

    def stop(self, lease_id: LeaseId, grace_ms: int | None = None) -> None:
        if self._leases.give_up(lease_id):
            self._kill(lease_id)

    def cut_off(self, lease_id: LeaseId, grace_ms: int) -> None:
        self._kill(lease_id)

    def drain(self) -> None:
        self._is_draining = True

    def answer(self, lease_id: LeaseId, why: str) -> None:
        for lane in self._lanes:
            lane.answer(lease_id, why)

    def hold_until(self, ends_ms: int, kill_ms: int) -> None:
        """Left to whoever calls `stop`: nothing here is frozen without being told."""

    def lingering(self) -> tuple[Lingering, ...]:
        lanes = {
            lane.current[0][1].lease_id: lane.number
            for lane in self._lanes
            if lane.current is not None
        }
        return self._leases.lingering(lanes)

    def close(self, grace_ms: int) -> Harvest:
        self._is_draining = True
        for lane in self._lanes:
            self.recall(frozenset(entry[1].lease_id for entry in lane.queue))
            current = lane.current
            if current is not None:
                lane.answer(current[0][1].lease_id, CLOSING)
                lane.kill()
        return self._leases.gather_last(self.outcomes, self.asides)

    # What the lanes ask.

    def clock_ms(self) -> int:
        return self._clock_ms()

    def is_stopping(self, lease_id: LeaseId) -> bool:
        return self._is_draining

    def _refuse(self, lease_id: LeaseId) -> None:
        """It was ended when it was given up, and waits for no answer."""

    def _kill(self, lease_id: LeaseId) -> None:
        """End this attempt, wherever it is."""
        self.recall(frozenset((lease_id,)))
        for lane in self._lanes:
            if lane.current is not None and lane.current[0][1].lease_id == lease_id:
                entry = lane.kill()
                if entry is not None:
                    self.outcomes.append(released(entry, started=True))
