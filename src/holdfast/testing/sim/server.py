"""One life of the coordinator's process: it takes the folder, serves, and is gone in a moment."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from holdfast.coordinator.clockwork import Clockwork
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.exchanges import Exchanges
from holdfast.coordinator.feeders import Feeders
from holdfast.coordinator.looped import LoopEngine
from holdfast.coordinator.parking import Parking
from holdfast.coordinator.ports import Faults
from holdfast.coordinator.reception import Reception, Superseded
from holdfast.coordinator.reconciling.hook import Reconciling
from holdfast.coordinator.settings import Settings
from holdfast.coordinator.taking import Ground, take_folder
from holdfast.coordinator.ticker import Rounds, Ticker
from holdfast.coordinator.unplaced import Unplaced
from holdfast.core import commands as c
from holdfast.core import commands_resources as r
from holdfast.core import events as e
from holdfast.core.decision import Refused, Repeated
from holdfast.core.ids import Instant, JobId, Position, WorkerId
from holdfast.core.job import counts, is_finished
from holdfast.core.state import State
from holdfast.runtimes.resource import KIND as RUNTIME
from holdfast.testing.clock import SeededDice
from holdfast.testing.disks import FaultyDisk
from holdfast.testing.sim.machines import Machine, Process
from holdfast.testing.sim.network import Call
from holdfast.testing.sim.plan import Scenario
from holdfast.testing.sim.writing import SteppedSnapshots, SteppedWriter
from holdfast.wal import HistoryGone
from holdfast.wire.answers import Rejected
from holdfast.wire.bodies import Problem
from holdfast.wire.errors import Unreachable
from holdfast.wire.exchange import Exchange, Reply, is_empty
from holdfast.wire.sinks import AnySink

DATA: Final = Path("/simulated/data")
PARK_S: Final = 20.0
KEEP_FINISHED: Final = 10_000
GONE: Final = "gone"
AWAY: Final = Unreachable("server", "it has lost its log")

_encode = msgspec.msgpack.Encoder().encode
_decode_exchange = msgspec.msgpack.Decoder(Exchange).decode


Order = Callable[[State, Instant], c.Command]


class Asked(Struct, frozen=True):
    """What a client asks: a command, under a key that makes a repeat of it known; or a look at a
    job, or at a runtime. An `order` becomes a command when it comes, by the state and the wall
    clock that it meets."""

    key: str
    digest: bytes = b""
    command: c.Command | None = None
    look: JobId = JobId("")
    runtime: str = ""
    order: Order | None = None


class Told(Struct, frozen=True):
    """What it is told. `code` is why not; `answer` is the job's name, or how its tasks stand.
    `is_idle`: all was so already, and nothing was recorded. `at` is where the log was when a wish
    was refused."""

    code: str = ""
    answer: Any = None
    is_idle: bool = False
    at: int = 0


class Server:
    """`durable` is called whenever more of the log is, and `faults` is told of every named moment.
    Opening may raise whatever the real one raises."""

    def __init__(
        self,
        scenario: Scenario,
        machine: Machine,
        disk: FaultyDisk,
        faults: Faults,
        sinks: Mapping[str, AnySink],
        *,
        takes_s: Callable[[], float],
        durable: Callable[[], None],
        died: Callable[[BaseException], None],
        failed: Callable[[str], None],
    ) -> None:
        self.machine = machine
        self._answered: dict[str, Told] = {}
        self.process = Process(machine, "server", died, failed)
        ground = Ground(
            disk=disk,
            machine=machine,
            dice=SeededDice(f"{scenario.seed}:{machine.name}:{machine.pids}"),
            faults=faults,
            segment_bytes=scenario.segment_bytes,
            new_id=scenario.seed.to_bytes(16, "big"),
        )
        self.taken = take_folder(DATA, term_ms=scenario.term_ms, ground=ground)
        self.log = self.taken.log
        self.coordinator: Coordinator = self.taken.coordinator
        self.settings = Settings(
            snapshot_bytes=scenario.snapshot_bytes,
            history_bytes=scenario.history_bytes,
            sinks=sinks,
        )
        self.feeders = Feeders(self.coordinator)
        self.exchanges = Exchanges(
            self.coordinator, self.taken.recent, term_ms=scenario.term_ms
        )
        self.exchanges.adjust(self.settings)
        self.exchanges.placement.most_picks = scenario.most_picks
        self.reconciling: Reconciling | None = None
        if scenario.runtimes:
            self.reconciling = Reconciling(
                self.coordinator, self.exchanges, self.taken.recent
            )
        self.process.post(self._begin, disk, faults, takes_s, durable)

    def _begin(
        self,
        disk: FaultyDisk,
        faults: Faults,
        takes_s: Callable[[], float],
        durable: Callable[[], None],
    ) -> None:
        """In the process itself: the engine belongs to the loop that made it."""
        writer = partial(SteppedWriter, process=self.process, takes_s=takes_s, durable=durable)
        self.engine = LoopEngine(self.coordinator, self.log, faults, writer)
        parking = Parking(self.exchanges)
        self._reception = Reception(
            self.coordinator, self.exchanges, parking, self.engine.soon, faults
        )
        self.snapshots = SteppedSnapshots(self.taken, disk, self.settings, self.process)
        unplaced = Unplaced(self.coordinator, self.exchanges)
        self.engine.hooks.extend(
            (
                Ticker(
                    self.coordinator,
                    keep_finished=KEEP_FINISHED,
                    feeders=self.feeders,
                    unplaced=unplaced,
                ),
                Clockwork(self.coordinator),
                parking,
                *(() if self.reconciling is None else (self.reconciling,)),
                Rounds(self.coordinator, self.exchanges),
                self.snapshots,
            )
        )
        self.engine.start()

    # What comes in.

    def take(self, call: Call) -> None:
        """A request, on the process of this server."""
        if isinstance(call.message, Asked):
            self._answer(call, call.message)
            return
        message = _decode_exchange(call.message)

        def tell(reply: Reply | Exception) -> None:
            call.reply(_declined(reply) if isinstance(reply, Exception) else _encode(reply))

        if self.coordinator.failure is not None:
            call.reply(AWAY)
            return
        try:
            self._reception.take(message, PARK_S, tell)
        except Superseded as error:
            tell(error)

    def forsake(self, call: Call) -> None:
        """Whoever asked does not wait any more. What was answered is over: the same may have been
        asked again on another connection meanwhile, and that one waits."""
        if not call.is_answered and not isinstance(call.message, Asked):
            message = _decode_exchange(call.message)
            if is_empty(message):
                self._reception.forsake(message)

    def _answer(self, call: Call, asked: Asked) -> None:
        coordinator = self.coordinator
        if coordinator.failure is not None:
            call.reply(AWAY)
            return
        if asked.look:
            told = self._look(asked.look)
        elif asked.runtime:
            told = self._look_at(asked.runtime)
        else:
            # As the routes remember what they answered, in memory alone.
            told = self._answered.get(asked.key) or self._judge(asked)
            self._answered[asked.key] = told
        coordinator.answer(lambda: call.reply(told), lambda error: call.reply(AWAY))
        self.engine.soon()

    def _judge(self, asked: Asked) -> Told:
        command = asked.command
        if asked.order is not None:
            ordered = asked.order(self.coordinator.state, self.coordinator.clock.wall())
            command = structs.replace(
                ordered, request_key=asked.key, request_digest=asked.digest
            )
        if command is None:
            return Told("invalid")
        decision = self.coordinator.execute(command, actor="client", request_id=asked.key)
        if isinstance(decision, Refused):
            return Told(decision.code.value, at=int(self.coordinator.state.position))
        if isinstance(decision.answer, Repeated):
            return self._said_before(decision.answer.position)
        if isinstance(command, c.UncordonWorker):
            self._undrain(command.worker)
        is_told = isinstance(decision.answer, str) or isinstance(command, r.PutResource)
        answer = decision.answer if is_told else None
        return Told(answer=answer, is_idle=not decision.events)

    def _said_before(self, position: Position) -> Told:
        try:
            events = self.taken.recent(position).events
        except HistoryGone:
            # It was done, and what was answered is no longer kept.
            return Told(GONE)
        jobs = [str(event.job_id) for event in events if isinstance(event, e.JobSubmitted)]
        if any(isinstance(event, e.ResourcePut) for event in events):
            return Told(answer=int(position))
        return Told(answer=jobs[0] if jobs else None)

    def _undrain(self, name: WorkerId) -> None:
        worker = self.exchanges.workers.get(name)
        if worker is not None:
            self.exchanges.drain(worker, is_drained=False)

    def _look_at(self, name: str) -> Told:
        kept = self.coordinator.state.resources.get((RUNTIME, name))
        return Told(answer=None if kept is None else (kept.generation, int(kept.version)))

    def _look(self, job_id: JobId) -> Told:
        job = self.coordinator.state.jobs.get(job_id)
        if job is None:
            return Told("not_found")
        tally = {state.name: number for state, number in counts(job).items() if number}
        return Told(answer=(tally, job.sealed, is_finished(job)))


def _declined(why: Exception) -> Exception:
    """What the routes make of an exchange that nobody answers, as a worker hears it: a 503 is a
    server that is away."""
    if not isinstance(why, Superseded):
        return Unreachable("server", str(why))
    return Rejected(Problem(type="", title="", status=409, detail=str(why), code="conflict"))
