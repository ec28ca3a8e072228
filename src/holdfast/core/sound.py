"""Whether what a snapshot holds could ever have been: judged on loading, before anything uses it.

Checksums say that the bytes are those that were written. They cannot say that whoever wrote them
was right. Here is what a state must have to be told at all: names that are there once, states that
exist, counts that can be counted, leases that were given. Whether it also holds together is for
`check`.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from holdfast.core.errors import BrokenInvariant
from holdfast.core.ids import JobId, LeaseId, task_name
from holdfast.core.job import Job
from holdfast.core.task import (
    ASIDE,
    GIVEN_UP,
    GIVEN_UP_UNPLACED,
    KILLED_BY_LIMIT,
    Task,
    TaskState,
)
from holdfast.core.unreadable import UNREADABLE

CELLS: Final = bytes([*range(8), ASIDE, KILLED_BY_LIMIT, GIVEN_UP, GIVEN_UP_UNPLACED])
"""Every value that the cell of a task may have."""

ATTEMPTS_MOST: Final = 2**31 - 1
"""A column is unsigned: what is beyond this was negative once."""

TOLD: Final = 5
TASKS_AT: Final = 12
STATE_AT: Final = 2


class Unsound(BrokenInvariant):
    """A snapshot is whole and holds what cannot be. `flaws` names each thing by its id."""

    def __init__(self, flaws: Sequence[str]) -> None:
        self.flaws = tuple(flaws)
        more = f"; and {len(flaws) - TOLD} more" if len(flaws) > TOLD else ""
        super().__init__(f"it holds what cannot be: {'; '.join(flaws[:TOLD])}{more}")


def is_plausible(
    jobs: Mapping[JobId, Job], rows: int, tasks: Collection[Task], next_lease: LeaseId
) -> bool:
    """Whether there is nothing to look for, told quickly: a million jobs come back at a restart."""
    cells = b"".join([job.states for job in jobs.values()])
    return (
        len(jobs) == rows
        and not cells.translate(None, CELLS)
        and sum(len(job.tasks) for job in jobs.values() if job.tasks) == len(tasks)
        and all(
            0 <= task.attempt <= ATTEMPTS_MOST
            and 0 <= task.lease_id < next_lease
            and 0 <= task.index < len(jobs[task.job_id].states)
            for task in tasks
        )
        and all(max(job.attempts) <= ATTEMPTS_MOST for job in jobs.values() if job.attempts)
    )


def flaws_of(
    jobs: Sequence[Job],
    columns: Sequence[tuple[JobId, bytes, bytes]],
    tasks: Sequence[Task],
    next_lease: LeaseId,
) -> list[str]:
    """Everything about these rows that cannot be, each with the id it is about."""
    return [
        *_jobs(jobs),
        *_columns({job.job_id: job for job in jobs}, columns),
        *_tasks({job.job_id: job for job in jobs}, tasks, next_lease),
    ]


def _jobs(jobs: Sequence[Job]) -> Iterator[str]:
    for job_id, times in Counter(job.job_id for job in jobs).items():
        if times > 1:
            yield f"job {job_id} is there {times} times"
    for job in jobs:
        for cell in sorted(set(job.states.translate(None, CELLS))):
            task = task_name(job.job_id, job.states.index(cell))
            yield f"task {task} is in state {cell}, which there is not"


def _columns(
    jobs: Mapping[JobId, Job], columns: Sequence[tuple[JobId, bytes, bytes]]
) -> Iterator[str]:
    for job_id, attempts, ends in columns:
        if job_id not in jobs:
            yield f"job {job_id} has finished tasks and is not there"
        elif len(attempts) % 4 or len(ends) % 8 or len(attempts) // 4 != len(ends) // 8:
            yield f"job {job_id} has columns of {len(attempts)} and {len(ends)} bytes"
        else:
            for index, attempt in enumerate(memoryview(attempts).cast("i")):
                if attempt < 0:
                    yield f"task {task_name(job_id, index)} has made {attempt} attempts"


def _tasks(
    jobs: Mapping[JobId, Job], tasks: Sequence[Task], next_lease: LeaseId
) -> Iterator[str]:
    for (job_id, index), times in Counter((task.job_id, task.index) for task in tasks).items():
        if times > 1:
            yield f"task {task_name(job_id, index)} is there {times} times"
    for task in tasks:
        name = task_name(task.job_id, task.index)
        job = jobs.get(task.job_id)
        if job is None:
            yield f"task {name} is of a job that is not there"
        elif not 0 <= task.index < job.count:
            yield f"task {name} is one of {job.count} of its job"
        if not 0 <= task.attempt <= ATTEMPTS_MOST:
            yield f"task {name} has made {task.attempt} attempts"
        if not 0 <= task.lease_id < next_lease:
            yield f"task {name} is under lease {task.lease_id}, and {next_lease} comes next"


def strange_states(data: bytes) -> list[str]:
    """The tasks whose state is none of ours, in a snapshot that cannot be read for it."""
    try:
        rows: Any = msgspec.msgpack.decode(data)[TASKS_AT]
        return [
            f"task {task_name(row[0], row[1])} is in state {row[STATE_AT]!r}, which there is not"
            for row in rows
            if len(row) > STATE_AT and row[STATE_AT] not in list(map(int, TaskState))
        ]
    except (*UNREADABLE, LookupError, TypeError):
        return []
