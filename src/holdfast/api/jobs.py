"""Jobs: submit, feed, look, wait, stop, try again."""

import asyncio
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec
from msgspec import structs

from holdfast.api.bundles import check_bundle
from holdfast.api.call import Answer, Call, Done, job_of
from holdfast.api.fitting import check_fit
from holdfast.api.foreseeing import foresee
from holdfast.api.paging import jobs_page
from holdfast.api.problems import Declined, understood
from holdfast.api.waiting import until_any
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.progress import job_progress
from holdfast.coordinator.views import View, job_detail
from holdfast.coordinator.watch import JobNow
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decision import Accepted, Decision
from holdfast.core.ids import Index, Instant, JobId, Position
from holdfast.core.job import Job
from holdfast.core.spec import JobSpec
from holdfast.core.state import State
from holdfast.core.task import TaskState
from holdfast.wire.amounts import duration_ms
from holdfast.wire.bodies import Edits, Items, Reason, Retries, Seal, Submit
from holdfast.wire.specs import edited, instant_of, spec_of
from holdfast.wire.wishes import ties_of

LONGEST_WAIT_MS: Final = 300_000
SHORT: Final = 16


async def submit(call: Call) -> Answer:
    """Ask for work. A key, or a repeated request, finds the job it made before."""
    body: Submit = call.body
    command = submission(call, body)
    if call.flag("dry_run"):
        return await foresee(call, command)
    told: dict[str, Any] = {}

    def ask(coordinator: Coordinator) -> Decision:
        if len(coordinator.state.jobs) >= call.service.limits.jobs:
            raise Declined("queue_full", "too many jobs wait", headers={"retry-after": "10"})
        if not call.was_answered(coordinator):
            check_bundle(call, command.spec.bundle)
            # What was submitted under its key is found whatever has become of the workers.
            if command.key not in coordinator.state.keys or command.existing != c.KEEP:
                count = len(command.items) or command.count
                check_fit(call, coordinator, command.spec, count, must_fit=body.must_fit)
        decision = call.decide(coordinator, command)
        if isinstance(decision, Accepted) and isinstance(decision.answer, str):
            told.update(_introduced(call, coordinator, JobId(decision.answer)))
        return decision

    done = await call.found(await call.ask(ask))
    made = done.find(e.JobSubmitted)
    if not told and made is not None:
        found = made.job_id
        told = await call.ask(lambda coordinator: _introduced(call, coordinator, found))
    here = (("location", f"/api/v1/jobs/{told['id']}"),)
    return Answer(told, 201 if made is not None else 200, here)


def _introduced(call: Call, coordinator: Coordinator, job_id: JobId) -> dict[str, Any]:
    """A job as its asker is told of it, fed and watched from now on."""
    body: Submit = call.body
    job = job_of(coordinator.state, job_id)
    if not job.sealed:
        call.service.served.feeders.heard(job_id)
    view = job_detail(job, call.service.wall)
    if body.watch:
        view["watched"] = call.service.streams.watch(call.identity, body.watch, job_id)
    return view


def submission(call: Call, body: Submit) -> c.SubmitJob:
    """The command that a body asks for; `Declined` says what is wrong with it."""
    with understood():
        spec = spec_of(body)
        delay_ms = duration_ms(body.delay or None, "delay")
        not_before = instant_of(body.not_before, "not_before")
        deadline = instant_of(body.deadline, "deadline")
        ties = ties_of(body)
    items, count, shared = tuple(body.items), body.count or 0, body.shared
    if body.kind == "command":
        if items or shared:
            raise Declined("invalid", "a command takes neither items nor shared; use count")
        if body.count == 0:
            raise Declined("invalid", "`count` is 0, and a command is run once at least")
        # Every task of the job runs the same program; its index is in its environment.
        count, shared = body.count or 1, msgspec.msgpack.encode(body.command)
    digest = body.digest
    if body.key and body.sealed and not digest:
        digest = _digest(spec, items, count, shared)
    return c.SubmitJob(
        # Whoever asks is known by the token, and no part of what is asked for.
        spec=structs.replace(spec, user=call.identity.name),
        key=body.key,
        digest=digest,
        items=items,
        count=count,
        shared=shared,
        sealed=body.sealed,
        delay_ms=delay_ms,
        not_before_wall=Instant(not_before),
        deadline_wall=Instant(deadline),
        **ties,
        **call.keying(),
    )


def _digest(*parts: object) -> bytes:
    """What a job asks for, so that its key is not taken for something else."""
    return blake2b(msgspec.msgpack.encode(parts), digest_size=SHORT).digest()


async def list_jobs(call: Call) -> Answer:
    """A page of jobs, newest first."""
    return Answer(await jobs_page(call))


async def show(call: Call) -> Answer:
    """A job; with `wait`, when it has ended or the time is up."""
    job_id = JobId(call.path["id"])
    wait = call.one("wait")
    if wait:
        with understood():
            wait_ms = duration_ms(wait, "wait")
        await _ended(call, job_id, min(wait_ms, LONGEST_WAIT_MS))
    workers, wall = call.service.served.exchanges.workers, call.service.wall

    def look(state: State) -> View:
        job = job_of(state, job_id)
        return {**job_detail(job, wall), "progress": job_progress(workers, job, wall)}

    return Answer(await call.look(look), tagged=True)


class _End:
    """Waits for one job to end."""

    def __init__(self, job_id: JobId) -> None:
        self.job_id = job_id
        self.over = asyncio.Event()

    def begin(self, now: JobNow) -> None:
        if now.ended:
            self.over.set()

    def grown(self, count: int, sealed: bool) -> None:
        return

    def finished(self, indices: Sequence[Index], state: TaskState, position: Position) -> None:
        return

    def reopened(self, indices: Sequence[Index]) -> None:
        return

    def ended(self, state: str, reason: str) -> None:
        self.over.set()

    def broken(self, error: Exception) -> None:
        self.over.set()


async def _ended(call: Call, job_id: JobId, wait_ms: int) -> None:
    end = _End(job_id)
    watchers = call.service.served.coordinator.watchers
    if not await call.ask(lambda _: watchers.add(end)):
        return
    try:
        await until_any(
            end.over.wait(), call.service.leaving.wait(), call.gone(), timeout_s=wait_ms / 1_000
        )
    finally:
        watchers.remove(end)


async def add_items(call: Call) -> Answer:
    """Feed an open job."""
    body: Items = call.body
    job_id = JobId(call.path["id"])
    call.service.served.feeders.heard(job_id)
    done = await call.execute(
        c.AddTasks(
            job_id=job_id,
            first=body.first,
            items=tuple(body.items),
            digest=body.digest,
            **call.keying(),
        )
    )
    added = done.find(e.TasksAdded)
    return Answer({"count": added.first + len(added.items) if added is not None else done.answer})


async def seal(call: Call) -> Answer:
    """Say that no more items will come."""
    body: Seal = call.body
    job_id = JobId(call.path["id"])
    await call.execute(
        c.SealJob(job_id=job_id, count=body.count, interrupted=body.interrupted, **call.keying())
    )
    return Answer({})


async def alive(call: Call) -> Answer:
    """A sign of life of whoever feeds a job. Kept in memory only."""
    job_id = JobId(call.path["id"])
    job = await call.look(lambda state: job_of(state, job_id))
    if not job.sealed:
        call.service.served.feeders.heard(job_id)
    return Answer({})


async def cancel(call: Call) -> Answer:
    """Stop a job: nothing more runs, what runs is stopped."""
    body: Reason = call.body
    job_id = JobId(call.path["id"])
    done = await call.execute(
        c.KillJob(job_id=job_id, reason=body.reason, **call.keying()), reason=body.reason
    )
    return Answer({"stopped": done.answer if not done.repeated else stopped(done)})


def stopped(done: Done) -> int:
    """How many tasks a record stopped."""
    killed = [event for event in done.events if isinstance(event, e.TasksKilled)]
    return sum(_spanned(event.spans) + len(event.ends) for event in killed)


async def retry(call: Call) -> Answer:
    """Send tasks back with fresh budgets, under other terms where some are set."""
    body: Retries = call.body
    job_id = JobId(call.path["id"])

    def ask(coordinator: Coordinator) -> Decision:
        spec = None
        if body.set is not None and not call.was_answered(coordinator):
            spec = _edited(job_of(coordinator.state, job_id), body.set)
        command = c.RetryTasks(
            job_id=job_id, indices=tuple(map(Index, body.indices)), spec=spec, **call.keying()
        )
        return call.decide(coordinator, command, reason=body.reason)

    done = await call.found(await call.ask(ask))
    retried = done.find(e.TasksRetried)
    return Answer({"retried": _spanned(retried.spans) if retried is not None else done.answer})


def _edited(job: Job, edits: Edits) -> JobSpec:
    with understood():
        return edited(job.spec, edits)


def _spanned(spans: Sequence[Any]) -> int:
    return sum(span.last - span.first + 1 for span in spans)
