"""Lists that are longer than an answer: pages from memory, with a bound on what one may cost."""

from fnmatch import fnmatchcase
from typing import Any, Final

from msgspec import Struct

from holdfast.api.call import Call
from holdfast.api.problems import Declined
from holdfast.coordinator.views import job_view, task_view
from holdfast.core.ids import Index
from holdfast.core.job import Job, JobState, job_state
from holdfast.core.task import STATE_OF_CELL, TaskState

USUAL: Final = 100
MOST: Final = 1_000
LOOKS: Final = 20_000
"""How many jobs a request may look at. A page may end early; `next` says where to go on."""
CELLS: Final = 10_000_000
"""How many tasks may be counted for a page of jobs."""
TASKS: Final = 100_000
"""How many tasks a page of tasks may look at."""


class Wanted(Struct, frozen=True):
    """Which jobs a list is about."""

    states: frozenset[str]
    name: str
    namespace: str
    queue: str
    labels: tuple[tuple[str, str], ...]

    def takes(self, job: Job) -> bool:
        spec = job.spec
        if self.namespace and spec.namespace != self.namespace:
            return False
        if self.queue and spec.queue != self.queue:
            return False
        if self.name and not fnmatchcase(spec.name, self.name):
            return False
        if self.labels and not frozenset(self.labels) <= frozenset(spec.labels):
            return False
        return not self.states or job_state(job).value in self.states


def jobs_page(call: Call) -> dict[str, Any]:
    """One page of jobs, newest first. Short where a longer one would keep others waiting."""
    wanted = _wanted(call)
    limit = max(1, call.number("limit", USUAL, most=MOST))
    cursor = call.number("cursor", 0, most=2**62) or None
    state = call.service.served.coordinator.state
    views: list[dict[str, Any]] = []
    cells = last = 0
    for looks, (position, job) in enumerate(call.service.line.before(state, cursor)):
        if len(views) >= limit or looks >= LOOKS or cells >= CELLS:
            return page("jobs", views, last)
        last = position
        cells += job.count
        if wanted.takes(job):
            views.append(job_view(job, call.service.wall))
    return page("jobs", views, None)


def tasks_page(call: Call, job: Job) -> dict[str, Any]:
    """One page of a job's tasks, by index."""
    states = {int(TaskState[name]) for name in _states(call, TaskState.__members__)}
    limit = max(1, call.number("limit", USUAL, most=MOST))
    first = call.number("cursor", 0, most=2**40)
    stop = min(job.count, first + TASKS)
    views: list[dict[str, Any]] = []
    for index in range(first, stop):
        if len(views) >= limit:
            return page("tasks", views, index)
        if not states or STATE_OF_CELL[job.states[index]] in states:
            views.append(task_view(job, Index(index), call.service.wall))
    return page("tasks", views, stop if stop < job.count else None)


def page(plural: str, views: list[dict[str, Any]], cursor: int | None) -> dict[str, Any]:
    """Part of a list, and where the next part begins; None where there is none."""
    return {"schema": 1, plural: views, "next": None if cursor is None else str(cursor)}


def _wanted(call: Call) -> Wanted:
    labels = []
    for text in call.query.get("label", []):
        key, equals, value = text.partition("=")
        if not equals:
            raise Declined("invalid", f"label={text[:40]!r} is not of the form key=value")
        labels.append((key, value))
    return Wanted(
        states=frozenset(_states(call, JobState.__members__)),
        name=call.one("name"),
        namespace=call.one("namespace"),
        queue=call.one("queue"),
        labels=tuple(labels),
    )


def _states(call: Call, known: Any) -> list[str]:
    told = ",".join(call.query.get("state", []))
    names = [name.strip().upper() for name in told.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise Declined("invalid", f"state={name[:40]!r} is none of {', '.join(known)}")
    return names
