"""Why a task, or a job, is where it is: what is known of it, put before whoever explains.

The same for a server, which knows its workers, and for a folder, where notes tell of them or
nobody does.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import structs

from holdfast.coordinator.history import Past, fate_told, task_detail
from holdfast.coordinator.inspect import HistoryGone
from holdfast.coordinator.views import View, rfc3339
from holdfast.core import events as e
from holdfast.core.ids import NEVER, Index, JobId
from holdfast.core.job import Job
from holdfast.core.task import FINISHED, TaskState
from holdfast.scheduler.explain import (
    Group,
    JobSituation,
    Pause,
    Situation,
    explain,
    explain_job,
    standing_of,
)
from holdfast.scheduler.reasons import Reason
from holdfast.scheduler.stalls import Stall, stall_reasons

MOST_READ: Final = 5_000
"""How far back it is looked up who paused a queue."""

EVERY_WORKER: Final = 3
"""The level of detail at which each worker is told by itself."""


def task_explained(
    past: Past,
    here: Situation,
    job: Job,
    index: Index,
    oldest: int,
    last: int,
    level: int = 1,
    stalls: Iterable[Stall] = (),
) -> View:
    """A task with all reasons for where it is. What only the log knows is read from `past`, which
    may wait for a disk. `stalls` are what hangs anywhere."""
    whole = _completed(past, here, job, index, oldest, last)
    own = [each for each in stalls if each.task == whole.task]
    return {
        "id": whole.task,
        "state": whole.state.name,
        "reasons": [
            reason_view(reason) for reason in (*stall_reasons(own, here.now), *explain(whole))
        ],
        **_around(whole, level),
    }


def job_explained(
    past: Past,
    job_id: JobId,
    state: str,
    here: JobSituation,
    oldest: int,
    last: int,
    level: int = 1,
    stalls: Iterable[Stall] = (),
) -> View:
    """A job with each reason once, and how many of its tasks it is about. `stalls` are what hangs
    anywhere."""
    whole = structs.replace(
        here,
        groups=_attributed(past, here.groups, oldest, last),
        how=fate_told(past, here.example, here.ended_at) or here.how,
    )
    own = [each for each in stalls if each.job_id == job_id]
    now = next((group.situation.now for group in whole.groups), NEVER)
    told = [
        {**reason_view(reason), "tasks": reason.tasks or None, "example": reason.example or None}
        for reason in (*stall_reasons(own, now), *explain_job(whole))
    ]
    waiting = (group.situation for group in whole.groups if _is_waiting(group.situation))
    example = next(waiting, None)
    around = {} if example is None else _around(example, level)
    return {"id": job_id, "state": state, "reasons": told, **around}


def _is_waiting(here: Situation) -> bool:
    return here.state is TaskState.WAITING and not here.is_next


def _around(here: Situation, level: int) -> View:
    """Its place in the queue; and each worker with what stands against the task there, where that
    is wanted."""
    if here.state is not TaskState.WAITING:
        return {}
    view: View = {"ahead": here.ahead}
    if level >= EVERY_WORKER:
        view["standing"] = [
            {"worker": name, "against": list(against)} for name, against in standing_of(here)
        ]
    return view


def reason_view(reason: Reason) -> View:
    return {
        "code": reason.code,
        "sentence": reason.sentence,
        "command": reason.command or None,
        "cure": reason.cure,
        "until": None if reason.until == NEVER else rfc3339(reason.until),
        "counts": dict(reason.counts),
        "workers": list(reason.workers),
        "jobs": list(reason.jobs),
        "resource": reason.resource or None,
    }


def _completed(
    past: Past, here: Situation, job: Job, index: Index, oldest: int, last: int
) -> Situation:
    """The same with what only the log knows: who paused, since when it is held, how it ended."""
    if here.pause is not None:
        return structs.replace(here, pause=_paused(past, here, oldest, last))
    if here.state in FINISHED:
        return structs.replace(here, how=_how(task_detail(past, job, index)))
    task = (job.tasks or {}).get(index)
    if here.state is TaskState.LEASED and task is not None:
        try:
            return structs.replace(here, since=past.told(task.granted).record.at)
        except HistoryGone:
            return here
    return here


def _attributed(
    past: Past, groups: tuple[Group, ...], oldest: int, last: int
) -> tuple[Group, ...]:
    """The same with who paused the queue of a job: all its tasks are in the same one."""
    paused = next((group.situation for group in groups if group.situation.pause), None)
    if paused is None:
        return groups
    pause = _paused(past, paused, oldest, last)
    return tuple(
        Group(group.count, structs.replace(group.situation, pause=pause))
        if group.situation.pause is not None
        else group
        for group in groups
    )


def _paused(past: Past, here: Situation, oldest: int, last: int) -> Pause | None:
    """The pause with who wanted it, where the log has that not too long ago."""
    pause = here.pause
    try:
        for told in past.records(max(oldest, last - MOST_READ + 1), last):
            for event in told.record.events:
                if isinstance(event, e.QueuePaused) and event.queue == here.spec.queue:
                    pause = Pause(event.reason, told.record.actor)
    except (HistoryGone, FileNotFoundError):
        # Old history is dropped while it is read; what was found is true.
        pass
    return pause


def _how(detail: View) -> str:
    """`failed: ValueError: no` of a task as it is shown."""
    error = str(detail["error"] or "").strip().splitlines()
    return ": ".join(filter(None, (detail["reason"], error[0] if error else "")))
