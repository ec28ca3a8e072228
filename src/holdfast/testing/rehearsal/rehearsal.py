"""What a test holds: everything that `holdfast.open` gives, a clock, and blows."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from holdfast.client.feeder import Feeder
from holdfast.client.holdfast import Holdfast
from holdfast.client.sinks import HERE
from holdfast.testing.rehearsal.backend import RehearsedBackend
from holdfast.testing.rehearsal.blows import Blow, During
from holdfast.testing.rehearsal.bodies import VirtualSleep
from holdfast.testing.rehearsal.clock import VirtualClock
from holdfast.testing.rehearsal.errors import NotRehearsed
from holdfast.testing.rehearsal.sink import RecordingSink
from holdfast.testing.rehearsal.worker import Worker
from holdfast.testing.rehearsal.world import Cast, World
from holdfast.wire.amounts import Duration, duration_ms, whole
from holdfast.wire.sinks import FunctionSink, check_name
from holdfast.wire.wishes import amounts_of
from holdfast.worker.sinks.outlet import Effect

RESTART: Final = "1s"


class Rehearsal(Holdfast):
    """A cluster in this process and in virtual time: `workers` of so many `slots` each, whose
    leases last `lease_term`. Functions really run, one at a time; whoever asks for a result makes
    time pass. The same `seed` gives the same run.

    The invariants of Holdfast are checked after every step of it.
    """

    def __init__(
        self,
        *,
        workers: int = 2,
        slots: int = 1,
        lease_term: Duration = "15s",
        seed: int = 0,
        resources: Mapping[str, float] | None = None,
    ) -> None:
        cast = Cast(
            workers=whole(workers, "workers"),
            slots=whole(slots, "slots"),
            term_ms=duration_ms(lease_term, "lease_term"),
            seed=whole(seed, "seed"),
            resources=amounts_of(resources or {}),
        )
        if cast.workers < 1 or cast.slots < 1 or cast.term_ms < 1:
            raise ValueError("a rehearsal needs a worker with a slot, and leases that last")
        self._until_end = ExitStack()
        folder = self._until_end.enter_context(TemporaryDirectory(prefix="holdfast-rehearsal-"))
        self._world = World(cast, Path(folder))
        self.clock = VirtualClock(self._world.clock, self._run_until)
        self._blows: list[Blow] = []
        super().__init__(RehearsedBackend(self._world, "rehearsal"), grace_ms=0)
        self._until_end.callback(self._world.end)
        self._until_end.enter_context(VirtualSleep(lambda body, s: self.clock.sleep(s)))

    # Time.

    def run_until_idle(self) -> None:
        """Let time pass until nothing is left to do: everything has ended that can, and what was
        owed is delivered. Schedules go on for ever, and are not waited for."""
        self._world.drive(lambda: False, None)

    def _run_until(self, end_ms: int) -> None:
        self._world.drive(lambda: False, end_ms)

    # Effects.

    def sink(
        self,
        name: str,
        function: Callable[[Effect], Any] | None = None,
        *,
        tries: int = 20,
        first_wait: float | str = "1s",
    ) -> RecordingSink:
        """A sink for the effects of tasks, which remembers what it was called with. `function` is
        called with each, and may raise: then it is tried again, `tries` times in all."""
        check_name(name)
        recording = RecordingSink(name, function)
        definition = FunctionSink(target=HERE + name, tries=tries, first_wait=first_wait)
        self._world.sink(name, definition, recording)
        return recording

    # Blows.

    def kill_worker(
        self,
        name: str = "",
        *,
        during: During | None = None,
        of: During | None = None,
        restart: Duration | None = RESTART,
    ) -> Blow:
        """A worker dies, with everything in it: now, or at the next moment that `during` names (see
        docs/testing.md), of the task `of` where that is given. Another of the same name is started
        after `restart`; with None never, so that its leases have to run out."""
        restart_ms = None if restart is None else duration_ms(restart, "restart")
        return self._strike(
            "kill_worker", name, during, of, lambda worker: self._world.kill(worker, restart_ms)
        )

    def freeze_worker(
        self,
        name: str = "",
        *,
        for_: Duration,
        during: During | None = None,
        of: During | None = None,
    ) -> Blow:
        """A worker stops for so long and then goes on with no idea that time has passed, as a
        process does after SIGSTOP and SIGCONT, or a machine that slept."""
        for_ms = duration_ms(for_, "for_")
        return self._strike(
            "freeze_worker", name, during, of, lambda worker: self._world.freeze(worker, for_ms)
        )

    def crash_coordinator(
        self,
        *,
        during: During | None = None,
        of: During | None = None,
        down_for: Duration = 0,
        keeps_record: bool = True,
    ) -> Blow:
        """The coordinator dies and comes back after `down_for` with what its log has: now, or while
        the next commit is written (`during="commit"`, or the function that commits). That record
        has reached the disk, though nobody was told, unless `keeps_record` is false."""
        down_ms = duration_ms(down_for, "down_for")

        def strike() -> None:
            self._world.crash(down_ms, keeps_frame=keeps_record)

        if during is None:
            blow = Blow("crash_coordinator", "now", None, strike)
            blow.fall()
            return blow
        blow = self._commits(during, of, strike)
        self._world.crash_blows.append(blow)
        self._blows.append(blow)
        return blow

    def _commits(self, during: During, of: During | None, strike: Callable[[], None]) -> Blow:
        if during == "commit":
            return Blow("crash_coordinator", during, of, strike)
        return Blow("crash_coordinator", "commit", during, strike)

    def _strike(
        self,
        what: str,
        name: str,
        during: During | None,
        of: During | None,
        strike: Callable[[Worker], None],
    ) -> Blow:
        if during is None:
            worker = self._worker(name)
            blow = Blow(what, "now", None, lambda: strike(worker))
            blow.fall()
            return blow
        struck: list[Worker] = []
        blow = Blow(what, during, of, lambda: strike(struck[-1]))
        self._world.worker_blows.append((blow, struck))
        self._blows.append(blow)
        return blow

    def _worker(self, name: str) -> Worker:
        """The one of that name; without a name one that has something to do, if there is any."""
        there = [worker for worker in self._world.crew if worker.is_alive and not worker.is_frozen]
        if name:
            there = [worker for worker in there if worker.name == name]
        there.sort(key=lambda worker: not worker.is_busy())
        if not there:
            raise NotRehearsed(f"there is no worker {name or 'left'} that could be struck")
        return there[0]

    # Leaving.

    def close(self) -> None:
        """The test is over. A blow that was ordered and never fell proves nothing: that is an
        error."""
        self.abort()
        waiting = [blow for blow in self._blows if not blow.has_happened]
        if waiting:
            raise NotRehearsed(f"this never happened: {', '.join(map(repr, waiting))}")

    def abort(self) -> None:
        super().abort()
        self._until_end.close()

    def __enter__(self) -> "Rehearsal":
        super().__enter__()
        return self

    # How it is done.

    def _start(self, feeder: Feeder) -> None:
        feeder.run()
