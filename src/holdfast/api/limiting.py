"""Limits: how much a namespace, a user or a key may have running, and start in a while."""

from typing import Any

from holdfast.api.call import Answer, Call
from holdfast.api.problems import Declined
from holdfast.coordinator.seats import held_by_all
from holdfast.coordinator.views import limit_view
from holdfast.core import commands as c
from holdfast.core.state import State
from holdfast.scheduler.ledger import Name, names_of
from holdfast.wire.bodies import NewLimit
from holdfast.wire.rates import rate_of

View = dict[str, Any]


async def list_limits(call: Call) -> Answer:
    """Every limit, with how much of it is in use."""

    def look(state: State) -> list[View]:
        used = _used(call, state)
        return [_view(state, name, used) for name in sorted(state.limits)]

    return Answer({"schema": 1, "limits": await call.look(look)})


async def show(call: Call) -> Answer:
    """One limit, with how much of it is in use."""
    name = _name(call)

    def look(state: State) -> View:
        if name not in state.limits:
            raise Declined("not_found", f"no limit is set for {'/'.join(name)}")
        return _view(state, name, _used(call, state))

    return Answer(await call.look(look))


async def set_limit(call: Call) -> Answer:
    """Bound a namespace, a user or a key; what was set for it before is replaced."""
    body: NewLimit = call.body
    scope, name = _name(call)
    try:
        starts, per_ms = rate_of(body.rate)
    except (ValueError, OverflowError) as error:
        raise Declined("invalid", str(error)) from error
    await call.execute(
        c.SetLimit(
            scope=scope,
            name=name,
            running=body.running,
            starts=starts,
            per_ms=per_ms,
            weight=body.weight,
            **call.keying(),
        )
    )
    return await show(call)


async def clear(call: Call) -> Answer:
    """Bound a namespace, a user or a key no more."""
    scope, name = _name(call)
    done = await call.execute(c.ClearLimit(scope=scope, name=name, **call.keying()))
    return Answer({"cleared": bool(done.events)})


def _name(call: Call) -> Name:
    return call.path["scope"], call.path["name"]


def _view(state: State, name: Name, used: dict[Name, int]) -> View:
    return {**limit_view(*name, state.limits[name]), "in_use": used.get(name, 0)}


def _used(call: Call, state: State) -> dict[Name, int]:
    """How many slots are held under each name that a limit can bound."""
    found: dict[Name, int] = {}
    workers = call.service.served.exchanges.workers.values()
    for shape, count in held_by_all(state, workers).items():
        for name in names_of(shape):
            found[name] = found.get(name, 0) + count
    return found
