"""Queues: how much waits in each, and whether it is given out."""

from collections import Counter
from typing import Any

from holdfast.api.call import Answer, Call
from holdfast.core import commands as c
from holdfast.core.spec import DEFAULT_QUEUE
from holdfast.core.state import State
from holdfast.wire.bodies import Reason


async def list_queues(call: Call) -> Answer:
    """The queues that are paused or have something waiting."""

    def look(state: State) -> list[dict[str, Any]]:
        waiting: Counter[str] = Counter({DEFAULT_QUEUE: 0})
        for (_, shape), line in state.ready.queues.items():
            waiting[shape.queue] += len(line)
        return [
            {
                "name": name,
                "paused": name in state.paused,
                "reason": state.paused.get(name) or None,
                "waiting_jobs": waiting[name],
            }
            for name in sorted({*waiting, *state.paused})
        ]

    return Answer({"schema": 1, "queues": await call.look(look)})


async def pause(call: Call) -> Answer:
    """Give nothing more of this queue out; what runs goes on."""
    body: Reason = call.body
    await call.execute(
        c.PauseQueue(queue=call.path["name"], reason=body.reason, **call.keying()),
        reason=body.reason,
    )
    return Answer({})


async def resume(call: Call) -> Answer:
    """Give this queue out again."""
    body: Reason = call.body
    await call.execute(c.ResumeQueue(queue=call.path["name"], **call.keying()), reason=body.reason)
    return Answer({})
