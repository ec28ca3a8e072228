"""Limits as people and programs look at them, with how much of each is in use."""

from collections import Counter
from collections.abc import Iterable

from holdfast.coordinator.seats import Worker, held_by_all
from holdfast.coordinator.views import View
from holdfast.core.state import Limit, State
from holdfast.scheduler.ledger import NAMESPACE, TASKS, Name, names_of, needs_of
from holdfast.wire.limits import CPUS, GPUS, MEMORY, amount_told
from holdfast.wire.rates import rate_text


def limit_views(state: State, workers: Iterable[Worker] = ()) -> list[View]:
    """Every limit, by scope and name. Of workers that nobody knows, only their leases count."""
    used: Counter[tuple[Name, str]] = Counter()
    for shape, count in held_by_all(state, workers).items():
        for name in names_of(shape):
            for resource, need in needs_of(shape).items():
                used[name, resource] += need * count
    return [
        {**limit_view(name, limit), "in_use": used[name, TASKS], "taken": _taken(limit, name, used)}
        for name, limit in sorted(state.limits.items())
    ]


def limit_view(name: Name, limit: Limit) -> View:
    """What it does not bound is None, and no resource among `resources`."""
    scope, text = name
    amounts = {each: amount_told(each, most) for each, most in limit.amounts}
    return {
        "id": f"{scope}/{text}",
        "scope": scope,
        "name": text,
        "running": limit.running or None,
        "rate": rate_text(limit.starts, limit.per_ms) if limit.starts else None,
        "starts": limit.starts or None,
        "per_ms": limit.per_ms or None,
        "weight": limit.weight if scope == NAMESPACE else None,
        "cpus": amounts.pop(CPUS, None),
        "memory_bytes": amounts.pop(MEMORY, None),
        "gpus": amounts.pop(GPUS, None),
        "resources": amounts,
    }


def _taken(limit: Limit, name: Name, used: Counter[tuple[Name, str]]) -> View:
    """How much of each resource that it bounds is taken."""
    return {each: amount_told(each, used[name, each]) for each, _ in limit.amounts}
