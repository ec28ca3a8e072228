"""A day of work as clusters see it, replayed in virtual time over the planner, and over first come
first served.

Published traces agree on the skew: most jobs are short and small, a few take most of the time, more
comes by day than by night, and few users submit most of it. `docs/performance.md` says of each
number where it comes from.
"""

import math
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Final

from msgspec import Struct

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.ports import SystemDice
from holdfast.coordinator.settings import Settings
from holdfast.core import commands as c
from holdfast.core.decision import Refused
from holdfast.core.errors import BrokenInvariant
from holdfast.core.ids import Instant, JobId, WorkerId
from holdfast.core.reports import Done
from holdfast.core.shape import Shape, shape_of
from holdfast.core.spec import JobSpec
from holdfast.core.state import State
from holdfast.scheduler.aging import Aging
from holdfast.scheduler.ledger import Ledger
from holdfast.scheduler.outlook import Outlook
from holdfast.scheduler.plan import plan
from holdfast.scheduler.seats import Amounts, Seat, Slot, seat_of
from holdfast.scheduler.shares import Shares

SECOND: Final = 1_000
HOUR: Final = 3_600 * SECOND
DAY: Final = 24 * HOUR
START: Final = 1_000_000
ROUND_MS: Final = 10 * SECOND
"""What arrives or ends within so long is looked at together."""

MEDIAN_S: Final = 206.0
MEAN_S: Final = 6_652.0
LONGEST_S: Final = 12 * 3_600.0
SIZES: Final = (1, 2, 4, 8)
SIZE_WEIGHTS: Final = (0.56, 0.2, 0.14, 0.1)
USERS: Final = 20
USER_SKEW: Final = 1.6
DIURNAL: Final = 0.6
PEAK_HOUR: Final = 15
LOAD: Final = 0.9
"""What is asked for, of what there is, over the whole day."""

MACHINE_CPUS: Final = 16
AGING_MS: Final = Settings().aging_ms


class Work(Struct, frozen=True):
    """One task that somebody asks for."""

    arrives_ms: int
    takes_ms: int
    cpus: int
    user: int


class Begun(Struct, frozen=True):
    """A task that has waited so long and began."""

    work: Work
    waited_ms: int

    @property
    def slowdown(self) -> float:
        """How many times as long as it takes it took, from when it came. What takes no time to
        speak of counts as a round, so that it says something of that, too."""
        return (self.waited_ms + max(self.work.takes_ms, ROUND_MS)) / max(
            self.work.takes_ms, ROUND_MS
        )


class Outcome(Struct):
    """`used` is the part of all processors and all of the day in which they worked."""

    begun: list[Begun]
    used: float


def a_day(jobs: int, seed: int) -> list[Work]:
    """The same seed gives the same day."""
    dice = Random(seed)  # noqa: S311 - the same day again, no secret
    # Both published figures fix a log-normal distribution.
    sigma = math.sqrt(2 * math.log(MEAN_S / MEDIAN_S))
    users = [1 / (number + 1) ** USER_SKEW for number in range(USERS)]
    found: list[Work] = []
    while len(found) < jobs:
        at = dice.randrange(DAY)
        phase = 2 * math.pi * (at / HOUR - PEAK_HOUR) / 24
        if dice.random() * (1 + DIURNAL) > 1 + DIURNAL * math.cos(phase):
            continue
        takes_s = min(LONGEST_S, dice.lognormvariate(math.log(MEDIAN_S), sigma))
        size = dice.choices(SIZES, SIZE_WEIGHTS)[0]
        user = dice.choices(range(USERS), users)[0]
        found.append(Work(at, max(SECOND, int(takes_s * SECOND)), size, user))
    return sorted(found, key=lambda work: work.arrives_ms)


def machines_for(day: list[Work]) -> int:
    """As many as make the day's work fill `LOAD` of them."""
    asked = sum(work.takes_ms * work.cpus for work in day)
    return max(1, math.ceil(asked / (DAY * LOAD * MACHINE_CPUS)))


Place = Callable[[int, list[int], list[int]], list[int]]
"""Given the time, what arrived and what ended, by number: what begins now."""


def replay(day: list[Work], machines: int, place: Place) -> Outcome:
    """Ask `place` whenever something arrives or ends, until all of it has begun."""
    begun: list[Begun] = []
    heap: list[tuple[int, bool, int]] = []
    for number, work in enumerate(day):
        heappush(heap, (_rounded(work.arrives_ms), True, number))
    busy_ms = 0
    while heap:
        now = heap[0][0]
        came: list[int] = []
        ended: list[int] = []
        while heap and heap[0][0] == now:
            _, is_new, number = heappop(heap)
            (came if is_new else ended).append(number)
        for number in place(now, came, ended):
            work = day[number]
            begun.append(Begun(work, max(0, now - _rounded(work.arrives_ms))))
            heappush(heap, (_rounded(now + work.takes_ms), False, number))
            busy_ms += max(0, min(DAY, now + work.takes_ms) - min(DAY, now)) * work.cpus
    return Outcome(begun, busy_ms / (DAY * machines * MACHINE_CPUS))


def _rounded(ms: int) -> int:
    return -(-ms // ROUND_MS) * ROUND_MS


def first_come(day: list[Work], machines: int) -> Place:
    """Whoever came first goes first; while there is no room for it, nobody behind it begins."""
    free = [MACHINE_CPUS] * machines
    line: list[int] = []
    seats: dict[int, int] = {}

    def place(now: int, came: list[int], ended: list[int]) -> list[int]:
        for number in ended:
            free[seats.pop(number)] += day[number].cpus
        line.extend(came)
        begun: list[int] = []
        for number in line:
            at = next((n for n, left in enumerate(free) if left >= day[number].cpus), None)
            if at is None:
                break
            free[at] -= day[number].cpus
            seats[number] = at
            begun.append(number)
        del line[: len(begun)]
        return begun

    return place


def planned(day: list[Work], machines: int) -> Place:
    """By the planner: every user has a namespace, all of them the same weight."""
    hall = _Hall(machines)

    def place(now: int, came: list[int], ended: list[int]) -> list[int]:
        hall.clock.at = Instant(START + now)
        for number in came:
            hall.submit(number, day[number])
        hall.commit(ended)
        return hall.round()

    return place


class _Clock:
    """Stands until it is moved."""

    at = Instant(START)

    def now(self) -> Instant:
        return self.at

    def wall(self) -> Instant:
        return self.at


class _Hall:
    """A coordinator and machines that run whatever they are given for as long as it takes."""

    def __init__(self, machines: int) -> None:
        self.clock = _Clock()
        self._coordinator = Coordinator(State(), self.clock, SystemDice())
        self._aging = Aging(AGING_MS)
        self._names = [WorkerId(f"w{number}") for number in range(machines)]

    def submit(self, number: int, work: Work) -> None:
        spec = JobSpec(
            name="work", kind="function", target="work", cpus_milli=1_000 * work.cpus,
            namespace=f"user{work.user}",
        )  # fmt: skip
        self._do(c.SubmitJob(job_id=JobId(f"job{number}"), spec=spec, count=1))

    def commit(self, numbers: list[int]) -> None:
        for number in numbers:
            job_id = JobId(f"job{number}")
            for task in list((self._coordinator.state.jobs[job_id].tasks or {}).values()):
                done = (Done(job_id, task.index, task.lease_id, 0, b""),)
                self._do(c.CommitTasks(worker=task.worker, incarnation=1, done=done))

    def round(self) -> list[int]:
        """Plan once and carry it out; what begins."""
        state, now = self._coordinator.state, self._coordinator.now()
        state.ready.wake(state.jobs, now)
        seats = [self._seat(name) for name in self._names]
        held: dict[Shape, int] = {}
        for slot in [slot for seat in seats for slot in seat.slots]:
            if slot.shape is not None:
                held[slot.shape] = held.get(slot.shape, 0) + 1
        rows = state.ready.rows(state.jobs, now)
        self._aging.forget(rows)
        made = plan(
            Outlook(
                rows=rows, seats=seats, now=now, pace=lambda spec: 1,
                ledger=Ledger({}, {}, held), shares=lambda: Shares(seats, held, {}),
                rank_of=lambda row: self._aging.rank_of(row, now),
            )
        )  # fmt: skip
        self._aging.note(made.served, now)
        for pick in made.picks:
            self._do(
                c.GrantLeases(
                    job_id=pick.job_id, worker=pick.worker, incarnation=1, slot=pick.slot,
                    indices=pick.indices, term_ms=0, rank=pick.rank,
                )
            )  # fmt: skip
        self._throw_away()
        return [int(pick.job_id.removeprefix("job")) for pick in made.picks]

    def _seat(self, name: WorkerId) -> Seat:
        state = self._coordinator.state
        slots = [Slot(number, 0, None) for number in range(MACHINE_CPUS)]
        holder = state.holders.get((name, 1))
        for task in holder.leases.values() if holder is not None else ():
            shape = shape_of(state.jobs[task.job_id])
            slots[task.slot] = Slot(task.slot, 1, shape, rank=task.rank)
        return seat_of(name, 1, Amounts(1_000 * MACHINE_CPUS, 0), slots)

    def _do(self, command: c.Command) -> None:
        decision = self._coordinator.execute(command, actor="bench")
        if isinstance(decision, Refused):
            raise BrokenInvariant(decision.message)

    def _throw_away(self) -> None:
        """Durable at once: what is recorded is needed no more."""
        batch = self._coordinator.take_batch()
        if batch is not None:
            self._coordinator.became_durable(batch.last)
