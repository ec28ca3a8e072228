"""Jobs and tasks as people and programs look at them: plain values under names that stay.

The command line prints these and a server may send them. Absent things are None. Times are
RFC 3339 in UTC with milliseconds; `Wall` turns an instant of log time into the wall clock's.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

from holdfast.core.ids import NEVER, Index, task_name
from holdfast.core.job import Job, counts, job_reason, job_state, state_of
from holdfast.core.placing import ALL_TASKS, After, Placing
from holdfast.core.service import Replica, service_name
from holdfast.core.spec import NO_LIMIT, JobSpec
from holdfast.core.task import Task, TaskState
from holdfast.wire.rates import rate_text

Wall = Callable[[int], int]
View = dict[str, Any]

PICKLED = "pickle:"
CALENDAR_END_MS: Final = 253_402_300_799_999
MOST_TASKS: Final = 10_000
"""So many tasks of one job are looked at for what they owe."""


def rfc3339(wall_ms: int) -> str:
    """`2026-03-01T12:00:00.250Z`.

    A delay may reach beyond the year 9999, where no calendar goes; its last moment stands for all
    that come after.
    """
    seconds, ms = divmod(min(wall_ms, CALENDAR_END_MS), 1_000)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ms:03d}Z"


def job_view(job: Job, wall: Wall) -> View:
    """A job at a glance: what it is, how far it is, why it is as it is."""
    tally = counts(job)
    return {
        "id": job.job_id,
        "name": job.spec.name,
        "state": job_state(job).value,
        "reason": job_reason(job) or None,
        "created_at": rfc3339(wall(job.created_at)),
        "updated_at": rfc3339(wall(job.updated_at)),
        "tasks": job.count,
        "counts": {state.name: tally[state] for state in TaskState},
        "key": job.key or None,
        "generation": job.generation,
        "sealed": job.sealed,
        "interrupted": job.interrupted,
        "blocked": job.blocked,
        "parent": job.parent or None,
        "user": job.spec.user or None,
    }


def job_detail(job: Job, wall: Wall) -> View:
    """The same, with everything its tasks run by."""
    return {
        **job_view(job, wall),
        "digest": job.digest.hex() or None,
        "position": job.position,
        "not_before": time_of(job.not_before, wall) or calendar_time(job.not_before_wall),
        "times_out_at": time_of(job.times_out_at, wall),
        "deadline": calendar_time(job.deadline_wall),
        "schedule_by": time_of(job.schedule_by, wall),
        "after": [after_view(after) for after in job.after],
        "on_failed_parent": job.fate if job.after else None,
        "detached": job.detached,
        "owed": owed_view(job),
        # Only whoever has the workers' exchanges knows it; see `job_progress`.
        "progress": None,
        "spec": spec_view(job.spec),
    }


def owed_view(job: Job) -> View | None:
    """How much a job owes; None where it owes nothing. `complete` is false for one with so many
    tasks under way that not all of them were looked at."""
    tasks = job.tasks or {}
    owed = [debt for task in islice(tasks.values(), MOST_TASKS) for debt in task.owed]
    if not owed:
        return None
    parked = sum(debt.parked for debt in owed)
    return {"entries": len(owed), "parked": parked, "complete": len(tasks) <= MOST_TASKS}


def after_view(after: After) -> View:
    """What a job comes after. Without a task: all of that job."""
    task = None if after.index == ALL_TASKS else after.index
    return {"job": after.job_id, "task": task, "condition": after.condition}


def spec_view(spec: JobSpec) -> View:
    return {
        "kind": spec.kind,
        "target": target_view(spec.target),
        "retries": spec.retries,
        "max_losses": spec.max_losses,
        "retry": {
            "backoff": spec.retry.kind,
            "delay_ms": spec.retry.delay_ms,
            "factor": spec.retry.factor,
            "max_delay_ms": spec.retry.max_delay_ms,
            "jitter": spec.retry.jitter,
        },
        "timeout_ms": spec.timeout_ms or None,
        "job_timeout_ms": spec.job_timeout_ms or None,
        "schedule_timeout_ms": spec.schedule_timeout_ms or None,
        "stall_timeout_ms": spec.stall_ms or None,
        "cpus": spec.cpus_milli / 1_000,
        "memory_bytes": spec.memory_bytes or None,
        "gpus": spec.gpus,
        "max_parallel": spec.max_parallel or None,
        "max_failed_tasks": None if spec.max_failed_tasks == NO_LIMIT else spec.max_failed_tasks,
        "retry_budget": guard_view(spec.retry_budget.retries, spec.retry_budget.per_ms),
        "circuit": guard_view(spec.circuit.failures, spec.circuit.cooldown_ms),
        "priority": spec.priority,
        "namespace": spec.namespace,
        "queue": spec.queue,
        "bundle": spec.bundle or None,
        "on_disconnect": spec.on_disconnect or None,
        "labels": dict(spec.labels),
        "placing": placing_view(spec.placing),
        "service": service_view(spec),
    }


def service_view(spec: JobSpec) -> View | None:
    """How the replicas of a service are begun again, and what it is called; None for none."""
    policy = spec.service
    if not policy.restarts:
        return None
    return {
        "endpoint": service_name(spec),
        "restarts": policy.restarts,
        "refill_ms": policy.refill_ms,
        "delay_ms": policy.delay_ms,
        "max_delay_ms": policy.max_delay_ms,
        "steady_ms": policy.steady_ms,
    }


def guard_view(count: int, span_ms: int) -> str | None:
    return rate_text(count, span_ms) if count else None


def placing_view(placing: Placing) -> View:
    """Where tasks may run and beside which, under the names it is asked for with."""
    return {
        "resources": {name: amount / 1_000 for name, amount in placing.resources},
        "constraints": [
            {
                "attribute": wish.attribute,
                "operator": wish.operator,
                "values": list(wish.values),
                "weight": wish.weight,
            }
            for wish in placing.constraints
        ],
        "keys": dict(placing.keys),
        "spread": placing.spread or None,
        "gang": placing.gang,
        "gang_by": placing.gang_by or None,
        "preempt": placing.preempts,
    }


def target_view(target: str) -> str:
    """What runs, by name. The body of a pickled function is no name and is left out."""
    if target.startswith(PICKLED):
        return PICKLED + target.removeprefix(PICKLED).partition(":")[0]
    return target


def task_view(job: Job, index: Index, wall: Wall) -> View:
    """A task at a glance, from memory alone: the log is not asked."""
    task = (job.tasks or {}).get(index)
    state = state_of(job, index)
    return {
        "id": task_name(job.job_id, index),
        "job_id": job.job_id,
        "index": int(index),
        "state": state.name,
        "attempt": attempts_made(job, index),
        "worker": (task.worker or None) if task is not None else None,
        "lease_id": (int(task.lease_id) or None) if task is not None else None,
        "lease_expires_at": time_of(task.expires_at, wall) if task is not None else None,
        "started_at": time_of(task.started_at, wall) if task is not None else None,
        "not_before": _waits_until(job, task, wall) if state is TaskState.WAITING else None,
        "blocked": job.blocked and state is TaskState.WAITING,
        # Only whoever has the worker's exchanges knows it; see `progress_view`.
        "progress": None,
        "service": replica_view(job, index, wall),
    }


def replica_view(job: Job, index: Index, wall: Wall) -> View | None:
    """What is recorded of a replica of a service; None for every other task. How it stands only
    whoever has its worker's exchanges knows; see `Servicing.view`."""
    if job.service is None:
        return None
    replica = job.service.replicas.get(index, Replica())
    return {
        "state": None,
        "why": None,
        "address": None,
        "since": None,
        "restarts": replica.total,
        "restarts_in_a_row": replica.restarts,
        "budget": job.spec.service.restarts,
        "budget_whole_at": time_of(replica.whole_at, wall),
    }


def attempts_made(job: Job, index: Index) -> int:
    """How many attempts the task has had, the one under way included."""
    task = (job.tasks or {}).get(index)
    if task is not None:
        return task.attempt
    if job.attempts is None or index >= len(job.attempts):
        return 0
    return job.attempts[index]


def _waits_until(job: Job, task: Task | None, wall: Wall) -> str | None:
    own = None
    if task is not None:
        own = time_of(task.not_before, wall) or calendar_time(task.not_before_wall)
    return own or time_of(job.not_before, wall) or calendar_time(job.not_before_wall)


def time_of(instant: int, wall: Wall) -> str | None:
    """When an instant of log time is or was; nothing for never."""
    return None if instant == NEVER else rfc3339(wall(instant))


def calendar_time(wall_ms: int) -> str | None:
    """The same of an instant of the wall clock."""
    return None if wall_ms == NEVER else rfc3339(wall_ms)
