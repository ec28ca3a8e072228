"""Tasks: a page of them, one with its attempts, how some ended, and what people ask of one."""

import asyncio
from typing import Final

from holdfast.api.call import Answer, Call, job_of
from holdfast.api.outcomes import Ending, ends_of, outcomes_in
from holdfast.api.paging import tasks_page
from holdfast.api.problems import Declined, understood
from holdfast.coordinator.effects import owed_by_task
from holdfast.coordinator.history import task_detail
from holdfast.coordinator.inspect import HistoryGone
from holdfast.coordinator.past import JobPast, copied
from holdfast.coordinator.progress import progress_view
from holdfast.coordinator.refusals import refusals_in
from holdfast.coordinator.serving import Served
from holdfast.coordinator.trail import trail_of
from holdfast.coordinator.views import View
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.ids import Index, Instant, JobId
from holdfast.core.job import Job
from holdfast.core.state import State
from holdfast.wire.amounts import duration_ms
from holdfast.wire.bodies import Outcome, Reason, Reschedule
from holdfast.wire.specs import instant_of

MOST_INDICES: Final = 1_000
MOST_BYTES: Final = 32 * 1024 * 1024


async def list_tasks(call: Call) -> Answer:
    """The tasks of a job, by index."""
    return Answer(await tasks_page(call))


async def show(call: Call) -> Answer:
    """One task with its budgets, what it owes and all its attempts."""
    index = index_of(call)
    workers = call.service.served.exchanges.workers

    deliveries = call.service.served.exchanges.deliveries
    servicing = call.service.served.exchanges.servicing
    wall = call.service.wall

    def look(state: State) -> tuple[Job, View]:
        job = with_task(state, call, index)
        now = {
            "progress": progress_view(workers, job, index, wall),
            "service": servicing.view(job, index, wall),
            "owed": owed_by_task(state.debts, job, index, deliveries.standings(), wall),
        }
        return copied(job, index), now

    job, now = await call.look(look)
    # The attempts are in the log, and the loop waits for no disk.
    detail = await asyncio.to_thread(task_detail, past_of(call, job), job, index)
    return Answer({**detail, **now})


async def history(call: Call) -> Answer:
    """Every transaction that touched a task, and every move it made, the oldest first."""
    index = index_of(call)
    job, last = await call.look(
        lambda state: (copied(with_task(state, call, index), index), state.position)
    )
    past, folder = past_of(call, job), call.service.served.log.path

    def look() -> View:
        return trail_of(past, job, index, last, list(refusals_in(folder))).view()

    return Answer({"schema": 1, **await asyncio.to_thread(look)})


async def outcomes(call: Call) -> Answer:
    """How tasks ended: their results, or what they ended with."""
    wanted = _indices(call.one("indices"))
    job_id = JobId(call.path["id"])
    ends = await call.look(lambda state: ends_of(job_of(state, job_id), wanted))
    found = await asyncio.to_thread(_read_outcomes, call.service.served, job_id, ends)
    return Answer({"schema": 1, "outcomes": found})


def _read_outcomes(served: Served, job_id: JobId, ends: list[Ending]) -> list[Outcome]:
    by_position: dict[int, list[Ending]] = {}
    for end in ends:
        by_position.setdefault(end.position, []).append(end)
    found: dict[int, Outcome] = {}
    size = 0
    for position, asked in by_position.items():
        try:
            record = served.told(position).record if position else None
        except HistoryGone:
            record = None
        told = outcomes_in(record, job_id, asked)
        size += sum(len(outcome.result or b"") for outcome in told)
        if size > MOST_BYTES:
            raise Declined("too_large", "these results are too large together; ask for fewer")
        found.update((outcome.index, outcome) for outcome in told)
    return [found[end.index] for end in ends]


async def cancel(call: Call) -> Answer:
    """Stop one task; the others of its job go on."""
    body: Reason = call.body
    done = await call.execute(
        c.KillTasks(
            job_id=JobId(call.path["job"]),
            indices=(index_of(call),),
            reason=body.reason,
            **call.keying(),
        ),
        reason=body.reason,
    )
    return Answer({"stopped": 1 if done.find(e.TasksKilled) is not None else 0})


async def reschedule(call: Call) -> Answer:
    """Move the earliest time of a waiting task: after a delay, at an instant, or now."""
    body: Reschedule = call.body
    with understood():
        delay_ms = duration_ms(body.delay or None, "delay")
        not_before = instant_of(body.not_before, "not_before")
    if delay_ms and not_before:
        raise Declined("invalid", "give a delay or an instant, not both")
    await call.execute(
        c.RescheduleTask(
            job_id=JobId(call.path["job"]),
            index=index_of(call),
            delay_ms=delay_ms,
            not_before_wall=Instant(not_before),
            **call.keying(),
        )
    )
    return Answer({})


def past_of(call: Call, job: Job) -> JobPast:
    """A job that was copied, with the log that led to it."""
    return JobPast(call.service.served.log, job, call.service.wall)


def with_task(state: State, call: Call, index: Index) -> Job:
    job = job_of(state, call.path["job"])
    if index >= job.count:
        raise Declined("not_found", f"job {job.job_id} has no task {index}")
    return job


def index_of(call: Call) -> Index:
    text = call.path["index"]
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise Declined("not_found", f"{text[:40]!r} is no index of a task")
    return Index(int(text))


def _indices(text: str) -> list[Index]:
    """`0-99,105`, at most a thousand of them, each once."""
    found: dict[int, None] = {}
    for part in filter(None, text.split(",")):
        first, dash, last = part.partition("-")
        ends = (first, last if dash else first)
        if not all(end.isascii() and end.isdigit() and len(end) <= 15 for end in ends):
            raise Declined("invalid", f"indices={part[:40]!r} is not of the form 0-99,105")
        if int(ends[1]) - int(ends[0]) >= MOST_INDICES:
            raise Declined("too_large", f"at most {MOST_INDICES} tasks at a time")
        found.update(dict.fromkeys(range(int(ends[0]), int(ends[1]) + 1)))
        if len(found) > MOST_INDICES:
            raise Declined("too_large", f"at most {MOST_INDICES} tasks at a time")
    if not found:
        raise Declined("invalid", "name some tasks: indices=0-99,105")
    return [Index(index) for index in found]
