"""What changed between two moments of one log: jobs, their tasks, and everything else with a name.

Both moments are states of their own, so nothing is guessed from what lay between them: a job that
was submitted and forgotten in between is in neither.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from msgspec import Struct, structs

from holdfast.coordinator import projected
from holdfast.coordinator.inspect import Reading
from holdfast.coordinator.projection import TABLES
from holdfast.coordinator.views import View, attempts_made, job_view, rfc3339
from holdfast.core.ids import Index, task_name
from holdfast.core.job import Job
from holdfast.core.task import FRESH, STATE_OF_CELL, TaskState

TASKS_NAMED: Final = 1_000
"""So many tasks of one job are told one by one; all of them are counted."""

NAMED: Final = (
    "schedules", "limits", "resources", "circuits", "queues", "tokens", "effects", "workers",
)  # fmt: skip
"""Tables whose rows are compared field by field."""

ABSENT: Final = "-"
_JOB_FIELDS: Final = ("name", "state", "reason", "tasks", "generation", "sealed", "blocked")


class Change(Struct, frozen=True):
    """One thing that is not as it was. `change` is added, gone or changed; `fields` are those that
    differ, each with what it was and what it is."""

    table: str
    name: str
    change: str
    fields: dict[str, tuple[Any, Any]]
    moves: dict[str, int] = {}
    tasks: list[tuple[str, str, str]] = []


def changes(before: Reading, after: Reading) -> Iterator[Change]:
    """Everything that differs, jobs first, in the order of their numbers."""
    # One clock for both: what did not change must not look as if it had, where only one of the two
    # has read the frames that knew what the wall clock showed.
    before = Reading(before.folder, before.state, after.walls)
    yield from _jobs(before, after)
    for table in TABLES:
        if table.name in NAMED:
            columns = [column.name for column in table.columns]
            width = len(table.key)
            was, is_now = (
                {_key(row, columns, table.key): row for row in table.rows(reading)}
                for reading in (before, after)
            )
            yield from _rows(table.name, columns, width, was, is_now)


def difference(before: Reading, after: Reading) -> View:
    """The same as plain values: both moments, and every change."""
    found = [structs.asdict(change) for change in changes(before, after)]
    return {"from": _moment(before), "to": _moment(after), "changes": found}


def _moment(reading: Reading) -> View:
    state = reading.state
    return {"position": int(state.position), "at": rfc3339(reading.wall(state.time))}


def _key(row: tuple[Any, ...], columns: list[str], key: tuple[str, ...]) -> str:
    return "/".join(str(row[columns.index(name)]) for name in key)


def _rows(
    table: str,
    columns: list[str],
    width: int,
    was: Mapping[str, tuple[Any, ...]],
    is_now: Mapping[str, tuple[Any, ...]],
) -> Iterator[Change]:
    blank = (None,) * len(columns)
    for name in dict.fromkeys((*was, *is_now)):
        old, new = was.get(name, blank), is_now.get(name, blank)
        if old == new:
            continue
        pairs = zip(columns, old, new, strict=True)
        fields = {each: (a, b) for each, a, b in islice(pairs, width, None) if a != b}
        yield Change(table, name, _kind(name in was, name in is_now), fields)


def _kind(was: bool, is_now: bool) -> str:
    return "changed" if was and is_now else "added" if is_now else "gone"


def _jobs(before: Reading, after: Reading) -> Iterator[Change]:
    was, is_now = before.state.jobs, after.state.jobs
    for job_id in dict.fromkeys((*was, *is_now)):
        old, new = was.get(job_id), is_now.get(job_id)
        fields = _fields(old, before.wall, new, after.wall)
        moves, tasks = _moves(old, new)
        if fields or moves:
            kind = _kind(old is not None, new is not None)
            yield Change("jobs", job_id, kind, fields, moves, tasks)


def _fields(
    old: Job | None, wall_then: Callable[[int], int], new: Job | None, wall: Callable[[int], int]
) -> dict[str, tuple[Any, Any]]:
    was = {} if old is None else job_view(old, wall_then)
    is_now = {} if new is None else job_view(new, wall)
    return {
        name: (was.get(name), is_now.get(name))
        for name in _JOB_FIELDS
        if was.get(name) != is_now.get(name)
    }


def _moves(old: Job | None, new: Job | None) -> tuple[dict[str, int], list[tuple[str, str, str]]]:
    """How many tasks went from which state to which, and the first of them by name. A task that
    was tried again meanwhile has moved, though it is where it was."""
    tally: Counter[tuple[str, str]] = Counter()
    told: list[tuple[str, str, str]] = []
    if old is not None and new is not None and _is_untouched(old, new):
        return {}, told
    count = max(old.count if old is not None else 0, new.count if new is not None else 0)
    known = new or old
    for place in range(count) if known is not None else ():
        index = Index(place)
        a, b = _standing(old, index), _standing(new, index)
        if a == b:
            continue
        move = (a[0], b[0])
        tally[move] += 1
        if len(told) < TASKS_NAMED and known is not None:
            told.append((task_name(known.job_id, index), *move))
    return {f"{a} -> {b}": count for (a, b), count in sorted(tally.items())}, told


def _is_untouched(old: Job, new: Job) -> bool:
    """One look for jobs of a million tasks of which nothing was touched."""
    return old.updated_at == new.updated_at and old.states == new.states and (
        not new.tasks or old.tasks == new.tasks
    )


def _standing(job: Job | None, index: Index) -> tuple[str, int]:
    if job is None or index >= job.count:
        return ABSENT, 0
    cell = job.states[index]
    if cell == FRESH:
        return TaskState.WAITING.name, 0
    return projected.STATE_NAMES[STATE_OF_CELL[cell]], attempts_made(job, index)
