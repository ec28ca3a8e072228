"""A day of five namespaces that always want more than there is: each gets what it is due.

Only the planner is asked; attempts end when their time has come. What is measured is the part of
the cluster that each held, in whatever it held most of, over the whole day.
"""

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from msgspec import Struct

from holdfast.core.job import Job
from holdfast.core.task import Task
from holdfast.testing.floor import Floor, a_machine

HOUR = 3_600_000
DAY = 24 * HOUR
MINUTE = 60_000
STEP = 2 * MINUTE


class Tenant(Struct):
    """What a namespace submits: tasks of these sizes and lengths, so many at these times."""

    sizes: tuple[dict[str, int], ...]
    minutes: tuple[int, int]
    comes: Callable[[int], int]


def at_once(step: int) -> int:
    return 6_000 if step == 0 else 0


def in_bursts(step: int) -> int:
    return 600 if step % 90 == 0 else 0


def steadily(step: int) -> int:
    """Something to begin with, and then a little all the time."""
    return 400 if step == 0 else 16


def by_day(step: int) -> int:
    """More in the middle of the day than at night."""
    return 400 if step == 0 else 24 if 240 < step < 540 else 6


TENANTS = {
    "a": Tenant(({"cpus_milli": 1_000},), (5, 15), at_once),
    "b": Tenant(({"cpus_milli": 4_000}, {"cpus_milli": 2_000}), (20, 90), in_bursts),
    "c": Tenant(({"cpus_milli": 500, "memory_bytes": 6}, {"memory_bytes": 2}), (5, 40), steadily),
    "d": Tenant(({"cpus_milli": 250},), (2, 8), steadily),
    "e": Tenant(({"cpus_milli": 3_000, "memory_bytes": 8},), (30, 60), by_day),
}


class Day:
    """Rounds of the planner, two minutes apart."""

    def __init__(self, seed: int, weights: dict[str, int], tenants: dict[str, Tenant]) -> None:
        self.dice = Random(seed)
        self.floor = Floor(
            **{f"w{number}": a_machine(16, cpus=8, memory_bytes=24) for number in range(6)}
        )
        self.floor.weights = weights
        self.tenants = tenants
        self.held: Counter[str] = Counter()
        self.idle_steps = 0
        self._ends: dict[int, int] = {}

    def run(self, steps: int) -> None:
        for step in range(steps):
            self._submit(step)
            self._end()
            self.floor.round()
            self._measure()
            self.floor.world.sleep(STEP)

    def _submit(self, step: int) -> None:
        for namespace, tenant in self.tenants.items():
            count = tenant.comes(step)
            if count:
                size = self.dice.choice(tenant.sizes)
                self.floor.submit(f"{namespace}{step}", count, namespace=namespace, **size)

    def _tasks(self) -> list[Task]:
        return [task for worker in self.floor.machines for task in self.floor.tasks_on(worker)]

    def _end(self) -> None:
        now = self.floor.world.now
        self.floor.commit(task for task in self._tasks() if self._ends[task.lease_id] <= now)

    def _measure(self) -> None:
        jobs, now = self.floor.world.state.jobs, self.floor.world.now
        amounts: dict[str, Counter[str]] = {name: Counter() for name in self.tenants}
        for task in self._tasks():
            job: Job = jobs[task.job_id]
            tenant = self.tenants[job.spec.namespace]
            if task.lease_id not in self._ends:
                self._ends[task.lease_id] = now + self.dice.randint(*tenant.minutes) * MINUTE
            amounts[job.spec.namespace].update(
                cpus=job.spec.cpus_milli, memory=job.spec.memory_bytes, slots=1
            )
        machines = self.floor.machines.values()
        total = {
            "cpus": sum(machine.total.cpus_milli for machine in machines),
            "memory": sum(machine.total.memory_bytes for machine in machines),
            "slots": sum(machine.slots for machine in machines),
        }
        for name, held in amounts.items():
            self.held[name] += max(held[what] / total[what] for what in total)
        waiting = {row.shape.namespace for row in self.floor.outlook().rows}
        self.idle_steps += waiting != set(self.tenants)


def jain(values: list[float]) -> float:
    return sum(values) ** 2 / (len(values) * sum(value * value for value in values))


def told(day: Day, steps: int) -> str:
    return ", ".join(f"{name} {held / steps:.3f}" for name, held in sorted(day.held.items()))


@pytest.mark.slow
def test_five_namespaces_of_equal_weight_hold_the_same_over_a_day(
    capsys: pytest.CaptureFixture[str],
) -> None:
    day, steps = Day(1, {}, TENANTS), DAY // STEP
    day.run(steps)
    index = jain(list(day.held.values()))
    with capsys.disabled():
        print(f"\nJain index over a day: {index:.4f} ({told(day, steps)})")  # noqa: T201
    assert day.idle_steps == 0
    assert index >= 0.95


def test_weights_decide_what_each_holds(capsys: pytest.CaptureFixture[str]) -> None:
    weights = {"a": 1, "b": 2, "c": 4}
    day, steps = Day(2, weights, {name: TENANTS[name] for name in weights}), DAY // STEP // 2
    day.run(steps)
    parts = {name: day.held[name] / weight for name, weight in weights.items()}
    mean = sum(parts.values()) / len(parts)
    with capsys.disabled():
        print(f"\nHeld for weights 1, 2 and 4: {told(day, steps)}")  # noqa: T201
    assert day.idle_steps == 0
    assert all(abs(part / mean - 1) <= 0.10 for part in parts.values()), parts
