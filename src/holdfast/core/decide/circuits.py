"""When circuits open, half-open and close. What is decided is recorded with what caused it.

A circuit is moved by the record that moves it: the failure that opens it and the opening are one,
so that no crash can come between them.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.circuit import (
    FUNCTION,
    SINK,
    Circuit,
    CircuitKey,
    CircuitState,
    circuit_id,
    circuit_of,
    longer,
)
from holdfast.core.decision import Accepted, Decision, Reason, Refused
from holdfast.core.ids import NEVER, Index, Instant, JobId, LeaseId, task_name
from holdfast.core.job import Job
from holdfast.core.spec import CircuitPolicy
from holdfast.core.state import State

KINDS: Final = (FUNCTION, SINK)
CAUSE_MOST: Final = 500
"""So much of an error is kept as the cause of an opening."""
NAME_MOST: Final = 1_000
QUIET: Final = "nothing has come to try it with"

Events = tuple[e.AnyEvent, ...]


def attempt_failed(state: State, job: Job, end: e.End, now: Instant) -> Events:
    """A failure counts against the function; one on trial opens it again. What was under way when
    it opened tells nothing new."""
    name = circuit_of(job.spec)
    if not name:
        return ()
    key = (FUNCTION, name)
    cause = f"task {task_name(job.job_id, end.index)} {end.reason}: {end.error}"
    circuit = state.circuits.get(key)
    if circuit is not None and circuit.state is not CircuitState.CLOSED:
        tried = _is_trial(circuit, job, (end.index,))
        return (_opened_again(circuit, cause, now),) if tried else ()
    return _counted(key, circuit, job.spec.circuit, cause, now)


def tasks_committed(state: State, commits: Iterable[tuple[JobId, Iterable[Index]]]) -> Events:
    """A success ends the row of failures; one on trial closes the circuit."""
    found: dict[CircuitKey, e.AnyEvent] = {}
    for job_id, indices in commits:
        job = state.jobs.get(job_id)
        # Where every lease was lost nothing has committed.
        indices = tuple(indices)
        circuit = None if job is None else state.circuits.get((FUNCTION, circuit_of(job.spec)))
        if job is None or circuit is None or not indices or circuit.key in found:
            continue
        if circuit.state is CircuitState.CLOSED:
            found[circuit.key] = _count(circuit.key, 0)
        elif _is_trial(circuit, job, indices):
            tried = "" if circuit.probe is None else task_name(job_id, circuit.probe.index)
            found[circuit.key] = _closed(circuit.key, f"task {tried} committed")
    return tuple(found.values())


def delivery_failed(
    state: State, sink: str, policy: CircuitPolicy, cause: str, now: Instant
) -> Events:
    """A delivery that failed counts against the sink; the first one after it half-opened opens it
    again."""
    key = (SINK, sink)
    circuit = state.circuits.get(key)
    if not policy.failures or (circuit is not None and circuit.state is CircuitState.OPEN):
        return ()
    if circuit is not None and circuit.state is CircuitState.HALF_OPEN:
        return (_opened_again(circuit, cause, now),)
    return _counted(key, circuit, policy, cause, now)


def deliveries_confirmed(state: State, sinks: Iterable[tuple[str, str]]) -> Events:
    """Each sink with an entry that was delivered to it."""
    found: dict[CircuitKey, e.AnyEvent] = {}
    for sink, entry in sinks:
        circuit = state.circuits.get((SINK, sink))
        if circuit is None or circuit.state is CircuitState.OPEN or circuit.key in found:
            continue
        if circuit.state is CircuitState.CLOSED:
            found[circuit.key] = _count(circuit.key, 0)
        else:
            found[circuit.key] = _closed(circuit.key, f"effect {entry} was delivered")
    return tuple(found.values())


def trial(state: State, job: Job, tasks: int) -> Circuit | Refused | None:
    """The half-open circuit that a lease of so many tasks would try; a refusal where nothing may be
    leased; None where the circuit has nothing to do with it. A gang is tried as a whole."""
    circuit = state.circuits.get((FUNCTION, circuit_of(job.spec)))
    if circuit is None or circuit.state is CircuitState.CLOSED:
        return None
    called = circuit_id(*circuit.key)
    if circuit.state is CircuitState.OPEN:
        return Refused(Reason.INVALID_TRANSITION, f"circuit {called} is open: {circuit.cause}")
    if is_on_trial(state, circuit) or (tasks != 1 and not job.spec.placing.gang):
        told = f"circuit {called} is half-open: it is tried with one at a time"
        return Refused(Reason.INVALID_TRANSITION, told)
    return circuit


def probed(circuit: Circuit, job: Job, index: Index, lease_id: LeaseId) -> e.AnyEvent:
    kind, name = circuit.key
    return e.CircuitProbed(
        kind=kind, name=name, job_id=job.job_id, index=index, lease_id=lease_id
    )


def is_on_trial(state: State, circuit: Circuit) -> bool:
    """Whether somebody holds the attempt that tries it."""
    probe = circuit.probe
    job = None if probe is None else state.jobs.get(probe.job_id)
    if probe is None or job is None or job.tasks is None:
        return False
    task = job.tasks.get(probe.index)
    return task is not None and task.lease_id == probe.lease_id


def passed(state: State, now: Instant, keep_ms: int) -> Iterator[e.AnyEvent]:
    """What time does to circuits: those that cooled down are tried, and what nothing has happened
    to for long is forgotten."""
    for circuit in state.circuits.values():
        kind, name = circuit.key
        is_old = circuit.since + keep_ms <= now
        if circuit.state is CircuitState.OPEN:
            if NEVER != circuit.until <= now:
                cause = f"{circuit.cooldown_ms} ms have passed since it opened"
                yield e.CircuitHalfOpened(kind=kind, name=name, cause=cause)
        elif circuit.state is CircuitState.CLOSED:
            if is_old:
                yield _count(circuit.key, 0)
        elif is_old and not is_on_trial(state, circuit):
            yield _closed(circuit.key, QUIET)


def next_half_open(state: State) -> Instant:
    """When the first of those that are open has cooled down; NEVER for none."""
    return min((c.until for c in state.circuits.values() if c.until != NEVER), default=NEVER)


def open_circuit(state: State, command: c.OpenCircuit, now: Instant) -> Decision:
    """It stays open until a person closes it; the same again adds nothing."""
    refusal = _misnamed(command)
    if refusal is not None:
        return refusal
    circuit = state.circuits.get((command.kind, command.name))
    if circuit is not None and circuit.state is CircuitState.OPEN and circuit.until == NEVER:
        return Accepted((), False)
    opened = e.CircuitOpened(
        kind=command.kind,
        name=command.name,
        failures=0 if circuit is None else circuit.failures,
        cooldown_ms=0,
        until=NEVER,
        cause=_by_hand("opened", command.reason),
    )
    return Accepted((opened,), True)


def close_circuit(state: State, command: c.CloseCircuit, now: Instant) -> Decision:
    refusal = _misnamed(command)
    if refusal is not None:
        return refusal
    circuit = state.circuits.get((command.kind, command.name))
    if circuit is None:
        return Accepted((), False)
    if circuit.state is CircuitState.CLOSED:
        return Accepted((_count(circuit.key, 0),), True)
    return Accepted((_closed(circuit.key, _by_hand("closed", command.reason)),), True)


def _misnamed(command: c.OpenCircuit | c.CloseCircuit) -> Refused | None:
    if command.kind not in KINDS:
        told = f"unknown kind {command.kind[:20]!r} of circuit; there are {', '.join(KINDS)}"
        return Refused(Reason.INVALID, told)
    if not 0 < len(command.name) <= NAME_MOST or not command.name.isprintable():
        return Refused(Reason.INVALID, f"a {command.kind} called {command.name[:20]!r}")
    return None


def _by_hand(done: str, reason: str) -> str:
    return f"{done} by hand: {reason[:CAUSE_MOST]}" if reason else f"{done} by hand"


def _is_trial(circuit: Circuit, job: Job, indices: Iterable[Index]) -> bool:
    """Whether what ended is what tries the circuit. The caller knows it by its live lease, so the
    name of the task is enough; a gang falls and commits as one."""
    probe = circuit.probe
    if circuit.state is not CircuitState.HALF_OPEN or probe is None:
        return False
    return probe.job_id == job.job_id and (job.spec.placing.gang or probe.index in indices)


def _counted(
    key: CircuitKey, circuit: Circuit | None, policy: CircuitPolicy, cause: str, now: Instant
) -> Events:
    """One failure more; the one that fills the row opens the circuit."""
    if not policy.failures:
        return ()
    failures = 1 if circuit is None else circuit.failures + 1
    if failures < policy.failures:
        return (_count(key, failures),)
    return (_opened(key, failures, policy.cooldown_ms, cause, now),)


def _opened_again(circuit: Circuit, cause: str, now: Instant) -> e.AnyEvent:
    cooldown_ms = longer(circuit.cooldown_ms)
    return _opened(circuit.key, circuit.failures + 1, cooldown_ms, cause, now)


def _opened(
    key: CircuitKey, failures: int, cooldown_ms: int, cause: str, now: Instant
) -> e.AnyEvent:
    return e.CircuitOpened(
        kind=key[0],
        name=key[1],
        failures=failures,
        cooldown_ms=cooldown_ms,
        until=Instant(now + cooldown_ms),
        cause=cause[:CAUSE_MOST],
    )


def _count(key: CircuitKey, failures: int) -> e.AnyEvent:
    return e.CircuitCounted(kind=key[0], name=key[1], failures=failures)


def _closed(key: CircuitKey, cause: str) -> e.AnyEvent:
    return e.CircuitClosed(kind=key[0], name=key[1], cause=cause)
