"""A client that keeps schedules, and what the log may say of them.

Every instant has its turn once, in its order: it is run, in the record that submits the run, or it
is skipped. Where runs may not overlap none begins beside the one before it, and where the new one
takes the place of the old one, the old one ends in the same record. What the calendar itself
promises is judged elsewhere, by a calendar of its own.
"""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Final

from msgspec import Struct

from holdfast.coordinator.schedules import resuming, running, setting
from holdfast.core import commands_schedules as s
from holdfast.core import events as e
from holdfast.core.record import Record
from holdfast.core.schedule import (
    BY_HAND,
    MISSED,
    OVERLAPS,
    REPLACE,
    SCHEDULED_AT,
    SKIP,
    Definition,
    Timing,
)
from holdfast.core.seen import LEASED, RUNNING, WAITING, SeenJob
from holdfast.testing.sim.client import SCHEDULE, Client, a_spec
from holdfast.testing.sim.server import Asked, Order

INTERVALS_MS: Final = (15_000, 60_000, 600_000)
"""Seldom enough that a clock which is set by an hour does not bury everything else."""
PAUSE_S: Final = 20.0
UNFINISHED: Final = (WAITING, LEASED, RUNNING)
"""What could still be stopped: who only owes effects has run."""


class Timekeeper(Client):
    """Makes schedules, changes them, pauses and resumes them, runs them by hand and ends them."""

    async def _live(self) -> None:
        names = ("s0", "s1")[: self._scenario.schedules]
        for _ in range(self._dice.randrange(3, 9)):
            await self._tend(self._dice.choice(names))
            await self._sleep(self._dice.expovariate(1 / PAUSE_S))
        self.is_over = True

    async def _tend(self, name: str) -> None:
        throw = self._dice.random()
        if throw < 0.5:
            await self._order(name, partial(setting, name=name, definition=self._definition()))
        elif throw < 0.6:
            await self._ask(SCHEDULE, name, s.PauseSchedule(name=name))
        elif throw < 0.8:
            await self._order(name, partial(resuming, name=name))
        elif throw < 0.95:
            await self._order(name, lambda state, wall: running(wall, name))
        else:
            await self._ask(SCHEDULE, name, s.RemoveSchedule(name=name))

    async def _order(self, name: str, order: Order) -> None:
        await self._ask_with(SCHEDULE, name, None, Asked("", order=order))

    def _definition(self) -> Definition:
        missed = self._dice.choice(MISSED)
        every_ms = self._dice.choice(INTERVALS_MS if missed == SKIP else INTERVALS_MS[1:])
        items = tuple(f"{n}:{SCHEDULED_AT}".encode() for n in range(self._dice.choice((1, 2))))
        return Definition(
            timing=Timing(every_ms=every_ms), spec=a_spec(self._dice), items=items,
            missed=missed, overlap=self._dice.choice(OVERLAPS),
        )  # fmt: skip


class Kept(Struct):
    """A schedule as its records tell it; `expected` is the instant that has its turn."""

    definition: Definition
    expected: int
    last_job: str = ""
    is_paused: bool = False


class Timetable:
    """`runs` has the job of each instant, by the name of the schedule."""

    def __init__(self) -> None:
        self.runs: dict[str, dict[int, str]] = {}
        self.seen: Counter[str] = Counter()
        self._kept: dict[str, Kept] = {}

    def feed(self, position: int, record: Record, going_on: set[str]) -> Iterator[str]:
        """What is wrong with this record; `going_on` are the schedules whose last runs had not
        ended before it."""
        for event in record.events:
            if isinstance(event, e.ScheduleSet):
                former = self._kept.get(event.name)
                kept = Kept(event.definition, event.next_wall)
                if former is not None:
                    kept.last_job, kept.is_paused = former.last_job, former.is_paused
                self._kept[event.name] = kept
            elif isinstance(event, e.ScheduleRemoved):
                del self._kept[event.name]
            elif isinstance(event, e.SchedulePaused):
                self._kept[event.name].is_paused = True
            elif isinstance(event, e.ScheduleResumed):
                kept = self._kept[event.name]
                kept.is_paused, kept.expected = False, event.next_wall
            elif isinstance(event, e.ScheduleFired):
                told = self._fired(event, record, event.name in going_on)
                yield from (f"at {position} schedule {event.name} {wrong}" for wrong in told)
            elif isinstance(event, e.ScheduleSkipped):
                self.seen[f"skipped {event.why.partition(':')[0]}"] += 1
                told = self._turned(event.name, event.from_wall, event.until_wall, event.next_wall)
                yield from (f"at {position} schedule {event.name} {wrong}" for wrong in told)

    def going_on(self, jobs: dict[str, SeenJob]) -> set[str]:
        """The schedules whose last runs have not ended."""
        return {
            name
            for name, kept in self._kept.items()
            if kept.last_job and _is_going_on(jobs.get(kept.last_job))
        }

    def _fired(self, event: e.ScheduleFired, record: Record, goes_on: bool) -> Iterator[str]:
        kept = self._kept[event.name]
        self.seen[f"fired {event.cause}"] += 1
        submitted = [
            each.job_id for each in record.events if isinstance(each, e.JobSubmitted)
        ]
        if submitted.count(event.job_id) != 1:
            yield f"ran {event.at_wall} and submitted {submitted}"
        if event.cause != BY_HAND:
            runs = self.runs.setdefault(event.name, {})
            if event.at_wall in runs:
                yield f"ran {event.at_wall} as {runs[event.at_wall]} and as {event.job_id}"
            runs[event.at_wall] = str(event.job_id)
            yield from self._turned(event.name, event.at_wall, event.at_wall, event.next_wall)
            yield from _overlapping(kept, event, record, goes_on=goes_on)
        kept.last_job = str(event.job_id)

    def _turned(self, name: str, first: int, last: int, following: int) -> Iterator[str]:
        kept = self._kept[name]
        step = kept.definition.timing.every_ms
        if first != kept.expected or kept.is_paused:
            yield f"took {first} where {kept.expected} was next"
        if following != last + step or (last - first) % step:
            yield f"goes on with {following} after {last}"
        kept.expected = following


def _overlapping(
    kept: Kept, event: e.ScheduleFired, record: Record, *, goes_on: bool
) -> Iterator[str]:
    if kept.definition.overlap == SKIP and goes_on:
        yield f"ran {event.at_wall} beside {kept.last_job}"
    replaced = [
        str(each.job_id)
        for each in record.events
        if isinstance(each, e.JobCancelled) and each.cause == "replaced"
    ]
    wanted = [kept.last_job] if kept.definition.overlap == REPLACE and goes_on else []
    if replaced != wanted and (goes_on or replaced != [kept.last_job]):
        yield f"ran {event.at_wall} and stopped {replaced}, not {wanted}"


def _is_going_on(job: SeenJob | None) -> bool:
    if job is None:
        return False
    ended = sum(seen.state not in UNFINISHED for seen in job.tasks.values())
    return ended < job.count
