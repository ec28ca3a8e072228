"""Queues: how much waits in each, and whether it is given out."""

from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Final

from holdfast.api.call import Answer, Call
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.crewviews import queues_told
from holdfast.core import commands as c
from holdfast.core.ids import JobId
from holdfast.core.ready import has_leasable
from holdfast.core.state import State
from holdfast.wire.bodies import Reason

TURN: Final = 20_000
"""How many jobs are counted without letting others have their turn."""


async def list_queues(call: Call) -> Answer:
    """The queues that are paused or have something waiting."""
    waiting: Counter[str] = Counter()
    lines = await call.look(_lines)
    for name, jobs in lines:
        for first in range(0, len(jobs), TURN):
            part = jobs[first : first + TURN]
            waiting[name] += await call.ask(partial(_standing, part))
    paused = await call.look(lambda state: dict(state.paused))
    return Answer({"schema": 1, "queues": queues_told(waiting, paused)})


def _lines(state: State) -> list[tuple[str, list[JobId]]]:
    return [(shape.queue, list(line)) for (_, shape), line in state.ready.queues.items()]


def _standing(jobs: Iterable[JobId], coordinator: Coordinator) -> int:
    """How many of these have a task to give out. Who was stopped may stand in line all the same:
    a line lets go of them when they reach its front."""
    now = coordinator.now()
    known = (coordinator.state.jobs.get(job_id) for job_id in jobs)
    return sum(job is not None and has_leasable(job, now) for job in known)


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
