"""Workers, queues and tokens as a folder alone tells them: by the log and the notes beside it."""

from collections import Counter
from typing import Final

from holdfast.coordinator.fleetnotes import fleet_at
from holdfast.coordinator.history import Past
from holdfast.coordinator.inspect import Reading
from holdfast.coordinator.seats import Worker
from holdfast.coordinator.views import View, Wall, calendar_time, rfc3339, time_of
from holdfast.core.ids import Instant, WorkerId, attempt_name
from holdfast.core.ready import has_leasable
from holdfast.core.spec import DEFAULT_QUEUE
from holdfast.core.state import State, Token
from holdfast.core.task import Task
from holdfast.scheduler.desks import DRAINING, OPEN, SILENT

UNKNOWN: Final = "UNKNOWN"
"""It holds something, or is cordoned, and no note says whether it was there."""
_STATES: Final = {DRAINING: "DRAINING", SILENT: "SILENT"}


def worker_views(reading: Reading) -> list[View]:
    """The workers of that moment, and those that held something then."""
    state = reading.state
    noted = fleet_at(reading.path, int(state.position), Instant(state.time)) or []
    known = {worker.worker: (worker, standing) for worker, standing in noted}
    holding = [name for (name, _), holder in state.holders.items() if holder.leases]
    names = sorted({*known, *holding, *state.cordoned})
    return [_worker(state, name, *known.get(name, (None, ""))) for name in names]


def held_by(state: State, name: str) -> list[Task]:
    """What a worker holds, in all its lives."""
    holders = (holder for key, holder in state.holders.items() if key[0] == name)
    return [task for holder in holders for task in holder.leases.values()]


def lease_view(task: Task, wall: Wall) -> View:
    return {
        "lease_id": int(task.lease_id),
        "attempt": attempt_name(task.job_id, task.index, task.attempt),
        "job_id": task.job_id,
        "index": int(task.index),
        "state": task.state.name,
        "worker": task.worker,
        "incarnation": task.incarnation,
        "expires_at": time_of(task.expires_at, wall),
        "started_at": time_of(task.started_at, wall),
    }


def queue_views(past: Past) -> list[View]:
    """The queues that are paused or have something waiting, and the default one."""
    state = past.state
    waiting: Counter[str] = Counter()
    for (_, shape), line in state.ready.queues.items():
        known = (state.jobs.get(job_id) for job_id in line)
        standing = (job is not None and has_leasable(job, state.time) for job in known)
        waiting[shape.queue] += sum(standing)
    return queues_told(waiting, state.paused)


def queues_told(waiting: Counter[str], paused: dict[str, str]) -> list[View]:
    """A line may stand for jobs that have been stopped, and then nothing waits in it."""
    names = {name for name, count in waiting.items() if count} | {DEFAULT_QUEUE, *paused}
    return [
        {
            "name": name,
            "paused": name in paused,
            "reason": paused.get(name) or None,
            "waiting_jobs": waiting[name],
        }
        for name in sorted(names)
    ]


def token_view(token: Token, wall: Wall) -> View:
    """Who may ask; the secret is known to its owner alone."""
    return {
        "id": token.token_id,
        "name": token.name,
        "scopes": list(token.scopes),
        "worker": token.worker or None,
        "issued_at": rfc3339(wall(token.issued_at)),
        "expires_at": calendar_time(token.expires_wall),
    }


def _worker(state: State, name: str, worker: Worker | None, standing: str) -> View:
    held = held_by(state, name)
    cordoned = WorkerId(name) in state.cordoned
    view: View = {
        "name": name,
        "state": UNKNOWN,
        "cordoned": cordoned,
        "reason": state.cordoned.get(WorkerId(name)) or None,
        "incarnation": None,
        "leases": len(held),
    }
    if worker is None:
        return view
    busy = "CORDONED" if cordoned else "BUSY" if held else "IDLE"
    return {
        **view,
        "state": busy if standing == OPEN else _STATES.get(standing, UNKNOWN),
        "incarnation": worker.incarnation,
        "slots": worker.capacity.slots,
        "occupied": len({task.slot for task in held}),
        "cpus": worker.capacity.cpus_milli / 1_000,
        "memory_bytes": worker.capacity.memory_bytes,
        "gpus": worker.capacity.gpus,
        "resources": {each: amount / 1_000 for each, amount in worker.capacity.resources},
        "attributes": dict(worker.hello.attributes) if worker.hello is not None else {},
    }
