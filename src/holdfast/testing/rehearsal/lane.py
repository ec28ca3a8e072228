"""A lane that hands the turn to one body after another: what a task finds under `current()`."""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from holdfast.core.ids import LeaseId
from holdfast.testing.rehearsal.blows import BLOCK, BODY, START
from holdfast.testing.rehearsal.bodies import Body, current_body
from holdfast.testing.rehearsal.errors import Curtain, NotRehearsed
from holdfast.wire.exchange import Done, Progress, Run
from holdfast.worker.bearings import Ids
from holdfast.worker.calls import Calls
from holdfast.worker.context import Context
from holdfast.worker.executor import Left
from holdfast.worker.lanes import Aside, Entry, Outcome, failed, released
from holdfast.worker.progressing import Teller
from holdfast.worker.results import INLINE_BYTES, Keep
from holdfast.worker.seat import Promises, Seat, enter, lost, promised
from holdfast.worker.staging import Workbench
from holdfast.worker.troubles import describe


class Floor(Protocol):
    """What a lane needs of the executor it belongs to."""

    worker: str
    keep: Keep
    workbench: Workbench
    outcomes: deque[Outcome]
    asides: deque[Aside]

    def clock_ms(self) -> int: ...

    def is_stopping(self, lease_id: LeaseId) -> bool: ...

    def reach(self, moment: str, run: Run, note: str = "") -> None:
        """A body is at this point. Raises where its worker does not go on from here."""


class EveryWord(Teller):
    """Passes every word on: time is virtual here, and a second of it may be over at once."""

    def __init__(self, tell: Callable[[Progress], None]) -> None:
        super().__init__(tell, 0)
        self._say = tell

    def say(self, progress: Progress) -> None:
        self._say(progress)


class RehearsedContext(Context):
    """The context of an attempt, whose words are all heard."""

    def __init__(self, ids: Ids, seat: Seat) -> None:
        super().__init__(ids, seat)
        self._teller = EveryWord(seat[2].tell)


class Lane:
    """See `holdfast.worker.seat.Host` for what a task asks of it."""

    def __init__(self, number: int, floor: Floor) -> None:
        self.number = number
        self.queue: deque[Entry] = deque()
        self.current: Seat | None = None
        self.context: Promises | None = None
        self.worker, self.keep, self.workbench = floor.worker, floor.keep, floor.workbench
        self.body: Body | None = None
        # Bodies that were killed, with the loops that they may be in the middle of: they stand
        # where they stood until the test is over.
        self._killed: list[tuple[Body, Calls]] = []
        self._floor = floor
        self._calls = Calls()
        self._outcome: Outcome | None = None
        self._points: list[tuple[str, str]] = []
        self._asking: LeaseId | None = None
        self._verdict: str | None = None

    # Called by whoever drives.

    def advance(self, now_ms: int) -> None:
        """Run what can run at this instant: the body under way, and those behind it."""
        while True:
            self._tell_points()
            if self.body is None and not self._begin():
                return
            body = self.body
            if body is not None and body.is_over:
                self._end()
                continue
            if body is None or not body.may_go_on(now_ms):
                return
            is_first = not body.has_paused
            body.go_on()
            if is_first:
                self._points.insert(0, (BODY, ""))

    def next_due(self) -> int:
        return 0 if self.body is None else self.body.until_ms

    def kill(self) -> Entry | None:
        """What runs here never gets another turn; what that was."""
        if self.current is None:
            return None
        entry = self.current[0]
        if self.body is not None:
            self._killed.append((self.body, self._calls))
            self._calls = Calls()
        self._forget()
        return entry

    def answer(self, lease_id: LeaseId, why: str) -> None:
        """What came of the commit that this attempt waits for, if it still does."""
        if self._asking == lease_id:
            self._asking, self._verdict = None, why

    def close(self) -> None:
        """The test is over."""
        self.kill()
        for body, calls in self._killed:
            body.let_go()
            calls.close()
        self._killed.clear()
        self._calls.close()

    def _begin(self) -> bool:
        if not self.queue:
            return False
        entry = self.queue[0]
        if self.current is None or self.current[0] is not entry:
            # It is looked at again after a freeze, and then begins.
            self.current = (entry, self.clock_ms(), self)
            self._floor.reach(START, entry[0])
        run, item = entry
        self.current = seat = (entry, self.clock_ms(), self)
        self.queue.popleft()
        self.context = RehearsedContext(
            Ids(run.job_id, item.index, item.attempt, item.lease_id, self.worker), seat
        )
        name = f"{run.job_id}/{item.index}:{item.attempt}"
        self.body = Body(name, lambda: self._work(seat))
        return True

    def _tell_points(self) -> None:
        while self._points and self.current is not None:
            moment, note = self._points.pop(0)
            self._floor.reach(moment, self.current[0][0], note)

    def _end(self) -> None:
        if self._outcome is not None:
            self._floor.outcomes.append(self._outcome)
        self._forget()

    def _forget(self) -> None:
        self.body = self.current = self.context = self._outcome = None
        self._asking = self._verdict = None
        self._points.clear()

    # Called by the task that runs here.

    def clock_ms(self) -> int:
        return self._floor.clock_ms()

    def is_stopping(self, lease_id: LeaseId) -> bool:
        return self._floor.is_stopping(lease_id)

    def tell(self, progress: Progress) -> None:
        self._floor.asides.append(progress)
        self._reach("", progress.note)

    def commit(self, done: Done) -> str:
        self._asking, self._verdict = done.lease_id, None
        self._floor.asides.append(done)
        _own_body().pause(is_ready=lambda: self._verdict is not None)
        return self._told()

    def _told(self) -> str:
        return self._verdict or ""

    def left(self, lease_id: LeaseId, error: str) -> None:
        self._reach(BLOCK)
        self._floor.asides.append(Left(lease_id, error))

    def _reach(self, moment: str, note: str = "") -> None:
        """Stop here for a moment, in case that something is to happen just now."""
        self._points.append((moment, note))
        _own_body().pause()

    def _work(self, seat: Seat) -> None:
        entry, began, _ = seat
        run, item = entry
        enter(seat)
        try:
            result = self._calls.prepare(run.kind, run.target)(item)
            stored = None
            if len(result) > INLINE_BYTES:
                stored, result = self.keep(item.lease_id, result), b""
            owed = promised(self, seat)
            took = self.clock_ms() - began
            self._outcome = Done(
                run.job_id, item.index, item.lease_id, took, result, owed, stored
            )
        except Curtain:
            raise
        except BaseException as error:  # noqa: BLE001 - it ends this attempt alone
            trouble = describe(error)
            lost(self, seat, error)
            knew = self.context is not None and self.context.knew_to_stop
            took = self.clock_ms() - began
            ended = released(entry, started=True) if knew else failed(entry, took, trouble)
            self._outcome = ended


def _own_body() -> Body:
    body = current_body()
    if body is None:
        raise NotRehearsed(
            "a thread that a task has started cannot speak for it in a rehearsal; do it where the "
            "task itself runs"
        )
    return body
