"""Ties between jobs: who comes after whom, and who ends with whom.

A job that comes after others is blocked until all of that came true; a child ends with its parent.
What a tie amounts to is computed from the jobs it names. The indexes of ties are kept here, so that
the end of a job costs something only where another is tied to it.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import TypeVar

from holdfast.core.ids import Index, JobId
from holdfast.core.job import (
    Job,
    JobState,
    is_finished,
    job_state,
    may_come_back,
    retryable,
    state_of,
)
from holdfast.core.placing import ALL_TASKS, FINISH, SUCCESS, After
from holdfast.core.state import State
from holdfast.core.task import FINISHED, TaskState

Page = TypeVar("Page")


class Verdict(StrEnum):
    """How it stands with something a job comes after. What is dead may live again, since its
    parent may be sent back."""

    HOLDS = "holds"
    OPEN = "open"
    DEAD = "dead"


def verdict(state: State, after: After) -> Verdict:
    """Whether the job or the task has come to such an end, may still, or cannot any more."""
    job = state.job_of(after.job_id)
    if after.index == ALL_TASKS:
        if not is_finished(job):
            return Verdict.OPEN
        succeeded = job_state(job) is JobState.SUCCEEDED
    elif after.index < job.count:
        current = state_of(job, Index(after.index))
        if current not in FINISHED:
            return Verdict.OPEN
        succeeded = current is TaskState.SUCCEEDED
    else:
        return Verdict.DEAD if job.sealed else Verdict.OPEN
    is_so = after.condition == FINISH or succeeded == (after.condition == SUCCESS)
    return Verdict.HOLDS if is_so else Verdict.DEAD


def all_hold(state: State, after: Iterable[After]) -> bool:
    return all(verdict(state, one) is Verdict.HOLDS for one in after)


def is_bound(job: Job) -> bool:
    """Whether the job ends with its parent."""
    return bool(job.parent) and not job.detached


def outlives_parent(state: State, job: Job) -> bool:
    """Whether the job is still there although it should have ended with its parent."""
    if not is_bound(job):
        return False
    parent = state.jobs.get(job.parent)
    return parent is None or is_finished(parent)


def is_curable(state: State, after: After) -> bool:
    """Whether a manual retry may make something dead come true: it sends the job, or the task,
    back."""
    job = state.job_of(after.job_id)
    is_sent = after.index == ALL_TASKS or (
        after.index < job.count and retryable(job, Index(after.index))
    )
    return is_sent and may_come_back(job) and not outlives_parent(state, job)


def tie(state: State, job: Job) -> None:
    """Enter a job in the books of those it is tied to. It is judged once in any case: what it is
    tied to may have ended before."""
    unfinished = not is_finished(job)
    if job.blocked:
        for after in job.after:
            state.dependents.setdefault(after.job_id, {})[job.job_id] = None
            if after.index != ALL_TASKS:
                tasks = state.awaited.setdefault(after.job_id, {})
                tasks.setdefault(Index(after.index), {})[job.job_id] = None
        if unfinished:
            state.unsettled[job.job_id] = None
    if unfinished and is_bound(job):
        state.children.setdefault(job.parent, {})[job.job_id] = None
        if outlives_parent(state, job):
            state.unsettled[job.job_id] = None


def untie(state: State, job: Job) -> None:
    """Strike a job that is no longer blocked, or no longer there, from the books of those it
    came after."""
    for after in job.after:
        _strike(state.dependents, after.job_id, job.job_id)
        tasks = state.awaited.get(after.job_id)
        if tasks is not None and after.index != ALL_TASKS:
            _strike(tasks, Index(after.index), job.job_id)
            if not tasks:
                del state.awaited[after.job_id]


def note_end(state: State, job: Job) -> None:
    """A job has ended: whoever is tied to it is judged again, and it needs no judging itself."""
    job_id = job.job_id
    for other in state.dependents.get(job_id, ()):
        if not is_finished(state.job_of(other)):
            state.unsettled[other] = None
    state.unsettled.update(state.children.get(job_id, {}))
    state.unsettled.pop(job_id, None)
    if is_bound(job):
        _strike(state.children, job.parent, job_id)


def note_tasks(state: State, job: Job, ended: Iterable[Index] | None = None) -> None:
    """Tasks have ended, `ended` or any: whoever waits for one of them is judged again."""
    tasks = state.awaited.get(job.job_id)
    if tasks is None:
        return
    for index in tuple(tasks) if ended is None else ended:
        state.unsettled.update(tasks.get(index, {}))


def take_unsettled(state: State, most: int) -> tuple[JobId, ...]:
    """Those to judge next. They are struck off before they are judged, since the judging of one
    may be what has another judged again."""
    taken = tuple(state.unsettled)[:most]
    for job_id in taken:
        del state.unsettled[job_id]
    return taken


def _strike(book: dict[Page, dict[JobId, None]], page: Page, job_id: JobId) -> None:
    names = book.get(page)
    if names is not None:
        names.pop(job_id, None)
        if not names:
            del book[page]
