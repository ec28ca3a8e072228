"""What a command that was refused was about: whose task, from where to where it wanted to go."""

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from holdfast.core import commands as c
from holdfast.core import commands_decided as d
from holdfast.core.ids import Index, JobId, task_name
from holdfast.core.job import Job, retryable, state_of
from holdfast.core.state import State
from holdfast.core.task import TRANSITIONS, TaskState

TARGETS: Final[dict[type[c.Command], TaskState]] = {
    c.GrantLeases: TaskState.LEASED,
    c.GrantGang: TaskState.LEASED,
    c.StartAttempts: TaskState.RUNNING,
    c.CommitTasks: TaskState.SUCCEEDED,
    c.CommitGang: TaskState.SUCCEEDED,
    c.FailAttempt: TaskState.WAITING,
    c.ReleaseAttempts: TaskState.WAITING,
    c.RescheduleTask: TaskState.WAITING,
    c.RetryTasks: TaskState.WAITING,
    c.KillJob: TaskState.KILLED,
    c.KillTasks: TaskState.KILLED,
    c.StopReplicas: TaskState.KILLED,
    c.EndService: TaskState.KILLED,
    c.SetAside: TaskState.QUARANTINED,
    d.PurgeTasks: TaskState.KILLED,
}
"""Where a command would have its tasks go."""

REPORTS: Final = ("done", "started", "released", "failed")
SUBJECTS: Final = ("worker", "queue", "name", "token_id", "key")
LONGEST: Final = 200


class Attempted(Struct, frozen=True):
    """`source` and `target` are empty where no move of one task was asked for."""

    subject: str = ""
    source: str = ""
    target: str = ""


def attempted(state: State, command: c.Command) -> Attempted:
    """The task that a command failed at: the first that cannot go there, else the first that it
    names; where it names none, its job or whatever else it is about."""
    target = _target(command)
    first: tuple[JobId, Index] | None = None
    for job_id, index in _tasks(command):
        first = first or (job_id, index)
        job = state.jobs.get(job_id)
        if job is None or not 0 <= index < job.count:
            return Attempted(task_name(job_id, index)[:LONGEST], "", target.name if target else "")
        if target is not None and _is_barred(job, index, target):
            return task_attempted(state, job_id, index, target)
    if first is not None and target is not None:
        return task_attempted(state, *first, target)
    named = getattr(command, "job_id", "")
    for name in SUBJECTS:
        named = named or getattr(command, name, "")
    return Attempted(str(named)[:LONGEST])


def task_attempted(state: State, job_id: JobId, index: Index, target: TaskState) -> Attempted:
    """A move of one task that was asked for."""
    job = state.jobs.get(job_id)
    is_known = job is not None and 0 <= index < job.count
    source = state_of(job, index).name if job is not None and is_known else ""
    return Attempted(task_name(job_id, index)[:LONGEST], source, target.name)


def _target(command: c.Command) -> TaskState | None:
    """Where its tasks were to go; who forces a task names the state, or something else."""
    if isinstance(command, d.ForceTask):
        return TaskState.__members__.get(command.target)
    return TARGETS.get(type(command))


def _tasks(command: Any) -> Iterable[tuple[JobId, Index]]:
    """The tasks that a command names, one by one."""
    job_id: JobId = getattr(command, "job_id", JobId(""))
    if job_id:
        indices = getattr(command, "indices", ())
        yield from ((job_id, index) for index in indices)
        if not indices and hasattr(command, "index"):
            yield job_id, command.index
        return
    for name in REPORTS:
        reports = getattr(command, name, ())
        for report in reports if isinstance(reports, tuple) else (reports,):
            yield report.job_id, report.index


def _is_barred(job: Job, index: Index, target: TaskState) -> bool:
    """Whether the task is one that could not go there: of many, it is the one to name."""
    source = state_of(job, index)
    if target is TaskState.WAITING and source in (TaskState.KILLED, TaskState.QUARANTINED):
        return not retryable(job, index)
    return target not in TRANSITIONS[source].values()
