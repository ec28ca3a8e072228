"""The programs of services in a simulated worker: started, asked, crashed and ended by chance.

Everything above the process is the real worker: ports, probes and their tallies, the book of what
is told, the order in which a replica is stopped. A program does what the first word of its command
says: `serve` gets ready after a while, and in a storm it crashes now and then, or is deaf for a
time; `crash` ends before it is ever ready; `silent` never answers.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast.core.ids import LeaseId
from holdfast.testing.sim.machines import Process
from holdfast.testing.sim.plan import Scenario
from holdfast.testing.sim.timed import TimedExecutor
from holdfast.testing.stepped import Attempt
from holdfast.wire.bodies import Command
from holdfast.wire.exchange import Failed, Released, Run
from holdfast.wire.service import SERVICE, Probe
from holdfast.worker.attendant import Attendant
from holdfast.worker.errands import Begun, Halt, Launch
from holdfast.worker.ports import Ports
from holdfast.worker.probing import Unwell
from holdfast.worker.replica import Replica
from holdfast.worker.sampling import Meter
from holdfast.worker.servicebook import ServiceBook

SERVE, CRASH, SILENT = "serve", "crash", "silent"
BEHAVIOURS: Final = (SERVE, CRASH, SILENT)
NEVER_MS: Final = 1 << 50
"""So late is never."""
STARTS_MS: Final = 3_000
FIRST_PORT: Final = 20_000

_command = msgspec.msgpack.Decoder(Command).decode


class Program(Struct):
    """One process: from when on it answers, and between which instants it is deaf."""

    does: str
    answers_from: int
    deaf_from: int = NEVER_MS
    deaf_until: int = NEVER_MS

    def is_content(self, now_ms: int) -> bool:
        is_deaf = self.deaf_from <= now_ms < self.deaf_until
        return self.does == SERVE and now_ms >= self.answers_from and not is_deaf


class CountedPorts(Ports):
    """Numbers in their order: what is given out depends on nothing outside."""

    def __init__(self) -> None:
        super().__init__()
        self._next = FIRST_PORT

    def give(self, names: Iterable[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for name in names:
            self._next += 1
            found[name] = self._next
        return found


class ProgramExecutor(TimedExecutor):
    """Functions and programs in the same slots. `fired` counts what programs do by themselves."""

    def __init__(
        self,
        scenario: Scenario,
        dice: Random,
        clock_ms: Callable[[], int],
        changed: Callable[[], None],
        fired: Callable[[str], None],
    ) -> None:
        super().__init__(scenario, dice, clock_ms, changed)
        self.programs: dict[LeaseId, Program] = {}
        self.began: Callable[[Begun], None] = lambda begun: None
        self._fired = fired
        self._parted: set[LeaseId] = set()
        self._condemned: dict[LeaseId, str] = {}
        # What programs do is not drawn from what tasks do: tasks then do the same without them.
        self._fate = Random(dice.random())
        # On some machines programs crash so often that they spend their budgets.
        self._crashing = self._fate.choice((0.1, 0.4, 0.9))

    # What services need beyond what every executor does.

    def aside(self, errand: Launch | Halt) -> None:
        """Nobody is asked by a program here."""

    def holds(self, slot: int) -> bool:
        return bool(self._lanes[slot])

    def condemn(self, lease_id: LeaseId, why: str, grace_ms: int) -> None:
        attempt = self._program_of(lease_id)
        if attempt is not None:
            self._condemned.setdefault(lease_id, why)
            self._halt(attempt, grace_ms)

    def stop(self, lease_id: LeaseId, grace_ms: int | None = None) -> None:
        attempt = self._program_of(lease_id)
        super().stop(lease_id, grace_ms)
        if attempt is not None:
            self._halt(attempt, grace_ms or 0)

    def cut_off(self, lease_id: LeaseId, grace_ms: int) -> None:
        attempt = self._program_of(lease_id)
        if attempt is None:
            super().cut_off(lease_id, grace_ms)
        elif not attempt.given_up:
            self._parted.add(lease_id)
            self._halt(attempt, grace_ms)

    def next_due(self) -> int:
        heads = [lane[0] for lane in self._lanes if lane and lane[0].since]
        return min((head.until for head in heads if head.until < NEVER_MS), default=0)

    def be_calm(self) -> None:
        super().be_calm()
        for attempt in self._attempts():
            program = self.programs.get(attempt.item.lease_id)
            if program is not None and program.does == SERVE:
                program.deaf_from = NEVER_MS
                if not self._is_ending(attempt):
                    attempt.until = NEVER_MS

    def is_content(self, lease_id: LeaseId) -> bool:
        program = self.programs.get(lease_id)
        return program is not None and program.is_content(self._clock_ms())

    def serving(self) -> dict[LeaseId, Run]:
        """The programs that run, wanted or not."""
        return {
            attempt.item.lease_id: attempt.run
            for attempt in self._attempts()
            if attempt.item.lease_id in self.programs
        }

    def _begin(self, attempt: Attempt, now_ms: int) -> None:
        if attempt.run.kind != SERVICE:
            super()._begin(attempt, now_ms)
            return
        lease_id = attempt.item.lease_id
        self.ran[lease_id] += 1
        attempt.since = now_ms
        does = _command(attempt.item.payload).argv[0]
        self.programs[lease_id] = self._drawn(does, now_ms)
        attempt.until = self._end_of(does, now_ms)
        self.began(Begun(lease_id, 1))

    def _drawn(self, does: str, now_ms: int) -> Program:
        program = Program(does, now_ms + self._fate.randrange(STARTS_MS))
        if not self._is_calm and does == SERVE and self._fate.random() < 0.2:
            program.deaf_from = now_ms + self._fate.randrange(30_000)
            program.deaf_until = program.deaf_from + self._fate.randrange(10_000)
            self._fired("program deaf")
        return program

    def _end_of(self, does: str, now_ms: int) -> int:
        if does == CRASH:
            return now_ms + self._fate.randrange(1, 500)
        if self._is_calm or does == SILENT or self._fate.random() >= self._crashing:
            return NEVER_MS
        longest_ms = self._fate.choice((500, 500, 10_000, 60_000))
        return now_ms + self._fate.randrange(1, longest_ms)

    def _end(self, attempt: Attempt) -> None:
        run, item = attempt.run, attempt.item
        if run.kind != SERVICE:
            super()._end(attempt)
            return
        lease_id = item.lease_id
        if lease_id in self._parted:
            self._harvest.released.append(Released(run.job_id, item.index, lease_id, True))
            return
        why = self._condemned.pop(lease_id, "")
        self._fired("program condemned" if why else "program crashed")
        told = why or "exited with 1"
        self._harvest.failed.append(
            Failed(
                run.job_id, item.index, lease_id, attempt.until - attempt.since, "failed", told,
                "last words", 1,
            )
        )  # fmt: skip

    def _halt(self, attempt: Attempt, grace_ms: int) -> None:
        """It has its grace, and takes of it what it likes."""
        took_ms = self._fate.randrange(1 + grace_ms) if self._fate.random() < 0.5 else 0
        attempt.until = min(attempt.until, self._clock_ms() + took_ms)
        self._changed()

    def _is_ending(self, attempt: Attempt) -> bool:
        lease_id = attempt.item.lease_id
        return attempt.given_up or lease_id in self._parted or lease_id in self._condemned

    def _attempts(self) -> list[Attempt]:
        return [attempt for lane in self._lanes for attempt in lane if attempt.since]

    def _program_of(self, lease_id: LeaseId) -> Attempt | None:
        found = (each for each in self._attempts() if each.item.lease_id == lease_id)
        attempt = next(found, None)
        return attempt if attempt is not None and attempt.run.kind == SERVICE else None


class BlindMeter(Meter):
    """Nobody takes anything here."""

    def begin(self, replica: Replica, now_ms: int) -> None:
        pass

    def end(self, lease_id: LeaseId) -> None:
        pass


class SteppedAttendant(Attendant):
    """Asks programs as the real one does, on the loop of the worker's process."""

    def __init__(
        self,
        book: ServiceBook,
        wake: Callable[[], None],
        clock_ms: Callable[[], int],
        process: Process,
        programs: ProgramExecutor,
    ) -> None:
        super().__init__(book, wake, clock_ms, BlindMeter())
        self._process = process
        self._programs = programs
        self.asked: Counter[str] = Counter()

    def _say(self, act: Callable[[Any], None], about: object) -> None:
        self._process.call_soon(act, about)

    async def _answer(self, replica: Replica, name: str, probe: Probe) -> None:
        self.asked[name] += 1
        if not self._programs.is_content(replica.lease_id):
            await asyncio.sleep(probe.timeout_ms / 1_000)
            raise Unwell(f"{probe.kind}: no answer within {probe.timeout_ms / 1_000:g} s")

    def close(self) -> None:
        for lease_id in list(self._replicas):
            self.leave(lease_id)
