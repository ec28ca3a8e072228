"""Which job, which tasks: an id, the beginning of one, `last`; `JOB/3`, `JOB/3-7`."""

import re
from typing import Final

from holdfast.cli.errors import NOT_FOUND, USAGE, Trouble
from holdfast.cli.output import note, typed
from holdfast.coordinator.inspect import Moment, Reading, Unreachable, open_folder
from holdfast.core.events import JobsForgotten
from holdfast.core.ids import Index, JobId
from holdfast.core.job import Job

LAST: Final = "last"
SHOWN: Final = 5

_SPAN: Final = re.compile(r"(\d+)(?:-(\d+))?")


def find_job(reading: Reading, text: str) -> Job:
    """The one job meant by `text`."""
    jobs = reading.state.jobs
    if text == LAST and JobId(LAST) not in jobs:
        if not jobs:
            raise Trouble(
                f"there is no job in {reading.path} yet. `holdfast demo --keep` makes one.",
                NOT_FOUND,
            )
        return next(reversed(jobs.values()))
    found = _named(reading, text)
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(job.job_id for job in found[:SHOWN])
        more = ", …" if len(found) > SHOWN else ""
        raise Trouble(
            f"{text} is the beginning of {len(found)} jobs: {names}{more}. Write more of it.", USAGE
        )
    raise Trouble(
        f"there is no job {text} in {reading.path}. {_listing(reading)}",
        NOT_FOUND,
    )


def _listing(reading: Reading) -> str:
    return f"`holdfast job list --data {typed(reading.path)}` lists what there is."


def recall(reading: Reading, text: str) -> Reading:
    """Where to look for the job that `text` names: here, or at the last moment it was in memory.

    A job that ended long ago is forgotten by a record. The log still has everything before it.
    """
    name = text.rpartition("/")[0] or text
    if name == LAST or _named(reading, name):
        return reading
    for told in reading.folder.records(0, reading.state.position):
        for event in told.record.events:
            if isinstance(event, JobsForgotten) and name in event.job_ids:
                before = _before(reading, name, told.position)
                note(f"job {name} left memory at position {told.position}; this is how it ended")
                return before
    return reading


def _before(reading: Reading, name: str, position: int) -> Reading:
    try:
        return open_folder(reading.path, Moment(position=position - 1))
    except Unreachable:
        raise Trouble(
            f"job {name} left memory at position {position}, and what came before that is no "
            f"longer kept. {_listing(reading)}",
            NOT_FOUND,
        ) from None


def find_tasks(reading: Reading, text: str) -> tuple[Job, range]:
    """The tasks meant by `JOB`, `JOB/3` or `JOB/3-7`."""
    name, slash, span = text.rpartition("/")
    if not slash:
        job = find_job(reading, text)
        return job, range(job.count)
    match = _SPAN.fullmatch(span)
    if match is None:
        raise Trouble(f"{text} names no task: write JOB/3 or JOB/3-7.", USAGE)
    job = find_job(reading, name)
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        raise Trouble(f"{span} ends before it begins: write {last}-{first}.", USAGE)
    if last >= job.count:
        if not job.count:
            raise _without_tasks(reading, job)
        raise Trouble(
            f"job {job.job_id} has no task {last}: its tasks are 0 to {job.count - 1}. "
            f"`holdfast task list {job.job_id} --data {typed(reading.path)}` lists them.",
            NOT_FOUND,
        )
    return job, range(first, last + 1)


def _without_tasks(reading: Reading, job: Job) -> Trouble:
    return Trouble(
        f"job {job.job_id} has no tasks. "
        f"`holdfast job show {job.job_id} --data {typed(reading.path)}` says how it stands.",
        NOT_FOUND,
    )


def find_one_task(reading: Reading, text: str) -> tuple[Job, Index]:
    """The one task meant by `JOB/3`, or by a job that has only one."""
    job, indices = find_tasks(reading, text)
    if not indices:
        raise _without_tasks(reading, job)
    if len(indices) != 1:
        raise Trouble(
            f"{text} means {len(indices):,} tasks: name one, such as {job.job_id}/0.", USAGE
        )
    return job, Index(indices[0])


def _named(reading: Reading, text: str) -> list[Job]:
    """The job of this name, else those whose names begin with it.

    A number is a whole name: 1 must never come to mean 17 because job 1 was forgotten.
    """
    jobs = reading.state.jobs
    exact = jobs.get(JobId(text))
    if exact is not None:
        return [exact]
    if not text or text.isdigit():
        return []
    return [job for job_id, job in jobs.items() if job_id.startswith(text)]
