"""How far attempts say they have come: the latest word of each that is held, kept in memory."""

from collections.abc import Mapping
from itertools import islice
from typing import Final

from holdfast.coordinator.seats import Worker
from holdfast.coordinator.views import View, Wall, rfc3339
from holdfast.core.ids import Index, WorkerId
from holdfast.core.job import Job

MOST_TASKS: Final = 1_000
"""So many tasks of one job are asked how far they are."""


def progress_view(
    workers: Mapping[WorkerId, Worker], job: Job, index: Index, wall: Wall
) -> View | None:
    """What the live attempt of a task said last; nothing where it never did."""
    task = (job.tasks or {}).get(index)
    worker = workers.get(task.worker) if task is not None else None
    if task is None or worker is None or worker.incarnation != task.incarnation:
        return None
    told = worker.progress.get(task.lease_id)
    if told is None:
        return None
    progress, at = told
    return {
        "done": progress.done,
        "total": progress.total or None,
        "note": progress.note,
        "at": rfc3339(wall(at)),
    }


def job_progress(workers: Mapping[WorkerId, Worker], job: Job, wall: Wall) -> View | None:
    """What the live attempts of a job said last, taken together; nothing where none did. The total
    is unknown where one of them gave none."""
    some = islice((job.tasks or {}), MOST_TASKS)
    told = [each for index in some if (each := progress_view(workers, job, index, wall))]
    if not told:
        return None
    totals = [each["total"] for each in told]
    return {
        "tasks": len(told),
        "done": sum(each["done"] for each in told),
        "total": None if None in totals else sum(totals),
        "at": max(each["at"] for each in told),
    }
