"""What is in quarantine: a page of it, its groups and its numbers, and what operators decide."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast.api.call import Answer, Call, job_of
from holdfast.api.paging import MOST, USUAL, page
from holdfast.api.problems import Declined, understood
from holdfast.api.tasks import index_of, past_of, with_task
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.history import task_detail
from holdfast.coordinator.library import Library
from holdfast.coordinator.operations import JOBS
from holdfast.coordinator.past import copied
from holdfast.coordinator.quarantine import Cursor, Patient, patients_after, patients_of
from holdfast.coordinator.quarantine_views import (
    ORDER_MOST,
    Pair,
    case_view,
    counts_of,
    groups_of,
    named_patients,
    named_tasks,
    one_of_each,
    picked,
    spans_picked,
    wanted_by,
    wanted_pairs,
)
from holdfast.core import commands as c
from holdfast.core import commands_operations as o
from holdfast.core import events as e
from holdfast.core.command import Command
from holdfast.core.decision import Accepted, Decision
from holdfast.core.ids import task_name
from holdfast.core.job import state_of
from holdfast.core.operation import PURGE_TASKS, RETRY_TASKS
from holdfast.core.state import State
from holdfast.wire.amounts import duration_ms
from holdfast.wire.bodies import ChosenCases, Force
from holdfast.wire.operations import NewOperation, Selection
from holdfast.wire.quarantine import REASONS, WantedCases, plain_mark

SLICE_TASKS: Final = 1_000
"""So many tasks are taken without letting others have their turn."""
SLICES: Final = 200
"""So many turns are taken for one answer. It may end early; `next` says where to go on."""


async def list_cases(call: Call) -> Answer:
    """Tasks in quarantine, those of the newest jobs first."""
    limit = max(1, call.number("limit", USUAL, most=MOST))
    found = await _gathered(call, _wanted(call), _place(call), limit)
    views = [case_view(*pair) for pair in found.pairs]
    return Answer(page("tasks", views, _told(found.next)))


async def list_groups(call: Call) -> Answer:
    """The same failures counted together; a long list comes in parts."""
    found = await _gathered(call, _wanted(call), _place(call))
    groups = await asyncio.to_thread(groups_of, found.pairs)
    return Answer(page("groups", groups, _told(found.next)))


async def stats(call: Call) -> Answer:
    """How many there are by reason, function, worker and fingerprint, and how many came of late."""
    found = await _gathered(call, _wanted(call), _place(call))
    numbers = await asyncio.to_thread(counts_of, found.pairs, _now(call))
    return Answer({"schema": 1, **numbers, "next": _told(found.next)})


async def show(call: Call) -> Answer:
    """One task in quarantine: why, with all its attempts."""
    index = index_of(call)

    def look(state: State) -> tuple[Any, Patient]:
        job = with_task(state, call, index)
        found = next(patients_of(job, index), None)
        if found is None or found.index != index:
            current, name = state_of(job, index), task_name(job.job_id, index)
            raise Declined("not_found", f"task {name} is {current.name}, not in quarantine")
        return copied(job, index), found

    job, patient = await call.look(look)
    (case,) = await asyncio.to_thread(call.service.cases.cases, _library(call), (patient,))
    detail = await asyncio.to_thread(task_detail, past_of(call, job), job, index)
    return Answer({**detail, **case_view(patient, case), "attempts": detail["attempts"]})


async def retry(call: Call) -> Answer:
    """Send tasks back from quarantine with fresh budgets: a new generation of their jobs."""
    return await _settle(call, "retried")


async def purge(call: Call) -> Answer:
    """Give tasks in quarantine up, for a reason: they never run again."""
    body: ChosenCases = call.body
    if not body.reason.strip() and not body.dry_run:
        raise Declined("invalid", "say why they are given up: `reason` is recorded")
    return await _settle(call, "purged")


async def force(call: Call) -> Answer:
    """Move one task by hand to another state, as far as the invariants allow."""
    body: Force = call.body
    index = index_of(call)
    job_id = await call.look(lambda state: job_of(state, call.path["job"]).job_id)
    done = await call.execute(
        c.ForceTask(
            job_id=job_id, index=index, target=body.to.upper(), reason=body.reason, **call.keying()
        ),
        reason=body.reason,
    )
    forced = done.find(e.TaskForced)
    if forced is None:
        return Answer({"schema": 1, "from": body.to.upper(), "to": body.to.upper(), "moved": False})
    return Answer({"schema": 1, "from": forced.source, "to": forced.target, "moved": True})


async def _settle(call: Call, done: str) -> Answer:
    """Chosen off the loop, judged on it: what moved on meanwhile is left alone."""
    body: ChosenCases = call.body
    if len(body.ids) > ORDER_MOST:
        raise Declined("too_large", f"at most {ORDER_MOST} tasks at a time")
    chosen, views, more = await _chosen(call, body)
    if body.dry_run:
        return Answer({"schema": 1, done: 0, "chosen": len(chosen), "tasks": views, "more": more})
    command: Command = c.RetryQuarantined(picked=chosen, **call.keying())
    if done == "purged":
        command = c.PurgeQuarantined(picked=chosen, reason=body.reason, **call.keying())
    verb = PURGE_TASKS if done == "purged" else RETRY_TASKS
    decision, operation = await call.ask(partial(_as_operation, call, command, verb, chosen))
    result = await call.found(decision)
    return Answer(
        {
            "schema": 1,
            done: sum(map(_count, result.events)),
            "chosen": len(chosen),
            "tasks": views,
            "more": more,
            "operation": operation or None,
        }
    )


def _as_operation(
    call: Call,
    command: Command,
    verb: str,
    chosen: Sequence[c.Picked],
    coordinator: Coordinator,
) -> tuple[Decision, str]:
    """Carry it out in one turn, as an operation: it can be found again and undone. One that is too
    long to be told in a few words is carried out all the same."""
    body: ChosenCases = call.body
    if call.was_answered(coordinator) or not chosen:
        return call.decide(coordinator, command, reason=body.reason), ""
    names = [f"{job}/{first}-{last}" for job, first, last in spans_picked(chosen)]
    request = msgspec.json.encode(
        NewOperation(verb=verb, selection=Selection(names=names), reason=body.reason)
    )
    beginning = o.BeginOperation(
        verb=verb, request=request, digest=call.digest, key=call.key,
        asked_by=call.identity.actor, reason=body.reason, total=len(chosen),
    )  # fmt: skip
    begun = call.decide(coordinator, beginning, reason=body.reason)
    name = str(begun.answer) if isinstance(begun, Accepted) else ""
    decision = call.decide(coordinator, command, reason=body.reason, request_id=name)
    if name and isinstance(decision, Accepted):
        jobs = len({getattr(event, "job_id", "") for event in decision.events if _count(event)})
        outcomes = ((JOBS, jobs), ("tasks", sum(map(_count, decision.events))))
        ending = o.EndOperation(operation_id=name, outcomes=outcomes)
        call.decide(coordinator, ending, request_id=name)
    return decision, name


def _count(event: e.AnyEvent) -> int:
    if isinstance(event, e.TasksRetried):
        return sum(span.last - span.first + 1 for span in event.spans)
    return len(event.all) if isinstance(event, e.TasksPurged) else 0


async def _chosen(
    call: Call, body: ChosenCases
) -> tuple[tuple[c.Picked, ...], list[dict[str, Any]], bool]:
    """The tasks, a sample of them as they are shown, and whether there are more."""
    with understood():
        wanted = wanted_by(body, duration_ms(body.older_than or None, "older_than"))
        names = named_tasks(body.ids)
    if wanted is None:
        named = await call.look(lambda state: named_patients(state, names))
        book = call.service.cases
        cases = await asyncio.to_thread(book.cases, _library(call), named[:USUAL])
        views = [case_view(*pair) for pair in zip(named, cases, strict=False)]
        return picked(named), views, False
    found = await _gathered(call, wanted, None, 0 if body.canary else ORDER_MOST)
    chosen = one_of_each(found.pairs) if body.canary else found.pairs
    views = [case_view(*pair) for pair in (chosen if body.canary else chosen[:USUAL])]
    return picked(one for one, _ in chosen[:ORDER_MOST]), views, found.next is not None


class Gathered(Struct):
    """What was found, and where the next look begins; None at the end."""

    pairs: list[Pair]
    next: Cursor | None


async def _gathered(
    call: Call, wanted: WantedCases, cursor: Cursor | None, limit: int = 0
) -> Gathered:
    """What is wanted, slice by slice: memory is looked at on the loop, the log off it. With a
    `limit`, no more than so many."""
    library, book = _library(call), call.service.cases
    found: list[Pair] = []
    for _ in range(SLICES):
        most = min(SLICE_TASKS, limit - len(found)) if limit else SLICE_TASKS
        patients, cursor = await call.ask(partial(_patients, call, wanted, cursor, most))
        cases = await asyncio.to_thread(book.cases, library, patients)
        pairs = zip(patients, cases, strict=True)
        found += wanted_pairs(pairs, wanted, _now(call))
        if cursor is None or 0 < limit <= len(found):
            break
    return Gathered(found, cursor)


def _patients(
    call: Call, wanted: WantedCases, cursor: Cursor | None, most: int, coordinator: Coordinator
) -> tuple[list[Patient], Cursor | None]:
    before = None if cursor is None else cursor[0] + 1
    jobs = call.service.line.before(coordinator.state, before)
    return patients_after(jobs, wanted, cursor, most)


def _library(call: Call) -> Library:
    return Library(call.service.served.told, call.service.served.history)


def _now(call: Call) -> int:
    return call.service.served.coordinator.clock.wall()


def _wanted(call: Call) -> WantedCases:
    told = ",".join(call.query.get("reason", []))
    reasons = [name.strip().lower() for name in told.split(",") if name.strip()]
    for name in reasons:
        if name not in REASONS:
            raise Declined("invalid", f"reason={name[:40]!r} is none of {', '.join(REASONS)}")
    with understood():
        older_than_ms = duration_ms(call.one("older_than") or None, "older_than")
    return WantedCases(
        reasons=frozenset(reasons),
        job=call.one("job"),
        fingerprint=plain_mark(call.one("fingerprint")),
        older_than_ms=older_than_ms,
        name=call.one("name"),
    )


def _told(cursor: Cursor | None) -> str | None:
    return None if cursor is None else f"{cursor[0]}.{cursor[1]}"


def _place(call: Call) -> Cursor | None:
    text = call.one("cursor")
    if not text:
        return None
    position, dot, index = text.partition(".")
    parts = (position, index)
    if not dot or not all(p.isascii() and p.isdigit() and len(p) <= 18 for p in parts):
        raise Declined("invalid", f"cursor={text[:40]!r} is none that a page ended with")
    return int(position), int(index)
