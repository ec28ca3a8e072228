"""What was told about a class runtime of late."""

from typing import Any

from holdfast.api.call import Answer, Call
from holdfast.api.problems import Declined
from holdfast.coordinator import runtimes as desk
from holdfast.coordinator.views import rfc3339
from holdfast.core.state import State
from holdfast.runtimes.happenings import Happening


async def events(call: Call) -> Answer:
    """What happened to a runtime since this server was started, the latest last."""
    name = call.path["name"]

    def look(state: State) -> tuple[Happening, ...]:
        if not desk.version_of(state, name):
            refused = desk.no_runtime(name)
            raise Declined(refused.code.value, refused.message)
        return call.service.served.reconciling.happenings.of(name)

    found = await call.look(look)
    return Answer({"schema": 1, "events": [_view(call, each) for each in found]})


def _view(call: Call, happening: Happening) -> dict[str, Any]:
    wall = call.service.wall
    return {
        "type": "Warning" if happening.is_warning else "Normal",
        "reason": happening.reason,
        "message": happening.message,
        "count": happening.count,
        "first_at": rfc3339(wall(happening.first_at)),
        "last_at": rfc3339(wall(happening.last_at)),
    }
