"""The coordinator on an event loop, for a server: requests and turns share one thread.

A request is judged the moment it arrives; the turn that places work and writes a frame follows in
the same pass of the loop, once for all requests of that pass. The disk has a thread of its own.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.ports import Faults
from holdfast.coordinator.turns import Hook, Turns
from holdfast.coordinator.writing import MakeWriter, Writer
from holdfast.core.ids import Position
from holdfast.wal import Log

T = TypeVar("T")


class LoopEngine:
    """Made and used on the loop's thread. `failed` is set when the log is lost to us."""

    def __init__(
        self, coordinator: Coordinator, log: Log, faults: Faults, writer: MakeWriter = Writer
    ) -> None:
        self.coordinator = coordinator
        self.failed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._writer = writer(log, faults, self._tell_synced, self._tell_failed)
        self._turns = Turns(coordinator, self._writer.write)
        self._turn: asyncio.Handle | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0
        self._drained: asyncio.Event | None = None

    @property
    def hooks(self) -> list[Hook]:
        return self._turns.hooks

    def start(self) -> None:
        self._writer.start()
        self.soon()

    def soon(self) -> None:
        """Take a turn in this pass of the loop: something has happened."""
        if self._turn is None:
            self._turn = self._loop.call_soon(self._take)

    def post(self, work: Callable[[], None]) -> None:
        """Have `work` done on the loop's thread, from any thread."""
        self._loop.call_soon_threadsafe(self._do, work)

    async def ask(self, question: Callable[[Coordinator], T]) -> T:
        """What the coordinator answers, once all it saw is durable: at once, where it is."""
        value = question(self.coordinator)
        if self.coordinator.is_durable:
            self.soon()
            return value
        answer: asyncio.Future[T] = self._loop.create_future()

        def succeed() -> None:
            # Whoever asked may have given up meanwhile.
            if not answer.done():
                answer.set_result(value)

        def fail(error: Exception) -> None:
            if not answer.done():
                answer.set_exception(error)

        self.coordinator.answer(succeed, fail)
        self.soon()
        return await answer

    async def stop(self, why: Exception) -> None:
        """Write what has gathered, then end the writer; who still waits is told `why`."""
        self._writer.leave()
        self._drained = asyncio.Event()
        self.soon()
        await self._drained.wait()
        await asyncio.to_thread(self._writer.stop)
        self._cancel_alarm()
        self._turns.fail(why)

    def _do(self, work: Callable[[], None]) -> None:
        work()
        self.soon()

    def _take(self) -> None:
        self._turn = None
        try:
            self._turns.take()
        except Exception as error:  # noqa: BLE001 - a bug here must not look like progress
            self._turns.fail(error)
        if self.coordinator.failure is not None:
            self.failed.set()
        if self._drained is not None:
            if self._turns.has_written_all():
                self._drained.set()
            return
        self._set_alarm()

    def _set_alarm(self) -> None:
        patience = self._turns.patience_s()
        if patience is None:
            self._cancel_alarm()
            return
        due = self._loop.time() + patience
        # One that rings too soon costs a turn; setting it anew after every turn costs more.
        if self._alarm is None or due < self._alarm_at:
            self._cancel_alarm()
            self._alarm, self._alarm_at = self._loop.call_at(due, self._ring), due

    def _ring(self) -> None:
        self._alarm = None
        self.soon()

    def _cancel_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _tell_synced(self, last: Position) -> None:
        self.post(lambda: self._turns.synced(last))

    def _tell_failed(self, failure: Exception) -> None:
        self.post(lambda: self._turns.fail(failure))
