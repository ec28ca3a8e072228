"""Why a task, or a job, is where it is, from what the coordinator knows now."""

import asyncio

from holdfast.api.call import Answer, Call, job_of
from holdfast.api.census import counted, surroundings
from holdfast.api.tasks import index_of, past_of, with_task
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.explaining import EVERY_WORKER, job_explained, task_explained
from holdfast.coordinator.past import JobPast, copied
from holdfast.core.ids import JobId, Position
from holdfast.core.job import Job, job_state
from holdfast.scheduler.explain import JobSituation, Situation
from holdfast.scheduler.stalls import Stall


async def explain_task(call: Call) -> Answer:
    """Why a task is where it is: what holds it up, who holds it, or how it ended."""
    index = index_of(call)

    def look(coordinator: Coordinator) -> tuple[Situation, Job, Position, list[Stall]]:
        job = with_task(coordinator.state, call, index)
        here = surroundings(call, coordinator).situation(job, index)
        hangs = call.service.served.stalls.current()
        return here, copied(job, index), coordinator.state.position, hangs

    here, job, last, hangs = await call.ask(look)
    oldest = call.service.served.log.oldest
    told = await asyncio.to_thread(
        task_explained, past_of(call, job), here, job, index, oldest, last, _level(call), hangs
    )
    return Answer({"schema": 1, **told})


async def explain_job(call: Call) -> Answer:
    """Why a job is where it is: each reason once, with how many of its tasks it is about."""
    job_id = JobId(call.path["id"])

    def look(
        coordinator: Coordinator,
    ) -> tuple[JobSituation, str, JobPast, Position, list[Stall]]:
        job = job_of(coordinator.state, job_id)
        here = surroundings(call, coordinator).whole(job)
        hangs, last = call.service.served.stalls.current(), coordinator.state.position
        return here, job_state(job).value, past_of(call, job), last, hangs

    here, state, past, last, hangs = await call.ask(look)
    oldest = call.service.served.log.oldest
    told = await asyncio.to_thread(
        job_explained, past, job_id, state, here, oldest, last, _level(call), hangs
    )
    return Answer({"schema": 1, **told})


def _level(call: Call) -> int:
    return call.number("level", 1, most=EVERY_WORKER)


async def summary(call: Call) -> Answer:
    """What all waiting tasks wait for: how many of them for which reason."""
    return Answer({"schema": 1, **(await counted(call)).view()})
