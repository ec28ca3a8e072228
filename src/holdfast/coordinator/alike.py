"""The tasks of a job that are in the same situation, so that one of them is looked at for all."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from holdfast.core.ids import NEVER, Index, Instant
from holdfast.core.job import Job, first_fresh
from holdfast.core.task import FRESH, Task, TaskState

MOST_TASKS: Final = 10_000
"""How many tasks with a past are looked at for one job."""


def alike(
    job: Job, now: Instant, served: Callable[[Task], object] = lambda task: None
) -> Iterator[tuple[int, Index]]:
    """The unfinished tasks of a job by what they have in common, each group with one of it. Of
    those that come back later, the first to do so. `served` tells how a replica stands."""
    fresh = job.states.count(FRESH)
    if fresh:
        yield fresh, Index(first_fresh(job, 0))
    kinds: dict[object, list[Task]] = {}
    for task in islice((job.tasks or {}).values(), MOST_TASKS):
        kind = _kind(task, now) if task.state is not TaskState.RUNNING else (served(task),)
        kinds.setdefault(kind, []).append(task)
    for tasks in kinds.values():
        first = min(tasks, key=lambda task: (task.not_before, task.not_before_wall))
        yield len(tasks), first.index


def trouble_of(task: Task) -> tuple[bool, bool]:
    """Whether something that it owes is parked, and whether something has failed."""
    return any(debt.parked for debt in task.owed), any(debt.tries for debt in task.owed)


def _kind(task: Task, now: Instant) -> tuple[object, ...]:
    if task.state is TaskState.COMMITTED:
        return (task.state, *trouble_of(task))
    if task.state is not TaskState.WAITING:
        return (task.state,)
    times = (task.not_before > now, task.not_before_wall != NEVER, task.attempt > 0)
    return (task.state, *times, task.wanted != NEVER, task.avoid)


def kind_of(job: Job, index: Index, now: Instant) -> tuple[object, ...]:
    task = (job.tasks or {}).get(index)
    return () if task is None else _kind(task, now)
