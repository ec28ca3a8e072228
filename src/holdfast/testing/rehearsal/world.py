"""The world of a rehearsal: one coordinator over a log in memory, workers, and time on a heap."""

from collections import deque
from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from holdfast.coordinator.results import Results
from holdfast.core import events as e
from holdfast.core.errors import BrokenInvariant
from holdfast.core.ids import NEVER, JobId
from holdfast.core.job import is_finished
from holdfast.core.record import decode_record
from holdfast.testing.clock import ManualClock, SeededDice
from holdfast.testing.rehearsal.blows import COMMIT, Blow, Point, Struck
from holdfast.testing.rehearsal.errors import NothingLeft
from holdfast.testing.rehearsal.worker import Worker
from holdfast.testing.service import Service
from holdfast.wire.contents import RESULT_BYTES_MAX
from holdfast.wire.exchange import Exchange
from holdfast.wire.sinks import FunctionSink
from holdfast.worker.results import Place
from holdfast.worker.staging import Bench

SPINS_MAX: Final = 100_000
LONGEST_MS: Final = 366 * 86_400_000
SAY_AGAIN_MS: Final = 100

Action = Callable[[], None]


class Cast(Struct, frozen=True):
    """Who is there: so many workers, each with so many slots and named resources in thousandths,
    under leases of one term."""

    workers: int = 2
    slots: int = 1
    term_ms: int = 15_000
    seed: int = 0
    start_ms: int = 1_767_225_600_000
    resources: tuple[tuple[str, int], ...] = ()


class World:
    """Nothing happens here by itself: `settle` does all that can be done at this instant, and
    `drive` lets time pass from one event to the next."""

    def __init__(self, cast: Cast, folder: Path) -> None:
        self.cast = cast
        self.clock = ManualClock(cast.start_ms)
        self.functions: dict[str, Callable[..., Any]] = {}
        self.place = Place(str(folder / "results"))
        self.bench = Bench(str(folder / "staged"))
        self.is_down = False
        self.on_restart: Action = _nothing
        self.results = Results(folder, self.clock.wall, largest_bytes=RESULT_BYTES_MAX)
        self.service = Service(
            self.clock, SeededDice(cast.seed), term_ms=cast.term_ms, results=self.results
        )
        self.worker_blows: list[tuple[Blow, list[Worker]]] = []
        self.crash_blows: list[Blow] = []
        self._posted: deque[Action] = deque()
        self._heap: list[tuple[int, int, Action]] = []
        self._count = 0
        self._dead: list[Worker] = []
        self.crew = [self._hire(f"worker-{n + 1}", 1) for n in range(cast.workers)]

    def _hire(self, name: str, incarnation: int) -> Worker:
        return Worker(self, name, incarnation, self.cast.slots, self.cast.resources)

    # Time.

    def now_ms(self) -> int:
        return self.clock.now()

    def after(self, ms: int, action: Action) -> None:
        self._count += 1
        heappush(self._heap, (self.clock.now() + ms, self._count, action))

    def post(self, action: Action) -> None:
        """Have it done before anything else happens."""
        self._posted.append(action)

    def drive(self, is_ready: Callable[[], bool], end_ms: int | None) -> bool:
        """Let time pass until that is so, until then, or until nothing is left to happen."""
        limit_ms = self.clock.now() + LONGEST_MS
        while True:
            self.settle()
            if is_ready():
                return True
            now = self.clock.now()
            if end_ms is None and self.is_idle():
                return False
            due = self.next_due() or limit_ms
            if end_ms is not None and due >= end_ms:
                self.clock.advance_to(end_ms)
                self.settle()
                return is_ready()
            if due >= limit_ms:
                raise NothingLeft("nothing was settled within a year")
            self.clock.advance_to(max(due, now + 1))

    def settle(self) -> None:
        """Do everything that can be done at this instant."""
        for _ in range(SPINS_MAX):
            is_busy = self._do_what_is_due()
            for worker in list(self.crew):
                is_busy = worker.step() or is_busy
            is_busy = self._write() or is_busy
            if not is_busy and (self.is_down or self.service.next_due() > self.clock.now()):
                self._judge()
                return
        raise BrokenInvariant("there is always something to do, and time stands still")

    def make_durable(self) -> None:
        """Whatever was asked of the coordinator is on the disk; nobody else moves."""
        while self._write():
            pass

    def next_due(self) -> int:
        """When something happens next; zero for never."""
        dues = [worker.next_due() for worker in self.crew]
        dues.append(self._heap[0][0] if self._heap else 0)
        dues.append(0 if self.is_down else self.service.next_event())
        return min((due for due in dues if due), default=0)

    def is_idle(self) -> bool:
        """Whether nothing happens any more unless somebody asks for it. Schedules do not count:
        they have always another instant."""
        if self._heap or self.is_down:
            return False
        state = self.service.coordinator.state
        if any(holder.leases for holder in state.holders.values()):
            return False
        if any(worker.is_busy() for worker in self.crew if worker.is_alive):
            return False
        timers = (*state.timers, *state.wall_timers)
        jobs = [state.jobs.get(job_id) for _, job_id in timers]
        if any(job is not None and not is_finished(job) for job in jobs):
            return False
        exchanges = self.service.exchanges
        dues = (
            state.ready.next_wake(), exchanges.placement.next_due(), exchanges.deliveries.next_due()
        )  # fmt: skip
        return all(due == NEVER or not due for due in dues)

    def _do_what_is_due(self) -> bool:
        has_done = bool(self._posted)
        while self._posted:
            self._posted.popleft()()
        while self._heap and self._heap[0][0] <= self.clock.now():
            heappop(self._heap)[2]()
            has_done = True
        return has_done

    def _judge(self) -> None:
        if self.service.troubles:
            raise BrokenInvariant("; ".join(self.service.troubles[:5]))

    # Messages and the disk.

    def send(self, worker: Worker, exchange: Exchange) -> None:
        if not self.is_down:
            self.service.exchanges.take(exchange, partial(worker.take, exchange))

    def _write(self) -> bool:
        """A turn of the coordinator, and what it wrote becomes durable, unless it is struck."""
        if self.is_down or not self.service.turn():
            return False
        blow = self._blow_for_frame() if self.crash_blows else None
        if blow is None:
            self.service.synced()
        else:
            self.crash_blows.remove(blow)
            blow.fall()
        return True

    def _blow_for_frame(self) -> Blow | None:
        """Whoever waits for the commit that is just being written."""
        jobs = self.service.coordinator.state.jobs
        for frame in self.service.log.read(self.service.log.durable + 1):
            for data in frame.records:
                for event in decode_record(data).events:
                    if isinstance(event, e.TasksCompleted | e.TaskCommitted):
                        point = Point(COMMIT, jobs[event.job_id].spec)
                        return next((b for b in self.crash_blows if b.meets(point)), None)
        return None

    # Blows.

    def reach(self, worker: Worker, moment: str, job_id: JobId, note: str = "") -> None:
        job = self.service.coordinator.state.jobs.get(job_id)
        if job is None or not self.worker_blows:
            return
        point = Point(moment, job.spec, note)
        for each in self.worker_blows:
            blow, struck = each
            if blow.meets(point):
                self.worker_blows.remove(each)
                struck.append(worker)
                blow.fall()
                raise Struck

    def kill(self, worker: Worker, restart_ms: int | None) -> None:
        """The process is gone, and everything in it. Another of its name is started after that."""
        worker.is_alive = False
        self._dead.append(worker)
        if restart_ms is not None:
            self.after(restart_ms, partial(self._replace, worker))

    def freeze(self, worker: Worker, for_ms: int) -> None:
        """The process is stopped and goes on later, with no idea that time has passed."""
        worker.is_frozen = True
        self.after(for_ms, partial(self._thaw, worker))

    def crash(self, down_ms: int, *, keeps_frame: bool) -> None:
        """The coordinator is gone, and everything that was not on the disk."""
        if self.service.writing and keeps_frame:
            self.service.log.sync()
        if not down_ms:
            self._restart()
            return
        self.is_down = True
        self.after(down_ms, self._restart)

    def _restart(self) -> None:
        self.is_down = False
        self.service.crash(by_snapshot=True)
        self.on_restart()
        for number, worker in enumerate(self.crew, start=1):
            self.after(SAY_AGAIN_MS * number, worker.say_again)

    def _replace(self, worker: Worker) -> None:
        place = self.crew.index(worker)
        self.crew[place] = self._hire(worker.name, worker.incarnation + 1)

    def _thaw(self, worker: Worker) -> None:
        worker.is_frozen = False
        worker.say_again()

    # What there is.

    def sink(self, name: str, sink: FunctionSink, function: Callable[..., Any]) -> None:
        self.functions[str(sink.target)] = function
        self.service.set_sinks({**self.service.sinks, name: sink})

    def end(self) -> None:
        """No thread is left behind."""
        for worker in (*self.crew, *self._dead):
            worker.executor.end()


def _nothing() -> None:
    """Nobody is told."""
