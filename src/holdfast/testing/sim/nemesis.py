"""Who carries the plan out: each kind of fault is one entry of a table."""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final, Protocol

from holdfast.testing.disks import CrashNow, FaultyDisk
from holdfast.testing.sim.agenda import MILLI, Action, Agenda
from holdfast.testing.sim.machines import Killed
from holdfast.testing.sim.network import ANYBODY, SERVER, Network, Weather
from holdfast.testing.sim.plan import Fault
from holdfast.testing.sim.server import Server
from holdfast.testing.sim.worker import Worker

LATE_MS: Final = 6_000
HOUR_MS: Final = 3_600_000
SHORT_WRITES: Final = (23, 100, 600)


class Victim(Protocol):
    """The cluster, as far as it can be harmed."""

    agenda: Agenda
    disk: FaultyDisk
    network: Network
    server: Server | None
    workers: list[Worker]
    down_ms: int
    is_wild: bool

    def fired(self, name: str) -> None: ...

    def end_server(self, error: BaseException) -> None: ...

    def thawed(self, server: Server, away_us: int) -> None: ...

    def retire_server(self) -> None: ...

    def replace_worker(self, worker: Worker, after_ms: int) -> None: ...

    def try_second_server(self, fault: Fault) -> None: ...

    def try_rot(self, fault: Fault) -> None: ...


class Moments:
    """The named moments of the coordinator, and what is to happen at the next of each.
    `reached` counts them all."""

    def __init__(self, fired: Callable[[str], None], disk: FaultyDisk) -> None:
        self.reached: dict[str, int] = {}
        self._disk = disk
        self.armed: dict[str, BaseException] = {}
        self._fired = fired

    def reach(self, point: str) -> None:
        self.reached[point] = self.reached.get(point, 0) + 1
        if self.armed:
            end = self.armed.pop(point, None)
            if end is not None:
                is_power = not isinstance(end, Killed)
                self._fired(f"{'power' if is_power else 'kill'} at {point}")
                # Nobody tidies up on the way out: whatever is tried, the disk does not move.
                self._disk.is_off, self._disk.crash_is_power = True, is_power
                raise end


class Nemesis:
    """`extra_us` is how much longer than usual the disk takes at this moment."""

    def __init__(self, victim: Victim, moments: Moments) -> None:
        self._victim = victim
        self._moments = moments
        self._slow: dict[int, tuple[int, float]] = {}
        self._stuck_until = 0

    def schedule(self, faults: tuple[Fault, ...]) -> None:
        for fault in faults:
            self._victim.agenda.at(fault.at_ms * MILLI, partial(self._strike, fault))

    def heal(self) -> None:
        """Nothing is wrong any more."""
        victim = self._victim
        victim.network.weathers.clear()
        self._moments.armed.clear()
        self._slow.clear()
        self._stuck_until = 0
        self._calm_disk(victim.disk)
        for worker in victim.workers:
            worker.process.thaw()
        if victim.server is not None:
            victim.server.process.thaw()

    def extra_us(self, chance: int) -> int:
        now = self._victim.agenda.now_us
        slow = sum(chance % int(us) for us, _ in self._slow.values())
        return max(slow, self._stuck_until - now)

    def _strike(self, fault: Fault) -> None:
        if self._victim.is_wild:
            BLOWS[fault.kind](self, fault)

    def _calm_disk(self, disk: FaultyDisk) -> None:
        disk.capacity = disk.largest_write = disk.fail_sync_at = disk.crash_at = None

    def _for(self, fault: Fault, over: Action) -> None:
        self._victim.agenda.after(max(1, fault.ms) * MILLI, over)

    # --- the network ----------------------------------------------------------------------------

    def _weather(self, fault: Fault, weather: Weather) -> None:
        weathers = self._victim.network.weathers
        weathers.append(weather)
        self._victim.fired(fault.kind)
        self._for(fault, lambda: weathers.remove(weather) if weather in weathers else None)

    def _somebody(self, fault: Fault) -> str:
        """One of those who ask, or everybody."""
        names = [ANYBODY, *(worker.name for worker in self._victim.workers), "c0"]
        return names[fault.who % len(names)]

    def lose(self, fault: Fault) -> None:
        self._weather(fault, Weather(ANYBODY, ANYBODY, lost=fault.share))

    def double(self, fault: Fault) -> None:
        self._weather(fault, Weather(ANYBODY, ANYBODY, doubled=fault.share))

    def delay(self, fault: Fault) -> None:
        self._weather(fault, Weather(ANYBODY, ANYBODY, late=fault.share, late_ms=LATE_MS))

    def reset(self, fault: Fault) -> None:
        self._weather(fault, Weather(SERVER, ANYBODY, reset=fault.share))

    def cut(self, fault: Fault) -> None:
        name = self._somebody(fault)
        self._weather(fault, Weather(name, SERVER, is_cut=True))
        self._weather(fault, Weather(SERVER, name, is_cut=True))

    def cut_to_server(self, fault: Fault) -> None:
        self._weather(fault, Weather(self._somebody(fault), SERVER, is_cut=True))

    def cut_from_server(self, fault: Fault) -> None:
        self._weather(fault, Weather(SERVER, self._somebody(fault), is_cut=True))

    # --- workers --------------------------------------------------------------------------------

    def _worker(self, fault: Fault) -> Worker:
        return self._victim.workers[fault.who % len(self._victim.workers)]

    def kill_worker(self, fault: Fault) -> None:
        self._victim.fired(fault.kind)
        self._victim.replace_worker(self._worker(fault), fault.ms)

    def freeze_worker(self, fault: Fault) -> None:
        self._victim.fired(fault.kind)
        self._worker(fault).process.freeze(fault.ms * MILLI)

    def drain_worker(self, fault: Fault) -> None:
        worker = self._worker(fault)
        if worker.process.is_alive:
            self._victim.fired(fault.kind)
            worker.leave()
            self._for(fault, lambda: self._victim.replace_worker(worker, 0))

    # --- the coordinator ------------------------------------------------------------------------

    def _end(self, fault: Fault, error: BaseException) -> None:
        if self._victim.server is not None:
            self._victim.fired(fault.kind)
            self._victim.down_ms = fault.ms
            self._victim.end_server(error)

    def kill_server(self, fault: Fault) -> None:
        self._end(fault, Killed())

    def power(self, fault: Fault) -> None:
        self._end(fault, CrashNow())

    def freeze_server(self, fault: Fault) -> None:
        server = self._victim.server
        if server is not None:
            self._victim.fired(fault.kind)
            server.process.freeze(fault.ms * MILLI)
            self._for(fault, lambda: self._victim.thawed(server, fault.ms * MILLI))

    def retire_server(self, fault: Fault) -> None:
        if self._victim.server is not None:
            self._victim.fired(fault.kind)
            self._victim.down_ms = fault.ms
            self._victim.retire_server()

    def second_server(self, fault: Fault) -> None:
        self._victim.try_second_server(fault)

    def set_wall(self, fault: Fault) -> None:
        if self._victim.server is not None:
            self._victim.fired(fault.kind)
            by_ms = Random(fault.who).choice((-HOUR_MS, HOUR_MS, -90_000, 90_000, -1_000, 5_000))
            self._victim.server.machine.set_wall(by_ms)

    # --- the disk -------------------------------------------------------------------------------

    def slow_disk(self, fault: Fault) -> None:
        self._victim.fired(fault.kind)
        # From a twentieth of a second to five.
        self._slow[fault.number] = (50_000 + fault.who % 4_950_000, fault.share)
        self._for(fault, lambda: self._slow.pop(fault.number, None) and None)

    def stuck_disk(self, fault: Fault) -> None:
        self._victim.fired(fault.kind)
        until = self._victim.agenda.now_us + fault.ms * MILLI
        self._stuck_until = max(self._stuck_until, until)

    def full_disk(self, fault: Fault) -> None:
        disk = self._victim.disk
        self._victim.fired(fault.kind)
        disk.capacity = disk.used + fault.who % 3_000
        self._for(fault, lambda: setattr(disk, "capacity", None))

    def short_writes(self, fault: Fault) -> None:
        disk = self._victim.disk
        self._victim.fired(fault.kind)
        disk.largest_write = SHORT_WRITES[fault.who % len(SHORT_WRITES)]
        self._for(fault, lambda: setattr(disk, "largest_write", None))

    def sync_fails(self, fault: Fault) -> None:
        disk = self._victim.disk
        self._victim.fired(fault.kind)
        self._victim.down_ms = fault.ms
        done = disk.operations
        disk.tear_failed_sync = bool(fault.who & 1)
        disk.fail_sync_at = (
            done["fsync"] + done["fdatasync"] + done["fsync_dir"] + 1 + fault.who % 5
        )

    def rot(self, fault: Fault) -> None:
        self._victim.try_rot(fault)

    def _in_disk(self, fault: Fault) -> None:
        disk = self._victim.disk
        if disk.crash_at is None:
            self._victim.fired(fault.kind)
            self._victim.down_ms = fault.ms
            disk.crash_at = disk.total_operations + fault.who % 40
            disk.crash_is_power = fault.kind == "power_in_disk"

    def _at_point(self, fault: Fault) -> None:
        self._victim.fired(fault.kind)
        self._victim.down_ms = fault.ms
        self._moments.armed[fault.point] = (
            Killed() if fault.kind == "kill_at_point" else CrashNow()
        )


BLOWS: Final[dict[str, Callable[[Nemesis, Fault], None]]] = {
    "lose": Nemesis.lose,
    "double": Nemesis.double,
    "delay": Nemesis.delay,
    "reset": Nemesis.reset,
    "cut": Nemesis.cut,
    "cut_to_server": Nemesis.cut_to_server,
    "cut_from_server": Nemesis.cut_from_server,
    "kill_worker": Nemesis.kill_worker,
    "freeze_worker": Nemesis.freeze_worker,
    "drain_worker": Nemesis.drain_worker,
    "kill_server": Nemesis.kill_server,
    "power": Nemesis.power,
    "outage": Nemesis.kill_server,
    "freeze_server": Nemesis.freeze_server,
    "retire_server": Nemesis.retire_server,
    "second_server": Nemesis.second_server,
    "set_wall": Nemesis.set_wall,
    "slow_disk": Nemesis.slow_disk,
    "stuck_disk": Nemesis.stuck_disk,
    "full_disk": Nemesis.full_disk,
    "short_writes": Nemesis.short_writes,
    "sync_fails": Nemesis.sync_fails,
    "rot": Nemesis.rot,
    "kill_in_disk": Nemesis._in_disk,
    "power_in_disk": Nemesis._in_disk,
    "kill_at_point": Nemesis._at_point,
    "power_at_point": Nemesis._at_point,
}
"""What each kind of fault does. A test compares the names with those of the plan."""
