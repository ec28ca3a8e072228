"""What a program knows of one job: filled by the coordinator, read by whoever waits.

Everything here is durable when it arrives. Whoever tells writes under the lock and never waits;
readers wait on the condition, async ones are called back.
"""

import threading
import weakref
from array import array
from collections.abc import Callable, Sequence
from typing import Any, Final

from holdfast.coordinator.watch import JobNow
from holdfast.core.ids import Index, JobId, Position
from holdfast.core.task import STATE_OF_CELL, TaskState

UNFINISHED = 255

SHOWN: Final = bytes(
    UNFINISHED
    if state < TaskState.COMMITTED
    else (TaskState.SUCCEEDED if state == TaskState.COMMITTED else state)
    for state in STATE_OF_CELL.ljust(256, b"\0")
)
"""What a watcher is shown of a cell: a result is ready at the commit, whatever is still owed."""


class FeedRef:
    """What whoever tells holds of a feed: gone when the last handle to the job is gone."""

    def __init__(self, feed: "JobFeed", leave: Callable[["FeedRef"], None]) -> None:
        self.job_id = feed.job_id
        # Weakly: what refers to itself is left to the collector, and there is one for every job.
        me = weakref.ref(self)
        self._feed = weakref.ref(feed, lambda _: _leave(me, leave))

    def has_begun(self) -> bool:
        feed = self._feed()
        return feed is not None and feed.begun

    def _tell(self, what: str, *args: Any) -> None:
        feed = self._feed()
        if feed is not None:
            getattr(feed, what)(*args)

    def begin(self, now: JobNow) -> None:
        self._tell("begin", now)

    def grown(self, count: int, sealed: bool) -> None:
        self._tell("grown", count, sealed)

    def finished(self, indices: Sequence[Index], state: TaskState, position: Position) -> None:
        self._tell("finished", indices, state, position)

    def reopened(self, indices: Sequence[Index]) -> None:
        self._tell("reopened", indices)

    def ended(self, state: str, reason: str) -> None:
        self._tell("ended", state, reason)

    def broken(self, error: Exception) -> None:
        self._tell("broken", error)

    def mended(self) -> None:
        self._tell("mended")


def _leave(ref: "weakref.ref[FeedRef]", leave: Callable[[FeedRef], None]) -> None:
    """The feed is gone; where whoever told it is gone as well, nobody needs to know."""
    me = ref()
    if me is not None:
        leave(me)


class JobFeed:
    """Cells, positions and the order of finishing, as far as they are durable."""

    def __init__(self, job_id: JobId) -> None:
        self.job_id = job_id
        self.changed = threading.Condition()
        self.begun = False
        self.sealed = False
        self.state = ""
        self.reason = ""
        self.error: BaseException | None = None
        self.cells = bytearray()
        self.positions: array[int] = array("Q")
        self.order: array[int] = array("I")
        self.superseded: set[int] = set()
        self.done_count = 0
        self._callbacks: list[Callable[[], None]] = []

    # Called by whoever tells: the coordinator's thread, or the one that reads a stream.

    def begin(self, now: JobNow) -> None:
        """The job as it stands. Told again, it is only news where it differs from what is known:
        whoever tells may have lost the thread meanwhile."""
        with self.changed:
            cells = now.states.translate(SHOWN)
            if self.begun:
                self._compare(cells, now.ends)
            else:
                self.cells = bytearray(cells)
                self.positions = now.ends
            done = len(cells) - cells.count(UNFINISHED)
            if done and not self.begun:
                self._append([place for place, cell in enumerate(cells) if cell != UNFINISHED])
            self.done_count = done
            self.sealed, self.state, self.reason = now.sealed, now.ended, now.reason
            self.begun = True
            self._announce()

    def grown(self, count: int, sealed: bool) -> None:
        with self.changed:
            self._grow(count)
            self.sealed = sealed
            self._announce()

    def finished(self, indices: Sequence[Index], state: TaskState, position: Position) -> None:
        with self.changed:
            # Readers look at the cells without the lock: a position stands before its cell tells.
            cells, positions = self.cells, self._places()
            if isinstance(indices, range):
                run = slice(indices.start, indices.stop)
                positions[run] = array("Q", (position,)) * len(indices)
                cells[run] = bytes((state,)) * len(indices)
            else:
                for index in indices:
                    positions[index] = position
                    cells[index] = state
            self.order.extend(indices)
            self.done_count += len(indices)
            self._announce()

    def reopened(self, indices: Sequence[Index]) -> None:
        with self.changed:
            self._supersede(indices)
            for index in indices:
                self.cells[index] = UNFINISHED
            self.done_count -= len(indices)
            self.state = self.reason = ""
            self._announce()

    def ended(self, state: str, reason: str) -> None:
        with self.changed:
            self.state, self.reason = state, reason
            self._announce()

    def broken(self, error: BaseException) -> None:
        with self.changed:
            self.error = error
            self._announce()

    def mended(self) -> None:
        """What broke is whole again: waiting makes sense anew."""
        with self.changed:
            self.error = None

    # Called by whoever waits.

    def wait_for(self, ready: Callable[[], bool], timeout: float | None) -> bool:
        """Wait until `ready`; False when the time is up. Raises what broke the coordinator."""
        with self.changed:
            in_time = self.changed.wait_for(lambda: self.error is not None or ready(), timeout)
        if self.error is not None and not ready():
            raise self.error
        return in_time

    def call_on_change(self, callback: Callable[[], None]) -> None:
        with self.changed:
            self._callbacks.append(callback)

    def drop_callback(self, callback: Callable[[], None]) -> None:
        with self.changed:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

    def _compare(self, cells: bytes, ends: "array[int]") -> None:
        """Take a new picture of a job that is known: what finished meanwhile is told in the order
        of the log, what finished again comes again, and what is known already is left alone."""
        self._grow(len(cells))
        known, places = self.cells, self._places()
        ends.frombytes(bytes(8 * (len(cells) - len(ends))))
        if known == cells and places == ends:
            return
        differ = [
            index
            for index, cell in enumerate(cells)
            if known[index] != cell or (cell != UNFINISHED and places[index] != ends[index])
        ]
        self._supersede([index for index in differ if known[index] != UNFINISHED])
        # In place, because readers hold on to both; and as ever the state last.
        places[:] = ends
        known[:] = cells
        self._append([index for index in differ if cells[index] != UNFINISHED])

    def _append(self, done: list[int]) -> None:
        self.order.extend(sorted(done, key=self.positions.__getitem__))

    def _supersede(self, indices: Sequence[int]) -> None:
        """The order only grows, because readers count along it; what no longer counts is named."""
        if indices:
            again = frozenset(indices)
            self.superseded.update(p for p, index in enumerate(self.order) if index in again)

    def _grow(self, count: int) -> None:
        more = count - len(self.cells)
        if more > 0:
            self.cells.extend(bytes([UNFINISHED]) * more)

    def _places(self) -> "array[int]":
        """The positions, as long as the cells: a job of which nothing has finished needs none."""
        missing = len(self.cells) - len(self.positions)
        if missing > 0:
            self.positions.frombytes(bytes(8 * missing))
        return self.positions

    def _announce(self) -> None:
        self.changed.notify_all()
        for callback in self._callbacks:
            callback()
