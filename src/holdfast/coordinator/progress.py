"""How far attempts say they have come: the latest word of each that is held, kept in memory."""

from collections.abc import Mapping

from holdfast.coordinator.seats import Worker
from holdfast.coordinator.views import View, Wall, rfc3339
from holdfast.core.ids import Index, WorkerId
from holdfast.core.job import Job


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
