"""What placing costs and what it gives: a round over very many waiting tasks, and a day of skewed
work beside first come first served."""

import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import median

from msgspec import Struct

from holdfast.cli.benchmarks.day import (
    SIZES,
    USERS,
    Outcome,
    Work,
    a_day,
    first_come,
    machines_for,
    planned,
    replay,
)
from holdfast.cli.benchmarks.row import Figure, Row, Values, at_most, main
from holdfast.cli.benchmarks.stepped import Stepped
from holdfast.coordinator.placement import MOST_PICKS
from holdfast.core import commands as c
from holdfast.core.ids import Instant, JobId, WorkerId
from holdfast.core.ready import Row as Waiting
from holdfast.core.shape import Shape, shape_of
from holdfast.core.spec import JobSpec
from holdfast.core.state import State
from holdfast.scheduler.ledger import UNBOUNDED, Ledger
from holdfast.scheduler.outlook import Outlook
from holdfast.scheduler.plan import plan
from holdfast.scheduler.seats import Amounts, Seat, Slot, seat_of
from holdfast.scheduler.shares import Shares

SEED = 1
SHAPES = 50
NAMESPACES = 5
PRIORITIES = 3
TASKS_A_WORKER = 100
JOBS = 100
ROUNDS = 5
SLOTS = 16
GIB = 1 << 30
JOBS_A_DAY = 2_000


def _asks_for(cpus: int) -> Callable[[Work], bool]:
    return lambda work: work.cpus == cpus


FEW = 4
GROUPS: dict[str, tuple[str, Callable[[Work], bool]]] = {
    **{f"of_{cpus}": (f"{cpus} cpu", _asks_for(cpus)) for cpus in SIZES},
    "first": ("the user with half of all jobs", lambda work: work.user == 0),
    "next": (f"the {FEW} users after that", lambda work: 0 < work.user <= FEW),
    "rest": (f"the {USERS - FEW - 1} others", lambda work: work.user > FEW),
    "all": ("everybody", lambda work: True),
}
"""Whose waiting is told, and of whom it is."""

PARTS = (
    ("half", "half wait up to", "s"),
    ("most", "95 of 100 wait up to", "s"),
    ("slow", "95 of 100 slowed down up to", "times"),
)


class _Round(Struct, frozen=True):
    """How much of the cluster is in use when it begins, and how much it may give out."""

    busy: float
    told: str
    most_picks: int = MOST_PICKS


ROUNDS_OF = {
    "empty": _Round(0.0, "the cluster empty"),
    "mixed": _Round(0.7, "the cluster mixed"),
    "full": _Round(1.0, "the cluster full"),
    "whole": _Round(0.0, "the cluster empty, all of it at once", UNBOUNDED),
}
"""A server's rounds, and a plan of the whole: what is foreseen is never cut."""


def run(size: int, folder: Path) -> Values:
    values = _rounds(size)
    day = a_day(min(JOBS_A_DAY, size // 10), SEED)
    machines = machines_for(day)
    for name, place in (("plan", planned), ("fcfs", first_come)):
        values.update(_told(name, replay(day, machines, place(day, machines))))
    # Side by side, as they are announced.
    return {figure.name: values[figure.name] for figure in ROW.figures}


def _told(name: str, outcome: Outcome) -> dict[str, float]:
    told = {f"{name}_used": 100 * outcome.used}
    for group, (_, is_in) in GROUPS.items():
        begun = [one for one in outcome.begun if is_in(one.work)]
        waits = [one.waited_ms / 1_000 for one in begun]
        told[f"{name}_{group}_half"] = part_of(waits, 50)
        told[f"{name}_{group}_most"] = part_of(waits, 95)
        told[f"{name}_{group}_slow"] = part_of([one.slowdown for one in begun], 95)
    return told


def part_of(values: list[float], percent: int) -> float:
    """What so many of a hundred stay at or below."""
    return sorted(values)[len(values) * percent // 100] if values else 0.0


def _rounds(size: int) -> dict[str, float]:
    dice = Random(SEED)  # noqa: S311 - the same cluster again, no secret
    specs = [
        JobSpec(
            name="work", kind="function", target=f"target{number}",
            cpus_milli=dice.choice([500, 1_000, 2_000, 4_000]),
            memory_bytes=dice.choice([0, GIB, 4 * GIB]),
            namespace=f"n{number % NAMESPACES}", priority=number % PRIORITIES,
        )
        for number in range(SHAPES)
    ]  # fmt: skip
    stepped = Stepped()
    state = stepped.coordinator.state
    for number in range(JOBS):
        job_id, spec = JobId(f"job{number}"), specs[number % SHAPES]
        stepped.execute(c.SubmitJob(job_id=job_id, spec=spec, count=max(1, size // JOBS)))
    shapes = [shape_of(state.jobs[JobId(f"job{number}")]) for number in range(SHAPES)]
    workers = max(1, size // TASKS_A_WORKER)
    gc.freeze()
    now = stepped.coordinator.now()
    return {
        name: _round_ms(state, now, shapes, workers, round_)
        for name, round_ in ROUNDS_OF.items()
    }


def _round_ms(
    state: State, now: Instant, shapes: list[Shape], workers: int, round_: "_Round"
) -> float:
    taken: list[float] = []
    for _ in range(ROUNDS):
        seats = _seats(shapes, workers, round_.busy)
        held: dict[Shape, int] = {}
        for seat in seats:
            for slot in seat.slots:
                if slot.shape is not None:
                    held[slot.shape] = held.get(slot.shape, 0) + 1
        rows = state.ready.rows(state.jobs, now)
        outlook = _outlook(rows, seats, held, now)
        outlook.most_picks = round_.most_picks
        began = time.process_time()
        plan(outlook)
        taken.append(1_000 * (time.process_time() - began))
    return median(taken)


def _outlook(
    rows: list[Waiting], seats: list[Seat], held: dict[Shape, int], now: Instant
) -> Outlook:
    return Outlook(
        rows=rows, seats=seats, now=now, pace=lambda spec: 1, ledger=Ledger({}, {}, held),
        shares=lambda: Shares(seats, held, {}), rank_of=lambda row: row.priority,
    )  # fmt: skip


def _seats(shapes: list[Shape], workers: int, busy: float) -> list[Seat]:
    dice = Random(SEED + 1)  # noqa: S311 - the same
    found: list[Seat] = []
    for number in range(workers):
        slots = [Slot(place, 0, None) for place in range(SLOTS)]
        total = Amounts(SLOTS * 1_000, 4 * SLOTS * GIB)
        free = total.copy()
        for slot in slots:
            shape = dice.choice(shapes)
            if dice.random() < busy and free.room(shape, 1):
                slot.shape, slot.load = shape, 1
                free.take(shape)
        found.append(seat_of(WorkerId(f"w{number}"), 1, total, slots))
    return found


def _figures() -> tuple[Figure, ...]:
    bar = at_most(50)
    rounds = [
        Figure(name, f"a round, {round_.told}", "ms", bar) for name, round_ in ROUNDS_OF.items()
    ]
    day: list[Figure] = []
    ways = (("plan", "by the planner"), ("fcfs", "first come first served"))
    day += [Figure(f"{name}_used", f"a day, {how}: processors used", "%") for name, how in ways]
    for group, (who, _) in GROUPS.items():
        for part, what, unit in PARTS:
            day += [
                Figure(f"{name}_{group}_{part}", f"{how}: {who}, {what}", unit)
                for name, how in ways
            ]
    return (*rounds, *day)


ROW = Row(
    name="scheduler",
    what="a round of the planner, and a day of it beside first come first served",
    figures=_figures(),
    size=100_000,
    quick_size=5_000,
    run=run,
)

if __name__ == "__main__":
    sys.exit(main(ROW, sys.argv[1:]))
