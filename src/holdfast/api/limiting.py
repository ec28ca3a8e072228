"""Limits: how much a namespace, a user or a key may have running, and start in a while."""

from holdfast.api.call import Answer, Call
from holdfast.api.problems import Declined, understood
from holdfast.coordinator.limits import limit_views
from holdfast.coordinator.views import View
from holdfast.core import commands as c
from holdfast.core.state import State
from holdfast.wire.bodies import NewLimit
from holdfast.wire.limits import changes_of


async def list_limits(call: Call) -> Answer:
    """Every limit, with how much of it is in use."""
    return Answer({"schema": 1, "limits": await call.look(lambda state: _views(call, state))})


async def show(call: Call) -> Answer:
    """One limit, with how much of it is in use."""
    scope, name = call.path["scope"], call.path["name"]
    found = await call.look(lambda state: _views(call, state))
    views = [view for view in found if (view["scope"], view["name"]) == (scope, name)]
    if not views:
        raise Declined("not_found", f"no limit is set for {scope}/{name}")
    return Answer(views[0])


async def set_limit(call: Call) -> Answer:
    """Bound a namespace, a user or a key; what was set for it before is replaced."""
    return await _set(call, replaces=True)


async def change(call: Call) -> Answer:
    """Change what is named of a limit; the rest stays as it was."""
    return await _set(call, replaces=False)


async def _set(call: Call, *, replaces: bool) -> Answer:
    body: NewLimit = call.body
    with understood():
        changes = changes_of(body)
    scope, name = call.path["scope"], call.path["name"]
    await call.execute(
        c.SetLimit(scope=scope, name=name, replaces=replaces, **changes, **call.keying())
    )
    return await show(call)


async def clear(call: Call) -> Answer:
    """Bound a namespace, a user or a key no more."""
    scope, name = call.path["scope"], call.path["name"]
    done = await call.execute(c.ClearLimit(scope=scope, name=name, **call.keying()))
    return Answer({"cleared": bool(done.events)})


def _views(call: Call, state: State) -> list[View]:
    return limit_views(state, call.service.served.exchanges.workers.values())
