"""The rows of the SQL projection that come from the state: what is the case at one moment."""

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any

import msgspec

from holdfast.coordinator.circuits import circuit_views
from holdfast.coordinator.crewviews import queue_views, token_view, worker_views
from holdfast.coordinator.inspect import Reading
from holdfast.coordinator.limits import limit_views
from holdfast.coordinator.schedules import schedule_view
from holdfast.coordinator.views import (
    attempts_made,
    calendar_time,
    rfc3339,
    target_view,
    time_of,
)
from holdfast.core.ids import Index, Instant, effect_name, task_name
from holdfast.core.job import Job, counts, job_reason, job_state
from holdfast.core.task import STATE_OF_CELL, Task, TaskState
from holdfast.version import VERSION

Row = tuple[Any, ...]

STATE_NAMES = tuple(state.name for state in TaskState)
SCHEMA_VERSION = 1


def meta_rows(reading: Reading) -> Iterator[Row]:
    state = reading.state
    yield "schema_version", str(SCHEMA_VERSION)
    yield "log_id", state.log_id
    yield "epoch", str(state.epoch)
    yield "position", str(int(state.position))
    yield "at", rfc3339(reading.wall(state.time))
    yield "oldest_position", str(int(reading.folder.oldest))
    yield "version", VERSION


def job_rows(reading: Reading) -> Iterator[Row]:
    for job in reading.state.jobs.values():
        spec, tally = job.spec, counts(job)
        yield (
            job.job_id,
            spec.name,
            job_state(job).value,
            job_reason(job) or None,
            job.count,
            *(tally[state] for state in TaskState),
            rfc3339(reading.wall(job.created_at)),
            rfc3339(reading.wall(job.updated_at)),
            job.key or None,
            job.generation,
            int(job.sealed),
            int(job.blocked),
            job.parent or None,
            spec.namespace,
            spec.queue,
            spec.user or None,
            spec.priority,
            spec.kind,
            target_view(spec.target),
            spec.cpus_milli / 1_000,
            spec.memory_bytes or None,
            spec.gpus,
            spec.retries,
            spec.max_losses,
            spec.timeout_ms or None,
            _json(dict(spec.labels)),
            int(job.position),
        )


def task_rows(reading: Reading) -> Iterator[Row]:
    for job in reading.state.jobs.values():
        yield from _tasks_of(job, reading) if job.tasks or job.attempts else _fresh(job)


def _fresh(job: Job) -> Iterable[Row]:
    """Tasks of which nothing is known but their state: of a million nearly all are such."""
    job_id = job.job_id
    names = (STATE_NAMES[state] for state in job.states.translate(STATE_OF_CELL.ljust(256, b"\0")))
    nothing = repeat(None)
    indices = range(job.count)
    return zip(
        (task_name(job_id, Index(index)) for index in indices), repeat(job_id), indices, names,
        repeat(0), nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing,
        strict=False,
    )  # fmt: skip


def _tasks_of(job: Job, reading: Reading) -> Iterator[Row]:
    records, ends = job.tasks or {}, job.ends
    for place, cell in enumerate(job.states):
        index = Index(place)
        task = records.get(index)
        ended = ends[place] if ends is not None and place < len(ends) else 0
        yield (
            task_name(job.job_id, index),
            job.job_id,
            place,
            STATE_NAMES[STATE_OF_CELL[cell]],
            attempts_made(job, index),
            *(_under_way(task, reading) if task is not None else (None,) * 7),
            ended or None,
        )


def _under_way(task: Task, reading: Reading) -> Row:
    return (
        task.worker or None,
        int(task.lease_id) or None,
        time_of(task.expires_at, reading.wall),
        time_of(task.started_at, reading.wall),
        time_of(task.not_before, reading.wall) or calendar_time(task.not_before_wall),
        task.failures,
        task.losses,
    )


def lease_rows(reading: Reading) -> Iterator[Row]:
    for holder in reading.state.holders.values():
        for task in holder.leases.values():
            yield (
                int(task.lease_id),
                task_name(task.job_id, task.index),
                task.job_id,
                int(task.index),
                task.attempt,
                task.worker,
                task.incarnation,
                task.slot,
                task.state.name,
                time_of(task.expires_at, reading.wall),
                time_of(task.started_at, reading.wall),
                int(task.granted),
            )


def effect_rows(reading: Reading) -> Iterator[Row]:
    for owing in sorted(reading.state.debts, key=lambda owing: owing.order):
        name, debt = owing.name, owing.debt
        yield (
            effect_name(name.job_id, name.index, name.number),
            task_name(name.job_id, name.index),
            name.job_id,
            int(name.index),
            name.number,
            debt.kind,
            debt.place,
            debt.key or None,
            int(debt.parked),
            debt.tries,
            time_of(debt.not_before, reading.wall),
            debt.error or None,
            int(owing.position),
        )


def worker_rows(reading: Reading) -> Iterator[Row]:
    """The workers that were noted, and those that only their leases tell of."""
    names = ("name", "incarnation", "state", "slots", "cpus", "memory_bytes", "gpus")
    for view in worker_views(reading):
        attributes = _json(view.get("attributes", {}))
        told = (view.get(name) for name in names)
        yield (*told, attributes, view["leases"], int(view["cordoned"]), view["reason"])


def schedule_rows(reading: Reading) -> Iterator[Row]:
    state, now = reading.state, Instant(reading.wall(reading.state.time))
    names = ("name", "state", "reason", "cron", "every_ms", "zone", "missed", "overlap",
             "namespace", "next_at", "last_at", "last_job", "runs", "skipped", "created_at",
             "updated_at")  # fmt: skip
    for schedule in state.schedules.values():
        view = schedule_view(state, schedule, reading.wall, now)
        yield tuple(view[name] for name in names)


def limit_rows(reading: Reading) -> Iterator[Row]:
    names = ("id", "scope", "name", "running", "starts", "per_ms", "weight", "cpus",
             "memory_bytes", "gpus", "in_use")  # fmt: skip
    for view in limit_views(reading.state):
        yield (*(view[name] for name in names), _json(view["resources"]))


def resource_rows(reading: Reading) -> Iterator[Row]:
    for known in reading.state.resources.values():
        sizes = (len(known.spec), len(known.status), _json(list(known.finalizers)))
        times = (time_of(known.created_at, reading.wall), time_of(known.deleted_at, reading.wall))
        yield known.kind, known.name, known.generation, int(known.version), *sizes, *times


def circuit_rows(reading: Reading) -> Iterator[Row]:
    names = ("id", "kind", "name", "state", "failures", "cooldown_ms", "since", "until", "cause")
    for view in circuit_views(reading.state, reading.wall):
        yield tuple(view[name] for name in names)


def queue_rows(reading: Reading) -> Iterator[Row]:
    for view in queue_views(reading):
        yield view["name"], int(view["paused"]), view["reason"], view["waiting_jobs"]


def token_rows(reading: Reading) -> Iterator[Row]:
    """Who may ask; the secret is not known here, and its digest is nobody's business."""
    for token in reading.state.tokens.values():
        view = token_view(token, reading.wall)
        yield tuple(_json(value) if name == "scopes" else value for name, value in view.items())


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
