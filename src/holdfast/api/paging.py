"""Lists that are longer than an answer: pages from memory, with a bound on what one may cost."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final

from holdfast.api.call import Call, job_of
from holdfast.api.census import surroundings
from holdfast.api.problems import Declined
from holdfast.coordinator.progress import progress_view
from holdfast.coordinator.surroundings import why_of
from holdfast.coordinator.views import job_view, task_view
from holdfast.core.ids import Index
from holdfast.core.job import Job, JobState
from holdfast.core.state import State
from holdfast.core.task import STATE_OF_CELL, TaskState
from holdfast.wire.wanted import Wanted

USUAL: Final = 100
MOST: Final = 1_000
SLICE_JOBS: Final = 2_000
SLICE_VIEWS: Final = 100
SLICE_TASKS: Final = 20_000
SLICE_CELLS: Final = 2_000_000
"""What is looked at without letting others have their turn: jobs, jobs or tasks to be shown, tasks
to be told by state, and tasks to be counted."""
SLICES: Final = 100
"""How many turns one request may take. A page may end early; `next` says where to go on."""

Part = tuple[list[dict[str, Any]], int | None]
"""What was found, and where to look next; None at the end."""


async def jobs_page(call: Call) -> dict[str, Any]:
    """One page of jobs, newest first."""
    wanted = _wanted(call)
    cursor = call.number("cursor", 0, most=2**62) or None

    # One plan answers for the whole page, and none is made where nothing waits.
    around = cache(lambda: surroundings(call, call.service.served.coordinator))

    def part(cursor: int | None, room: int, state: State) -> Part:
        return _some_jobs(call, state, wanted, cursor, room, lambda job: around().key(job))

    return await _paged(call, "jobs", cursor, part)


async def tasks_page(call: Call) -> dict[str, Any]:
    """One page of a job's tasks, by index."""
    states = frozenset(int(TaskState[name]) for name in _states(call, TaskState.__members__))

    def part(cursor: int | None, room: int, state: State) -> Part:
        return _some_tasks(call, job_of(state, call.path["id"]), states, cursor or 0, room)

    return await _paged(call, "tasks", call.number("cursor", 0, most=2**40), part)


async def _paged(
    call: Call,
    plural: str,
    cursor: int | None,
    part: Callable[[int | None, int, State], Part],
) -> dict[str, Any]:
    """A page in turns, so that others have theirs between."""
    limit = max(1, call.number("limit", USUAL, most=MOST))
    views: list[dict[str, Any]] = []
    for _ in range(SLICES):
        found, cursor = await call.look(partial(part, cursor, limit - len(views)))
        views += found
        if cursor is None or len(views) >= limit:
            break
    return page(plural, views, cursor)


def _some_jobs(
    call: Call,
    state: State,
    wanted: Wanted,
    cursor: int | None,
    room: int,
    why: Callable[[Job], str],
) -> Part:
    views: list[dict[str, Any]] = []
    most = min(room, SLICE_VIEWS)
    cells, last = 0, cursor
    for looks, (position, job) in enumerate(call.service.line.before(state, cursor)):
        if len(views) >= most or looks >= SLICE_JOBS or cells >= SLICE_CELLS:
            return views, last
        last = position
        cells += job.count
        if wanted.takes(job):
            views.append({**job_view(job, call.service.wall), "why": why_of(job, why)})
    return views, None


def _some_tasks(call: Call, job: Job, states: frozenset[int], first: int, room: int) -> Part:
    views: list[dict[str, Any]] = []
    most = min(room, SLICE_VIEWS)
    stop = min(job.count, first + SLICE_TASKS)
    for index in range(first, stop):
        if len(views) >= most:
            return views, index
        if not states or STATE_OF_CELL[job.states[index]] in states:
            view = task_view(job, Index(index), call.service.wall)
            view["progress"] = progress_view(
                call.service.served.exchanges.workers, job, Index(index), call.service.wall
            )
            servicing = call.service.served.exchanges.servicing
            view["service"] = servicing.view(job, Index(index), call.service.wall)
            views.append(view)
    return views, stop if stop < job.count else None


def page(plural: str, views: list[dict[str, Any]], cursor: object) -> dict[str, Any]:
    """Part of a list, and where the next part begins; None where there is none."""
    return {"schema": 1, plural: views, "next": None if cursor is None else str(cursor)}


def _wanted(call: Call) -> Wanted:
    return Wanted(
        states=frozenset(_states(call, JobState.__members__)),
        name=call.one("name"),
        namespace=call.one("namespace"),
        queue=call.one("queue"),
        labels=labels_of(call),
    )


def labels_of(call: Call) -> tuple[tuple[str, str], ...]:
    """The labels that a list is narrowed to."""
    labels = []
    for text in call.query.get("label", []):
        key, equals, value = text.partition("=")
        if not equals:
            raise Declined("invalid", f"label={text[:40]!r} is not of the form key=value")
        labels.append((key, value))
    return tuple(labels)


def _states(call: Call, known: Any) -> list[str]:
    told = ",".join(call.query.get("state", []))
    names = [name.strip().upper() for name in told.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise Declined("invalid", f"state={name[:40]!r} is none of {', '.join(known)}")
    return names
