"""A coordinator and one worker in virtual time: the clock jumps from one event to the next.

For what takes days. Coordinator, clockwork and agent are the real ones; only the executor runs
nothing, and the power may fail at a chosen frame.
"""

from collections.abc import Iterator
from random import Random
from typing import Any, Final

from holdfast.coordinator.schedules import setting
from holdfast.coordinator.views import rfc3339
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decision import Accepted, Decision
from holdfast.core.ids import Instant, WorkerId
from holdfast.core.job import job_state
from holdfast.core.schedule import SCHEDULED_AT, Definition, Schedule, Timing
from holdfast.core.spec import JobSpec
from holdfast.testing.clock import ManualClock, SeededDice
from holdfast.testing.service import Service
from holdfast.testing.stepped import SteppedExecutor
from holdfast.wire.exchange import Capacity, Reply
from holdfast.worker.agent import Agent

SLOTS: Final = 4
STARTS_MS: Final = 60_000
SPINS_MAX: Final = 10_000


class Station:
    """A coordinator, one worker beside it, and a clock that jumps from one event to the next.
    `frames_left`: so many frames reach the disk before the power fails once."""

    def __init__(self, start: int, takes_ms: int = 1_000, frames_left: int = -1) -> None:
        self.clock = ManualClock(start)
        self.service = Service(self.clock, SeededDice(1))
        self.takes_ms = takes_ms
        self.frames_left = frames_left
        self.is_torn = False
        self.crashes = 0
        self._employ()

    def _employ(self) -> None:
        self.executor = SteppedExecutor(SLOTS, Random(1), takes_ms=self.takes_ms)
        incarnation = self.service.coordinator.state.epoch
        capacity = Capacity(SLOTS, SLOTS * 1_000, 1 << 30, 0)
        self.agent = Agent(WorkerId("w"), incarnation, self.executor, capacity)

    def do(self, command: c.Command) -> Decision:
        decision = self.service.do(command)
        self.settle()
        return decision

    def set(self, cron: str = "", every_ms: int = 0, zone: str = "UTC", **rest: Any) -> None:
        start = rest.pop("start", 0)
        definition = Definition(
            timing=Timing(cron=cron, every_ms=every_ms, zone=zone),
            spec=JobSpec(name="work", kind="function", target="work"),
            items=(SCHEDULED_AT.encode(),),
            **rest,
        )
        state = self.service.coordinator.state
        command = setting(state, self.clock.wall(), "s", definition, start=Instant(start))
        decision = self.do(command)
        if not isinstance(decision, Accepted):
            raise AssertionError(f"the schedule was refused: {decision}")

    @property
    def schedule(self) -> Schedule:
        return self.service.coordinator.state.schedules["s"]

    def settle(self) -> None:
        """Turn until nothing is left to do at this instant."""
        for _ in range(SPINS_MAX):
            self.executor.advance(self.clock.now())
            exchange = self.agent.step(self.clock.now())
            if exchange is not None:
                self.service.exchanges.take(exchange, self._receive)
            wrote = self.service.turn()
            if wrote and self.frames_left == 0:
                self.crash(frame_survives=self.is_torn)
                self.frames_left = -1
                continue
            if wrote:
                self.frames_left -= self.frames_left > 0
                self.service.synced()
            is_idle = not wrote and exchange is None
            if is_idle and self.service.next_due() > self.clock.now():
                return
        raise AssertionError("always due and never done")

    def _receive(self, reply: Reply) -> None:
        self.agent.receive(reply, self.clock.now())

    def crash(self, *, frame_survives: bool = False) -> None:
        """The power fails and comes back at once; the worker died with it."""
        self.crashes += 1
        self.service.crash(frame_survives=frame_survives, by_snapshot=True)
        self._employ()

    def next_due(self) -> int:
        """When something happens next. That a coordinator looks at the wall clock every second,
        and a worker for starts even more often, is left out where nothing can have come."""
        now, timers = self.clock.now(), self.service.coordinator.state.schedule_timers
        ahead = now + max(timers[0][0] - self.clock.wall(), 1) if timers else 0
        looks = now + STARTS_MS if self.agent.next_due(now) else 0
        dues = (ahead, self.executor.next_due(), looks)
        return min((due for due in dues if due), default=0)

    def run(self, ms: int) -> None:
        """Let so much time pass, event by event."""
        end = self.clock.now() + ms
        while True:
            self.settle()
            self.service.check()
            due = self.next_due()
            if not due or due > end:
                break
            self.clock.advance_to(due)
        self.clock.advance_to(end)
        self.settle()
        if self.service.troubles:
            raise AssertionError(f"invariants are broken: {self.service.troubles}")

    def away(self, ms: int) -> None:
        """Nobody is there for so long."""
        self.clock.advance(ms)
        self.crash()
        self.settle()

    # --- what came of it ------------------------------------------------------------------------

    def events(self) -> Iterator[e.AnyEvent]:
        for record in self.service.records():
            yield from record.events

    def fired(self) -> list[str]:
        """The instants that were run, in the order of the log."""
        return [
            rfc3339(event.at_wall)[:16] for event in self.events()
            if isinstance(event, e.ScheduleFired)
        ]  # fmt: skip

    def skipped(self) -> list[tuple[str, int, str]]:
        return [
            (rfc3339(event.from_wall)[:16], event.count, event.why) for event in self.events()
            if isinstance(event, e.ScheduleSkipped)
        ]  # fmt: skip

    def jobs(self) -> list[str]:
        return [job_state(job).value for job in self.service.coordinator.state.jobs.values()]

    def payloads(self) -> list[bytes]:
        found = [event for event in self.events() if isinstance(event, e.JobSubmitted)]
        return [item for event in found for item in event.items]
