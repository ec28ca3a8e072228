"""What must hold of circuits and retry budgets."""

from collections.abc import Iterator

from holdfast.core.circuit import CircuitState, circuit_id
from holdfast.core.ids import NEVER
from holdfast.core.state import State
from holdfast.core.violation import Finding


def circuits(state: State) -> Iterator[Finding]:
    """F1: a circuit has a record as long as something is held against it, knows when it half-opens
    only while it is open, and a trial only while it is half-open."""
    for key, circuit in state.circuits.items():
        called = circuit_id(*key)
        if circuit.key != key or circuit.since > state.time or circuit.failures < 0:
            yield called, f"its record is of {circuit.key}, {circuit.since}, {circuit.failures}"
        if circuit.until != NEVER and circuit.state is not CircuitState.OPEN:
            yield called, f"it is {circuit.state} and half-opens at {circuit.until}"
        if circuit.probe is not None and circuit.state is not CircuitState.HALF_OPEN:
            yield called, f"it is {circuit.state} and is tried"
        if circuit.state is CircuitState.CLOSED and not circuit.failures:
            yield called, "nothing is held against it"


def retry_budgets(state: State) -> Iterator[Finding]:
    """B5: no more retries of a job are on their way, or were within its span, than its budget."""
    for job_id, away in state.retries_away.items():
        job = state.jobs.get(job_id)
        if job is None or not job.spec.retry_budget.retries:
            yield job_id, "its retries are counted and nothing bounds them"
        elif len(away) > job.spec.retry_budget.retries or away != sorted(away) or not away:
            yield job_id, f"{len(away)} retries are on their way"
        elif job.sealed and not job.unfinished:
            yield job_id, "it has ended and its retries are counted"
