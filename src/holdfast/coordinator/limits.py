"""Limits as people and programs look at them, with how much of each is in use."""

from collections.abc import Iterable

from holdfast.coordinator.seats import Worker, held_by_all
from holdfast.coordinator.views import View
from holdfast.core.state import Limit, State
from holdfast.scheduler.ledger import NAMESPACE, Name, names_of
from holdfast.wire.rates import rate_text


def limit_views(state: State, workers: Iterable[Worker] = ()) -> list[View]:
    """Every limit, by scope and name. Of workers that nobody knows, only their leases count."""
    used: dict[Name, int] = {}
    for shape, count in held_by_all(state, workers).items():
        for name in names_of(shape):
            used[name] = used.get(name, 0) + count
    return [_view(name, state.limits[name], used.get(name, 0)) for name in sorted(state.limits)]


def _view(name: Name, limit: Limit, used: int) -> View:
    """What it does not bound is None."""
    scope, text = name
    return {
        "id": f"{scope}/{text}",
        "scope": scope,
        "name": text,
        "running": limit.running or None,
        "rate": rate_text(limit.starts, limit.per_ms) if limit.starts else None,
        "starts": limit.starts or None,
        "per_ms": limit.per_ms or None,
        "weight": limit.weight if scope == NAMESPACE else None,
        "in_use": used,
    }
