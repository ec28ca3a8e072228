"""One thing that a record did, as people see it."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import Struct

from holdfast.core.ids import task_name
from holdfast.core.record import Record

Detail = str | int | bool | None
Details = dict[str, Detail]

LOG = "log"
"""The entity of what happens to the log itself."""


class Action(Struct, frozen=True):
    """One thing that was done, to one entity: `JOB`, `JOB/3`, `JOB/0-999`, a worker, the log."""

    action: str
    entity: str
    details: Details


Renderer = Callable[[Any, Record], Iterator[Action]]


def ranges(
    action: str, job_id: str, steps: Iterable[tuple[int, int, Details]]
) -> Iterator[Action]:
    """Steps (first, last, details) with neighbours of the same details drawn together."""
    pending: tuple[int, int, Details] | None = None
    for first, last, details in steps:
        if pending is not None and first == pending[1] + 1 and details == pending[2]:
            pending = (pending[0], last, details)
            continue
        if pending is not None:
            yield _on_range(action, job_id, *pending)
        pending = (first, last, details)
    if pending is not None:
        yield _on_range(action, job_id, *pending)


def _on_range(action: str, job_id: str, first: int, last: int, details: Details) -> Action:
    entity = task_name(job_id, first) if first == last else f"{job_id}/{first}-{last}"
    return Action(action, entity, details)
