"""A watch that begins in the middle: what it believes is read off a state, such as a snapshot's.

From there on it judges every record as if it had seen all that came before. What only the past
could tell it does not know: which names were used and are forgotten.
"""

from typing import Final

from holdfast.core.circuit import CircuitState
from holdfast.core.ids import NEVER, Index
from holdfast.core.job import Job, state_of
from holdfast.core.owed import BLOCK
from holdfast.core.seen import COMMITTED, KILLED, SUCCEEDED, Seen, SeenDebt, SeenJob
from holdfast.core.state import State
from holdfast.core.task import FRESH, KILLED_BY_LIMIT, Task
from holdfast.core.watch import Watch
from holdfast.core.watch_circuits import CLOSED, HALF_OPEN, OPEN, SeenCircuit
from holdfast.core.watch_resources import SeenResource
from holdfast.core.watch_schedules import SeenSchedule

CIRCUITS: Final = {
    CircuitState.CLOSED: CLOSED,
    CircuitState.OPEN: OPEN,
    CircuitState.HALF_OPEN: HALF_OPEN,
}


def touched(state: State) -> int:
    """How many tasks a watch would have to remember one by one."""
    return sum(job.count - job.states.count(FRESH) for job in state.jobs.values())


def watch_from(state: State) -> Watch:
    """A watch that has seen everything up to this state."""
    watch = Watch()
    watch.position, watch.time, watch.epoch = state.position, state.time, state.epoch
    watch.next_lease, watch.suspended = state.next_lease, bool(state.suspended)
    for job in state.jobs.values():
        _remember(watch, state, job)
    for name, schedule in state.schedules.items():
        watch.schedules[name] = SeenSchedule(
            schedule.next_wall, schedule.last_wall, schedule.paused
        )
    for key, circuit in state.circuits.items():
        probe = 0 if circuit.probe is None else circuit.probe.lease_id
        watch.circuits[key] = SeenCircuit(
            CIRCUITS[circuit.state], circuit.failures, circuit.until, probe
        )
    for resource in state.resources.values():
        watch.resources[resource.key] = SeenResource(
            resource.generation,
            resource.spec,
            resource.status,
            resource.finalizers,
            resource.deleted_at != NEVER,
            (resource.labels, resource.annotations),
        )
    return watch


def _remember(watch: Watch, state: State, job: Job) -> None:
    known = watch.jobs[job.job_id] = SeenJob(
        job.count, job.sealed, {},
        generation=job.generation, is_blocked=job.blocked, is_gang=job.spec.placing.gang,
        retry_dues=list(state.retries_away.get(job.job_id, ())),
        service=(job.spec.service.restarts, job.spec.service.refill_ms),
    )  # fmt: skip
    known.agree_to(job.spec)
    records = job.tasks or {}
    replicas = job.service.replicas if job.service is not None else {}
    for index, cell in enumerate(job.states):
        if cell == FRESH:
            continue
        task = records.get(Index(index))
        seen = known.tasks[index] = _finished(job, index) if task is None else _under_way(task)
        seen.whole_at = replicas[Index(index)].whole_at if index in replicas else NEVER
        if seen.lease_id:
            watch.held[seen.lease_id] = seen
        if seen.state in (COMMITTED, SUCCEEDED):
            ends = job.ends or ()
            place = task.committed if task is not None else ends[index]
            watch.crossed[job.job_id, index] = place


def _finished(job: Job, index: int) -> Seen:
    state = state_of(job, Index(index)).name
    attempts = job.attempts or ()
    return Seen(
        state=state,
        attempt=attempts[index],
        by_person=state == KILLED and job.states[index] != KILLED_BY_LIMIT,
    )


def _under_way(task: Task) -> Seen:
    return Seen(
        state=task.state.name,
        attempt=task.attempt,
        lease_id=task.lease_id,
        holder=(task.worker, task.incarnation),
        expires_at=task.expires_at,
        started=task.started_at != NEVER,
        failures=task.failures,
        losses=task.losses,
        owed={
            debt.number: SeenDebt(debt.tries, debt.parked, debt.kind == BLOCK)
            for debt in task.owed
        },
    )
