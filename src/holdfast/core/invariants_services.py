"""What must hold of services."""

from collections.abc import Iterator

from holdfast.core.ids import task_name
from holdfast.core.job import Job, state_of
from holdfast.core.service import FALLS
from holdfast.core.state import State
from holdfast.core.task import TaskState
from holdfast.core.violation import Finding


def services(state: State) -> Iterator[Finding]:
    """B6: a service and nothing else has a book of its replicas; those in it are there or wait for
    an operator, ended by themselves, and owe their budget no more than all of it and the one
    restart that was too much. Of a fall the place and the time are known."""
    for job in state.jobs.values():
        if (job.service is not None) != bool(job.spec.service.restarts):
            yield job.job_id, "it is a service without a book, or has a book and is none"
        elif job.service is not None:
            yield from _replicas(state, job)
    for name, workers in state.falls.items():
        for worker, ends in workers.items():
            is_told = 1 <= len(ends) <= FALLS and list(ends) == sorted(ends)
            if not is_told or ends[-1] > state.time:
                yield name, f"it fell on {worker} at {ends}"
        if not workers:
            yield name, "it fell nowhere"


def _replicas(state: State, job: Job) -> Iterator[Finding]:
    replicas = {} if job.service is None else job.service.replicas
    policy = job.spec.service
    for index, replica in replicas.items():
        name = task_name(job.job_id, index)
        current = state_of(job, index) if 0 <= index < job.count else None
        if current in (None, TaskState.KILLED, TaskState.SUCCEEDED):
            yield name, "it is in the book of its service and is gone"
        if not 1 <= replica.restarts <= replica.total:
            yield name, f"{replica.restarts} restarts in a row, of {replica.total}"
        most = policy.restarts + (1 if current is TaskState.QUARANTINED else 0)
        if replica.whole_at - state.time > most * policy.refill_ms:
            yield name, f"it owes its budget of {policy.restarts} more than that"
