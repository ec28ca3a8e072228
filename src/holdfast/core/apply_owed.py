"""Folds of the events about what commits owe: each entry is settled once, whatever was tried."""

from collections.abc import Iterable

from holdfast.core import events as e
from holdfast.core.apply_ends import finish, impossible, retire
from holdfast.core.debts import Owing
from holdfast.core.errors import ImpossibleEvent
from holdfast.core.ids import Index, Instant, Position
from holdfast.core.job import Job
from holdfast.core.owed import BLOCK, DebtName
from holdfast.core.state import State
from holdfast.core.task import Task, target_of
from holdfast.core.ties import note_tasks


def settled(
    state: State,
    event: e.EffectsDelivered | e.EffectsDiscarded,
    position: Position,
    at: Instant,
) -> None:
    job = state.job_of(event.job_id)
    found = _owed(state, job, [(s.index, s.number) for s in event.settled], event)
    gone: dict[Index, set[int]] = {}
    tasks = job.tasks or {}
    for owing in found:
        name = owing.name
        state.debts.settle(owing, tasks[name.index])
        gone.setdefault(name.index, set()).add(name.number)
    for index, numbers in gone.items():
        task = tasks[index]
        task.owed = tuple(debt for debt in task.owed if debt.number not in numbers)
    job.updated_at = at


def delivery_failed(
    state: State, event: e.DeliveryFailed, position: Position, at: Instant
) -> None:
    job = state.job_of(event.job_id)
    (owing,) = _owed(state, job, [(event.index, event.number)], event)
    if owing.debt.parked or owing.debt.kind == BLOCK:
        raise impossible(job, event.index, event)
    state.debts.fail(owing, event.tries, event.not_before, event.error)
    job.updated_at = at


def effects_parked(state: State, event: e.EffectsParked, position: Position, at: Instant) -> None:
    job = state.job_of(event.job_id)
    found = _owed(state, job, [(p.index, p.number) for p in event.parked], event)
    for owing in found:
        if owing.debt.parked:
            raise impossible(job, owing.name.index, event)
    tasks = job.tasks or {}
    for owing, parked in zip(found, event.parked, strict=True):
        state.debts.park(owing, tasks[parked.index], parked.tries, parked.error)
    job.updated_at = at


def effects_retried(
    state: State, event: e.EffectsRetried, position: Position, at: Instant
) -> None:
    job = state.job_of(event.job_id)
    found = _owed(state, job, [(s.index, s.number) for s in event.settled], event)
    for owing in found:
        if owing.debt.kind == BLOCK:
            raise impossible(job, owing.name.index, event)
    for owing in found:
        state.debts.retry(owing)
    job.updated_at = at


def tasks_done(state: State, event: e.TasksDone, position: Position, at: Instant) -> None:
    job = state.job_of(event.job_id)
    done: dict[Index, Task] = {}
    for index in event.indices:
        task = _crossed(job, index, event)
        if task.owed:
            raise impossible(job, index, event)
        done[index] = task
    if len(done) != len(event.indices):
        raise ImpossibleEvent(f"job {job.job_id}", "named twice over", event)
    for task in done.values():
        retire(job, task, int(target_of(task, event)), task.committed)
    if state.awaited:
        note_tasks(state, job, done)
    finish(state, job, len(done), at)


def _owed(
    state: State, job: Job, named: Iterable[tuple[Index, int]], event: e.Event
) -> list[Owing]:
    """The entries an event names, each of them owed and named once."""
    found: dict[DebtName, Owing] = {}
    count = 0
    for index, number in named:
        count += 1
        _crossed(job, index, event)
        owing = state.debts.find(DebtName(job.job_id, index, number))
        if owing is None:
            raise impossible(job, index, event)
        found[owing.name] = owing
    if len(found) != count:
        raise ImpossibleEvent(f"job {job.job_id}", "named twice over", event)
    return list(found.values())


def _crossed(job: Job, index: Index, event: e.Event) -> Task:
    """The task, which the table must know to have committed."""
    task = (job.tasks or {}).get(index)
    if task is None:
        raise impossible(job, index, event)
    target_of(task, event)
    return task
