"""One run: a cluster is set up, harmed as planned, healed, and judged."""

from collections import Counter
from functools import partial
from hashlib import blake2b
from random import Random
from typing import Final

from holdfast.core.errors import LogFailed, OperatingError
from holdfast.core.state import State
from holdfast.testing.disks import CrashNow, FaultyDisk
from holdfast.testing.receivers import World
from holdfast.testing.sim.agenda import MILLI, SECOND, Agenda, mixed
from holdfast.testing.sim.auditor import Auditor
from holdfast.testing.sim.caretaker import look_after
from holdfast.testing.sim.client import Client, Op
from holdfast.testing.sim.damage import refuses_or_agrees, unchanged_by_another
from holdfast.testing.sim.declaring import Declarer
from holdfast.testing.sim.machines import Killed, Machine, Process
from holdfast.testing.sim.nemesis import Moments, Nemesis
from holdfast.testing.sim.network import Network
from holdfast.testing.sim.oracle import Oracle, judge_confirmed, judge_effects, judge_history
from holdfast.testing.sim.outcome import Outcome
from holdfast.testing.sim.plan import LIVENESS, SAFETY, URGENT, Fault, Scenario, drawn
from holdfast.testing.sim.server import Server
from holdfast.testing.sim.settling import Calm
from holdfast.testing.sim.timetable import Timekeeper
from holdfast.testing.sim.worker import SINKS, Worker
from holdfast.wal import DiskFull, LogInUse
from holdfast.wire.exchange import Exchange, Reply

START_WALL_US: Final = 1_700_000_000 * SECOND
OPERATE_US: Final = 7 * SECOND
TROUBLES_MAX: Final = 10
SPINNING: Final = 20_000
"""So many steps at one instant, and whoever takes them would not let a real processor rest."""
TAKING: Final = ("kill_tasks", "kill_job", "set_aside", "force", "purge")
"""What people do that ends attempts under way."""


class Simulation:
    """Everything of one run. `troubles` is what went wrong that must not."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.agenda = Agenda(scenario.seed)
        self.disk = FaultyDisk()
        self.world = World()
        self.counted: Counter[str] = Counter()
        self.oracle = Oracle()
        self.history: list[Op] = []
        self.auditor = Auditor(scenario.term_ms, self._trace_record)
        self.troubles: list[str] = []
        self._log_id = scenario.seed.to_bytes(16, "big").hex()
        self.is_wild = True
        self.down_ms = 0
        self.server: Server | None = None
        self.moments = Moments(self.fired, self.disk)
        self.network = Network(self.agenda, scenario.seed, self.fired, scenario.delay_us)
        self._dice = Random(f"cluster:{scenario.seed}")
        self._trace = blake2b(digest_size=16)
        self._syncs = 0
        self._starts = 0
        self._settled_ops = 0
        self._last_state: State | None = None
        self._hosts = [self._machine(name) for name in ("a", "b")]
        self._desks = {f"w{n}": self._machine(f"w{n}") for n in range(scenario.workers)}
        self.nemesis = Nemesis(self, self.moments)
        self.workers = [self._hire(name, 1) for name in self._desks]
        self.clients = [self._client(Client, number) for number in range(scenario.clients)]
        if scenario.runtimes:
            self.clients.append(self._client(Declarer, scenario.clients))
        if scenario.schedules:
            self.clients.append(self._client(Timekeeper, scenario.clients + 1))
        self.nemesis.schedule(scenario.faults)
        self._start_server()
        self.agenda.after(OPERATE_US, self._operate)

    # --- running --------------------------------------------------------------------------------

    def run(self) -> Outcome:
        wild_us = self.scenario.wild_ms * MILLI
        self.run_until(wild_us)
        if self.scenario.mode == LIVENESS and not self.troubles:
            self._heal()
            Calm(self).settle()
        if not self.troubles:
            self._reopen()
        self._judge()
        self._leave()
        return Outcome(
            seed=self.scenario.seed, mode=self.scenario.mode,
            troubles=self.troubles[:TROUBLES_MAX],
            simulated_ms=self.agenda.now_us // MILLI, steps=self.agenda.done,
            records=self.auditor.records, trace=self._trace.hexdigest(),
            faults=dict(self.counted), points=self.moments.reached,
            moves=dict(self.auditor.moves), ends=dict(self.auditor.ends),
            phases=dict(self.auditor.declared.moves),
            events=dict(self.auditor.events), ops=dict(Counter(op.kind for op in self.history)),
        )  # fmt: skip

    def run_until(self, end_us: int) -> None:
        agenda = self.agenda
        while (due := agenda.next_us()) is not None and due <= end_us and not self.troubles:
            agenda.step()
            if agenda.at_once > SPINNING:
                self.troubles.append(f"V5: {SPINNING} steps and no time has passed")
            server = self.server
            if server is not None:
                self.auditor.decided(server, agenda.now_us)
                self.auditor.check(server)
                if server.coordinator.failure is not None:
                    # A coordinator that lost its log serves nobody; its process ends.
                    self.end_server(Killed())
            if self.auditor.troubles or self.oracle.troubles:
                self.troubles += self.auditor.troubles + self.oracle.troubles
        if not self.troubles:
            agenda.now_us = max(agenda.now_us, end_us)

    def _heal(self) -> None:
        self.is_wild = False
        self.nemesis.heal()
        for worker in self.workers:
            worker.be_calm()
        for client in self.clients:
            client.is_calm = True
        for worker in list(self.workers):
            if not worker.process.is_alive or worker.is_leaving:
                self.replace_worker(worker, 0)

    def _reopen(self) -> None:
        """A last power cut: whatever was promised is there afterwards."""
        self.nemesis.heal()
        self.is_wild = False
        if self.server is not None:
            self.end_server(CrashNow())
        self._start_server()
        if self.server is not None:
            self.auditor.check(self.server)

    def _leave(self) -> None:
        """Let every process come to its end: half a coroutine is no good neighbour."""
        ended = [worker.process for worker in self.workers]
        ended += [client.process for client in self.clients]
        ended += [self.server.process] if self.server is not None else []
        for process in ended:
            process.end()

    def _judge(self) -> None:
        self.troubles += [each for each in self.auditor.troubles if each not in self.troubles]
        self.troubles += self.oracle.judge(self.auditor)
        self.troubles += judge_history(self.history, self.auditor)
        # A schedule goes on: what its latest runs owe is on its way when everything ends.
        goes_on = self.troubles or self.scenario.schedules
        settled = self.scenario.mode == LIVENESS and not goes_on
        self.troubles += judge_effects(
            self.world, self.auditor, self._log_id, settled=settled
        )
        for worker in self.workers:
            if worker.ran_twice():
                self.troubles.append(f"{worker.name} ran leases {worker.ran_twice()} twice")

    # --- what is told ---------------------------------------------------------------------------

    def fired(self, name: str) -> None:
        self.counted[name] += 1
        self._trace.update(f"{self.agenda.now_us} {name}\n".encode())

    def _trace_record(self, content: bytes) -> None:
        self._trace.update(content)

    def _failed(self, why: str) -> None:
        self.troubles.append(why)

    def answered(self, worker: str, sent: Exchange, reply: Reply) -> None:
        self.oracle.heard(sent, reply)

    def ran(self, worker: Worker) -> None:
        """What must not outlive its lease runs in one place, unless a person took it away; and what
        may have killed its worker begins when the log has that it does."""
        held = self.auditor.watch.held
        early = [it for it in worker.executor.alone() if it in held and not held[it].started]
        if early:
            self.troubles.append(f"leases {early} began and the log does not say so")
        self._never_arrived(worker)
        here = worker.bound_tasks()
        for other in self.workers if here else ():
            if other is worker or not other.process.is_alive or other.process.is_frozen:
                continue
            both = {task for task in here & other.bound_tasks() if not self._is_meddled(task[0])}
            if both:
                self.troubles.append(f"{worker.name} and {other.name} both run {sorted(both)}")

    def _never_arrived(self, worker: Worker) -> None:
        """Whatever ended because it had not arrived has never begun and never will."""
        began = self.auditor.undelivered & worker.executor.ran.keys()
        if began:
            found = f"{worker.name} began leases {sorted(began)}, which are said never to have come"
            self.troubles.append(found)

    def _is_meddled(self, job_id: str) -> bool:
        return any(op.subject == job_id for op in self.history if op.kind in TAKING)

    def durable(self) -> int:
        return self.auditor.watch.position

    # --- the coordinator ------------------------------------------------------------------------

    def _machine(self, name: str) -> Machine:
        dice, drift = self._dice, self.scenario.drift_ppm
        return Machine(
            self.agenda, name, up_us=dice.randrange(10**12),
            wall_us=START_WALL_US + dice.randrange(-30 * SECOND, 30 * SECOND),
            drift_ppm=dice.randint(-drift, drift),
        )  # fmt: skip

    def _takes_s(self) -> float:
        self._syncs += 1
        chance = mixed(self.scenario.seed, 11, self._syncs)
        least, most = self.scenario.sync_us
        us = least + chance % (most - least + 1) + self.nemesis.extra_us(chance)
        return us / SECOND

    def _start_server(self) -> None:
        if self.server is not None or self.troubles:
            return
        self._starts += 1
        # Whoever opens may write and die: what follows is not what the one before knew.
        before, self._last_state = self._last_state, None
        machine = self._hosts[mixed(self.scenario.seed, 13, self._starts) % 2]
        try:
            server = Server(
                self.scenario, machine, self.disk, self.moments,
                SINKS if self.scenario.owing else {}, takes_s=self._takes_s,
                durable=self._read, died=self.end_server, failed=self._failed,
            )  # fmt: skip
        except (Killed, CrashNow) as end:
            self._fall(end)
            return
        except DiskFull:
            self.disk.restart()
            self.agenda.after(SECOND, self._start_server)
            return
        except LogFailed as error:
            if "Input/output error" not in str(error):
                self.troubles.append(f"the folder was not opened: {error!r}")
            self.disk.restart()
            self.agenda.after(SECOND, self._start_server)
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, it is found
            self.troubles.append(f"the folder was not opened: {error!r}")
            return
        self.server = self.network.host = server
        self.auditor.opened(server, before)
        self.auditor.decided(server, self.agenda.now_us)
        self.auditor.read(server)

    def _read(self) -> None:
        if self.server is not None:
            self.auditor.decided(self.server, self.agenda.now_us)
            self.auditor.read(self.server)
            self.troubles += judge_confirmed(self.world, self.auditor, self._log_id)
            for worker in self.workers:
                self._never_arrived(worker)

    def end_server(self, error: BaseException) -> None:
        """The process of the coordinator is gone, and perhaps its machine."""
        server, self.server = self.server, None
        if server is None:
            return
        if not isinstance(error, Killed | CrashNow):
            self.troubles.append(f"the coordinator fell over: {error!r}")
        self._last_state = server.coordinator.state
        server.process.end()
        self.network.host = None
        if isinstance(error, CrashNow):
            self.network.forget(server)
        else:
            self.network.reset(server)
        self._fall(error)

    def _fall(self, error: BaseException) -> None:
        is_power = isinstance(error, CrashNow)
        if self.disk.is_off:
            is_power = self.disk.crash_is_power
        if is_power:
            self.disk.crash(self._dice)
        else:
            self.disk.restart()
        down_ms, self.down_ms = self.down_ms, 0
        self.agenda.after(max(1, down_ms) * MILLI, self._start_server)

    def thawed(self, server: Server, away_us: int) -> None:
        """A coordinator that was frozen goes on."""
        if self.server is server and not server.process.is_frozen:
            self.auditor.came_back(self.agenda.now_us, away_us)

    def retire_server(self) -> None:
        """The coordinator is asked to end, and does so in good order."""
        server = self.server
        if server is not None:
            server.process.post(lambda: server.process.create_task(self._retire(server)))

    async def _retire(self, server: Server) -> None:
        end: BaseException = Killed()
        try:
            await server.engine.stop(OperatingError("it ends"))
            server.log.close()
        except (Killed, CrashNow, LogFailed) as error:
            end = Killed() if isinstance(error, LogFailed) else error
        if self.server is server:
            self.agenda.after(0, lambda: self.end_server(end))

    def try_second_server(self, fault: Fault) -> None:
        if self.server is not None:
            self.fired(fault.kind)
            self.troubles += unchanged_by_another(self.disk, LogInUse)

    def try_rot(self, fault: Fault) -> None:
        if self.server is not None:
            self.fired(fault.kind)
            self.troubles += refuses_or_agrees(self.disk, fault, self.durable())

    # --- workers and people ---------------------------------------------------------------------

    def _hire(self, name: str, incarnation: int) -> Worker:
        worker = Worker(
            self.scenario, self._desks[name], name, incarnation, self.network, self.world, self,
            died=lambda error: self._failed(f"{name} fell over: {error!r}"), failed=self._failed,
        )  # fmt: skip
        if not self.is_wild:
            worker.be_calm()
        return worker

    def replace_worker(self, worker: Worker, after_ms: int) -> None:
        """One is gone, if it is not already, and another of its name comes."""
        if worker not in self.workers:
            return
        if worker.ran_twice():
            self.troubles.append(f"{worker.name} ran leases {worker.ran_twice()} twice")
        worker.process.end()
        self.agenda.after(after_ms * MILLI, lambda: self._succeed(worker))

    def _succeed(self, worker: Worker) -> None:
        if worker in self.workers:
            place = self.workers.index(worker)
            self.workers[place] = self._hire(worker.name, worker.incarnation + 1)

    def _client(self, kind: type[Client], number: int) -> Client:
        machine = self._machine(f"c{number}")
        process = Process(
            machine, f"c{number}", lambda error: self._failed(f"a client: {error!r}"), self._failed
        )
        return kind(
            self.scenario, process, number, self.network, self.history, self.agenda, self.durable,
            self.oracle.answered,
        )  # fmt: skip

    def _operate(self) -> None:
        """Somebody looks after what waits for a person."""
        server = self.server
        if server is not None:
            is_alone = all(client.is_over for client in self.clients)
            server.process.post(partial(look_after, server, is_alone=is_alone))
        self.agenda.after(OPERATE_US, self._operate)


def simulate(
    seed: int,
    mode: str = SAFETY,
    only: tuple[int, ...] | None = None,
    *,
    age: int = URGENT,
) -> Outcome:
    """Run one seed; with `only`, with those of its faults that have these numbers; of an
    earlier `age` as it was before seeds came to stand for more."""
    return Simulation(drawn(seed, mode, only, age=age)).run()
