"""What is wrong with a user's wishes, in words; empty when nothing is.

Judged when a job is submitted, or sent back under other terms, so that nothing later can meet a
wish that cannot be understood. Whether anybody can fulfil it is not judged here.
"""

from collections.abc import Callable, Iterable
from math import isfinite
from typing import Final

from holdfast.core import commands as c
from holdfast.core.placing import (
    ALL_TASKS,
    CONDITIONS,
    FATES,
    OPERATORS,
    PACK,
    SPREAD,
    Constraint,
    Placing,
)
from holdfast.core.spec import (
    LONGEST_DELAY_MS,
    NO_LIMIT,
    NOT_A_SERVICE,
    JobSpec,
    retry_problem,
)

LARGEST: Final = 10**15
"""Above every honest amount (30,000 years in milliseconds), and far from what cannot be written."""

NAME_MAX: Final = 200
WEIGHT_MAX: Final = 100
AFTER_MAX: Final = 1_000
"""A job that comes after more than this had better come after one job of many tasks."""

GUARD_MOST: Final = 10_000
"""So many retries in a span, or failures in a row: what allows more guards nothing."""

OWN_RESOURCES: Final = ("cpus", "memory", "gpus")
NUMERIC: Final = ("gt", "ge", "lt", "le")
SPREADS: Final = (PACK, SPREAD, "")

EDITABLE: Final = (
    "retries", "max_losses", "retry", "timeout_ms", "job_timeout_ms", "schedule_timeout_ms",
    "cpus_milli", "memory_bytes", "gpus", "max_parallel", "max_failed_tasks", "priority", "labels",
    "queue", "placing", "stall_ms", "retry_budget", "circuit",
)  # fmt: skip
"""What may change when a finished job is sent back: how and where it runs, never what runs."""


def is_name(text: str) -> bool:
    return 0 < len(text) <= NAME_MAX and text.isprintable()


def submit_problem(command: c.SubmitJob, count: int) -> str:
    """What is wrong with a submit, save for its spec."""
    spec = command.spec
    if count < 0 or (count == 0 and command.sealed):
        return f"a job needs at least one task, not {count}"
    if command.items and command.count and command.count != len(command.items):
        return f"{command.count} tasks were announced and {len(command.items)} came"
    if spec.placing.gang and not command.sealed:
        return "a gang starts whole: all its tasks come with the submit"
    if spec.service.restarts and (command.sealed or len(command.items) < count):
        return "a service takes replicas as long as it lives: it is not sealed, and each is an item"
    return _times_problem(command) or _ties_problem(command)


def _times_problem(command: c.SubmitJob) -> str:
    delay_ms, unique_for_ms = command.delay_ms, command.unique_for_ms
    begin, end = command.not_before_wall, command.deadline_wall
    if not (delay_ms or unique_for_ms or begin or end):
        return ""
    return amounts_problem(
        {
            "delay_ms": delay_ms,
            "unique_for_ms": unique_for_ms,
            "not_before_wall": begin,
            "deadline_wall": end,
        }
    )


def _ties_problem(command: c.SubmitJob) -> str:
    if command.existing not in c.EXISTING:
        return f"unknown policy {command.existing!r}; there are {', '.join(c.EXISTING)}"
    if not command.key and (command.unique_for_ms or command.existing != c.KEEP):
        return "only a job with a key can be the same as another: give it one"
    if command.fate not in FATES:
        return f"unknown fate {command.fate!r}; there are {', '.join(FATES)}"
    if len(command.after) > AFTER_MAX:
        return f"a job comes after at most {AFTER_MAX} others, not {len(command.after)}"
    if command.detached and not command.parent:
        return "only a job with a parent can be detached from it"
    for after in command.after:
        if after.condition not in CONDITIONS:
            return f"unknown condition {after.condition!r}; there are {', '.join(CONDITIONS)}"
        if not ALL_TASKS <= after.index <= LARGEST:
            return f"task {after.index} of job {after.job_id[:NAME_MAX]}"
    return ""


def spec_problem(spec: JobSpec) -> str:
    amounts = {
        "retries": spec.retries,
        "max_losses": spec.max_losses,
        "timeout_ms": spec.timeout_ms,
        "job_timeout_ms": spec.job_timeout_ms,
        "schedule_timeout_ms": spec.schedule_timeout_ms,
        "stall_ms": spec.stall_ms,
        "max_parallel": spec.max_parallel,
        "max_failed_tasks": spec.max_failed_tasks - NO_LIMIT,
        "cpus_milli": spec.cpus_milli,
        "memory_bytes": spec.memory_bytes,
        "gpus": spec.gpus,
    }
    told = amounts_problem(amounts)
    if told:
        return told
    if abs(spec.priority) > LARGEST:
        return f"a priority of {spec.priority}"
    if spec.placing.gang and spec.max_parallel:
        return "a gang runs whole; max_parallel would keep it from starting"
    return (
        retry_problem(spec.retry)
        or _guard_problem("retry_budget", spec.retry_budget.retries, spec.retry_budget.per_ms)
        or _guard_problem("circuit", spec.circuit.failures, spec.circuit.cooldown_ms)
        or placing_problem(spec.placing)
        or _service_problem(spec)
    )


NOT_OF_SERVICES: Final = (
    "retries", "timeout_ms", "job_timeout_ms", "schedule_timeout_ms", "stall_ms", "retry_budget",
    "circuit",
)  # fmt: skip
"""What is about work that ends, and means nothing for a service."""


def _service_problem(spec: JobSpec) -> str:
    policy = spec.service
    if policy == NOT_A_SERVICE:
        return ""
    times = (policy.delay_ms, policy.max_delay_ms, policy.steady_ms)
    if not 1 <= policy.restarts <= GUARD_MOST or not 1 <= policy.refill_ms <= LONGEST_DELAY_MS:
        told = f"{policy.restarts} restarts, one back in {policy.refill_ms} ms"
        return f"service: {told}; 1 to {GUARD_MOST}, and in a millisecond at least"
    if not all(0 <= time <= LONGEST_DELAY_MS for time in times):
        return "service: its delays are not below nothing, nor above thirty years"
    if policy.endpoint and not is_name(policy.endpoint):
        return f"service: an endpoint called {policy.endpoint[:20]!r}"
    strange = [name for name in NOT_OF_SERVICES if getattr(spec, name) != getattr(_PLAIN, name)]
    if spec.max_failed_tasks != NO_LIMIT:
        strange.append("max_failed_tasks")
    if spec.placing.gang:
        strange.append("gang")
    return f"{strange[0]} is for work that ends; a service has none of that" if strange else ""


_PLAIN: Final = JobSpec(name="", kind="", target="")


def _guard_problem(name: str, count: int, span_ms: int) -> str:
    """Both or neither; what a budget counts is written down one by one."""
    if not 0 <= count <= GUARD_MOST or not 0 <= span_ms <= LONGEST_DELAY_MS:
        return f"{name}: {count} in {span_ms} ms; at most {GUARD_MOST}, and not below nothing"
    is_half = bool(count) != bool(span_ms)
    return f"{name}: {count} in {span_ms} ms: say both, or neither" if is_half else ""


def amounts_problem(amounts: dict[str, int]) -> str:
    wrong = [name for name, amount in amounts.items() if not 0 <= amount <= LARGEST]
    return f"{', '.join(wrong)} cannot be negative, nor above {LARGEST}" if wrong else ""


def placing_problem(placing: Placing) -> str:
    if placing.spread not in SPREADS:
        return f"unknown spread {placing.spread!r}; there are {PACK} and {SPREAD}"
    if placing.gang_by and not placing.gang:
        return f"gang_by {placing.gang_by!r} without a gang: say gang as well"
    own = [name for name, _ in placing.resources if name in OWN_RESOURCES]
    if own:
        return f"{own[0]} has a field of its own and is no named resource"
    told = named_problem("resource", placing.resources) or named_problem("key", placing.keys)
    return told or next(filter(None, map(constraint_problem, placing.constraints)), "")


def named_problem(what: str, named: Iterable[tuple[str, int]]) -> str:
    """Names are names and come once; amounts are amounts."""
    seen: set[str] = set()
    for name, amount in named:
        if not is_name(name):
            return f"a {what} called {name[:20]!r}"
        if name in seen:
            return f"{what} {name!r} is named twice"
        seen.add(name)
        if not 0 <= amount <= LARGEST:
            return f"{amount} of {what} {name!r}"
    return ""


def _is_one(values: tuple[str, ...]) -> bool:
    return len(values) == 1


_VALUES: Final[dict[str, tuple[Callable[[tuple[str, ...]], bool], str]]] = {
    **dict.fromkeys(("eq", "ne", *NUMERIC), (_is_one, "one value")),
    "in": (bool, "at least one value"),
    "exists": (lambda values: not values, "no value"),
}


def constraint_problem(constraint: Constraint) -> str:
    attribute, operator, values = constraint.attribute, constraint.operator, constraint.values
    if not is_name(attribute):
        return f"a constraint on an attribute called {attribute[:20]!r}"
    if operator not in OPERATORS:
        return f"unknown operator {operator!r}; there are {', '.join(OPERATORS)}"
    fits, wanted = _VALUES[operator]
    if not fits(values):
        return f"{attribute} {operator} takes {wanted}, not {len(values)}"
    if operator in NUMERIC and not _is_number(values[0]):
        return f"{attribute} {operator} compares numbers; {values[0][:20]!r} is none"
    if not 0 <= constraint.weight <= WEIGHT_MAX:
        told = f"a preference weighs 1 to {WEIGHT_MAX}, and what is required 0"
        return f"{told}; {attribute} has {constraint.weight}"
    return ""


def _is_number(text: str) -> bool:
    try:
        return isfinite(float(text))
    except ValueError:
        return False


def edit_problem(before: JobSpec, after: JobSpec) -> str:
    """Why a job cannot be sent back under these terms."""
    fields = JobSpec.__struct_fields__
    changed = [n for n in fields if getattr(before, n) != getattr(after, n)]
    fixed = [name for name in changed if name not in EDITABLE]
    if before.placing.gang != after.placing.gang:
        fixed.append("gang")
    if fixed:
        return f"{', '.join(fixed)} cannot change: that would be another job"
    return spec_problem(after)
