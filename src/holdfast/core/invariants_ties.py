"""What must hold of jobs that are tied to others, and of gangs."""

from collections.abc import Iterator

from holdfast.core.ids import JobId
from holdfast.core.job import Job, counts
from holdfast.core.placing import ALL_TASKS, FAIL, FINISH, SUCCESS, After
from holdfast.core.state import State
from holdfast.core.task import TaskState
from holdfast.core.violation import Finding

_ENDED = ("SUCCEEDED", "QUARANTINED", "KILLED", "UNSCHEDULABLE")


def ties(state: State) -> Iterator[Finding]:
    """J8: a blocked job holds nothing and finds whatever it waits for; the books of ties say what a
    rebuild would; and whoever is unblocked or ended by its ties is about to be judged."""
    dependents: set[tuple[str, str]] = set()
    awaited: set[tuple[str, int, str]] = set()
    children: set[tuple[str, str]] = set()
    for job in state.jobs.values():
        if job.blocked:
            if not job.after or job.active:
                yield job.job_id, f"it is blocked by {len(job.after)} and holds {job.active}"
            dependents.update((after.job_id, job.job_id) for after in job.after)
            awaited.update(
                (after.job_id, after.index, job.job_id)
                for after in job.after
                if after.index != ALL_TASKS
            )
        if job.parent and not job.detached and not _has_ended(job):
            children.add((job.parent, job.job_id))
        if job.job_id not in state.unsettled and _is_overdue(state, job):
            yield job.job_id, "its ties have come to an end and nobody will judge it"
    yield from _books_agree(state, dependents, awaited, children)


def _books_agree(
    state: State,
    dependents: set[tuple[str, str]],
    awaited: set[tuple[str, int, str]],
    children: set[tuple[str, str]],
) -> Iterator[Finding]:
    kept = {(first, name) for first, names in state.dependents.items() for name in names}
    for first, name in sorted(kept ^ dependents):
        yield name, f"that it comes after {first} is in one book only"
    tasks = {
        (first, index, name)
        for first, indices in state.awaited.items()
        for index, names in indices.items()
        for name in names
    }
    for first, index, name in sorted(tasks ^ awaited):
        yield name, f"that it comes after {first}/{index} is in one book only"
    bound = {(parent, name) for parent, names in state.children.items() for name in names}
    for parent, name in sorted(bound ^ children):
        yield name, f"that it ends with {parent} is in one book only"
    for first in sorted({first for first, _ in dependents} - state.jobs.keys()):
        yield first, "it was forgotten while another waits for it"


def _has_ended(job: Job) -> bool:
    return job.sealed and job.unfinished == 0


def _is_overdue(state: State, job: Job) -> bool:
    """Whether a judge would do something about the job; told a second time, from the tasks."""
    if _has_ended(job) or job.unfinished == job.states.count(TaskState.COMMITTED) != 0:
        return False
    if job.parent and not job.detached:
        parent = state.jobs.get(job.parent)
        if parent is None or _has_ended(parent):
            return True
    if not job.blocked:
        return False
    told = [_outcome(state, after) for after in job.after]
    return all(one is True for one in told) or (job.fate == FAIL and False in told)


def _outcome(state: State, after: After) -> bool | None:
    """Whether it came true; None while that is open."""
    job = state.jobs.get(JobId(after.job_id))
    if job is None:
        return False
    if after.index == ALL_TASKS:
        if not _has_ended(job):
            return None
        good = counts(job)[TaskState.SUCCEEDED] == job.count
        good = good and not job.cause and not job.interrupted
    elif after.index >= job.count:
        return False if job.sealed else None
    else:
        name = TaskState(job.states[after.index] & 7).name
        if name not in _ENDED:
            return None
        good = name == "SUCCEEDED"
    return after.condition == FINISH or good == (after.condition == SUCCESS)


def gangs(state: State) -> Iterator[Finding]:
    """G1: a gang is held whole or not at all, and has committed whole or not at all."""
    for job in state.jobs.values():
        if not job.spec.placing.gang:
            continue
        tally = counts(job)
        crossed = tally[TaskState.COMMITTED] + tally[TaskState.SUCCEEDED]
        for what, number in (("are held", job.active), ("have committed", crossed)):
            if number not in (0, job.count):
                yield job.job_id, f"{number} of the {job.count} tasks of this gang {what}"
        if not job.sealed:
            yield job.job_id, "it is a gang and still open"
