"""A lane that is a thread, and the tasks it runs one after another."""

import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol

from holdfast.core.ids import JobId, LeaseId
from holdfast.wire.exchange import Done, Progress, Run
from holdfast.worker.bell import Bell
from holdfast.worker.calls import Calls
from holdfast.worker.copies import Original, end_copy
from holdfast.worker.executor import Left
from holdfast.worker.functions import MissingGuard
from holdfast.worker.lanes import Aside, Entry, Outcome, failed, released
from holdfast.worker.payloads import Bound
from holdfast.worker.results import INLINE_BYTES, Keep
from holdfast.worker.seat import Promises, Seat, enter, lost, promised
from holdfast.worker.staging import Workbench
from holdfast.worker.troubles import Trouble, describe


class Floor(Protocol):
    """What a lane needs of the executor it belongs to."""

    unstarted: set[LeaseId]
    outcomes: deque[Outcome]
    asides: deque[Aside]
    bell: Bell
    original: Original
    worker: str
    keep: Keep
    workbench: Workbench

    def is_stopping(self, lease_id: LeaseId) -> bool:
        """Whether this attempt was asked to end."""

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
        self.current: Seat | None = None
        # What the task has promised, where it asked for its context.
        self.context: Promises | None = None
        self.worker = floor.worker
        self.keep, self.workbench = floor.keep, floor.workbench
        self.clock_ms = clock_ms
        # The attempt that waits for what comes of its commit.
        self._asking: LeaseId | None = None
        self._verdicts: SimpleQueue[str] = SimpleQueue()
        self._number = number
        self._floor = floor
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

    def answer(self, lease_id: LeaseId, why: str) -> None:
        """What came of the commit that this attempt waits for, if it still does."""
        if self._asking == lease_id:
            self._asking = None
            self._verdicts.put(why)

    def refuse(self, why: str) -> None:
        """Whoever waits for its commit here waits in vain."""
        if self._asking is not None:
            self.answer(self._asking, why)

    # Called by the task that runs here, in whatever thread.

    def is_stopping(self, lease_id: LeaseId) -> bool:
        return self._floor.is_stopping(lease_id)

    def tell(self, progress: Progress) -> None:
        self._aside(progress)

    def commit(self, done: Done) -> str:
        self._asking = done.lease_id
        self._aside(done)
        return self._verdicts.get()

    def left(self, lease_id: LeaseId, error: str) -> None:
        self._aside(Left(lease_id, error))

    def _aside(self, word: Aside) -> None:
        self._floor.asides.append(word)
        self._floor.bell.ring()

    # Called by the lane's own thread.

    def _work(self) -> None:
        floor, queue, clock_ms = self._floor, self.queue, self.clock_ms
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
            self.current = seat = (entry, began, self)
            enter(seat)
            if run is not prepared:
                call, prepared = self._prepare(run), run
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
                    owed = () if self.context is None else promised(self, seat)
                    ended = clock_ms()
                    took = ended - began
                    report(Done(run.job_id, item.index, item.lease_id, took, result, owed, stored))
            except BaseException as error:  # noqa: BLE001 - it ends this attempt alone
                trouble = describe(error)
                if original.is_copy:
                    end_copy(trouble)
                lost(self, seat, error)
                ended = clock_ms()
                report(self._failed(seat, ended - began, trouble))
            self.current = None
            if self.context is not None:
                self.context = None
            if bell.is_quiet:
                bell.ring_soon()
        self._calls.close()

    def _failed(self, seat: Seat, ran_ms: int, trouble: Trouble) -> Outcome:
        """One that knew it was asked to end, and so did not come to its own, is nobody's fault."""
        entry = seat[0]
        knew = self.context is not None and self.context.knew_to_stop
        return released(entry, started=True) if knew else failed(entry, ran_ms, trouble)

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
