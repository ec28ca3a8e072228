"""What guards against storms has to do with a task that waits: its job's budget, its circuit."""

from collections.abc import Iterator
from shlex import quote
from typing import Final

from holdfast.core.circuit import Circuit, CircuitState, circuit_id
from holdfast.core.ids import NEVER, Instant, task_name
from holdfast.core.spec import RetryBudget
from holdfast.scheduler.ledger import Bound
from holdfast.scheduler.reasons import Reason, quantity, sentence, span


def budget_reason(
    task: str,
    budget: RetryBudget,
    wanted: Instant,
    not_before: Instant,
    now: Instant,
    wall: Instant,
) -> Reason:
    """A retry that was due at `wanted` and has room at `not_before`."""
    said = f"its job retries at most {budget.retries} times in {span(budget.per_ms)}, and the "
    said += f"budget has room for it in {span(not_before - now)}"
    if wanted > now:
        said += f"; its own pause ends in {span(wanted - now)}"
    return Reason(
        code="retry_budget",
        sentence=sentence(said),
        command=f"holdfast task reschedule {task} --now",
        until=Instant(wall + not_before - now),
    )


def circuit_reasons(circuit: Circuit | None, now: Instant, wall: Instant) -> Iterator[Reason]:
    """The function is given to nobody, or to one at a time; nothing, where it is closed."""
    if circuit is None or circuit.state is CircuitState.CLOSED:
        return
    called = circuit_id(*circuit.key)
    until = NEVER
    if circuit.state is CircuitState.HALF_OPEN:
        told = f"circuit {called} is half-open: it is tried with one task at a time"
        if circuit.probe is not None:
            told += f", at last {task_name(circuit.probe.job_id, circuit.probe.index)}"
    elif circuit.until == NEVER:
        told = f"circuit {called} is open until somebody closes it: {circuit.cause}"
    else:
        until = Instant(wall + max(circuit.until - now, 0))
        told = f"circuit {called} is open and half-opens in {span(circuit.until - now)}"
        told += f", after {circuit.failures} failures in a row: {circuit.cause}"
    yield Reason(
        code="circuit_open",
        sentence=sentence(told.rstrip(".")),
        command=f"holdfast circuit close {quote(called)}",
        until=until,
    )


DISK_REASONS: Final = {
    reason.code: reason
    for reason in (
        Reason(
            code="disk_full",
            sentence="The disk that holds the log is full: nothing more is given out.",
            command="holdfast doctor",
        ),
        Reason(
            code="disk_slow",
            sentence="The disk that holds the log is slow: nothing is given out meanwhile.",
            command="holdfast doctor",
        ),
    )
}


def disk_reason(code: str) -> Reason:
    """The disk of the coordinator is short of something, whatever workers have room for."""
    return DISK_REASONS[code]


def amount_reached(bound: Bound) -> str:
    """What its tasks take together leaves less than one more needs."""
    scope, name = bound.name
    need, most = quantity(bound.resource, bound.need), quantity(bound.resource, bound.most)
    if bound.need > bound.most:
        return f"it needs {need}, and {scope} {name} may never have more than {most}"
    left = quantity(bound.resource, max(0, bound.left))
    return f"it needs {need}, and {scope} {name} has {left} left of the {most} it may have"
