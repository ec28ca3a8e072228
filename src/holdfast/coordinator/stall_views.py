"""Stalls as people and programs look at them; and those that a folder shows without a server."""

from collections.abc import Iterator

from holdfast.coordinator.crews import Crew, noted_standings
from holdfast.coordinator.foresight import Foresight
from holdfast.coordinator.history import Past
from holdfast.coordinator.inspect import HistoryGone
from holdfast.coordinator.stalls import first_in_slots
from holdfast.coordinator.views import View, Wall, rfc3339
from holdfast.core.ids import NEVER, Index, Instant, Position
from holdfast.core.owed import BLOCK, READY
from holdfast.core.state import State
from holdfast.scheduler.owing import called
from holdfast.scheduler.stalls import (
    MEANINGS,
    Held,
    Stall,
    attempt_stall,
    deadlocks,
    left_waiting,
    stuck_sink,
)


def stall_view(stall: Stall, now: Instant, wall: Wall) -> View:
    return {
        "id": stall.id,
        "kind": stall.kind,
        "means": MEANINGS[stall.kind],
        "job_id": stall.job_id,
        "task": stall.task or None,
        "worker": stall.worker or None,
        "lease_id": stall.lease_id or None,
        "since": rfc3339(wall(stall.since)),
        "age_ms": max(0, now - stall.since),
        "why": stall.why,
        "recoverable": bool(stall.lease_id),
        "command": stall.command,
    }


def noted_stalls(
    past: Past, state: State, now: Instant, crew: Crew | None, patience_ms: int
) -> list[Stall]:
    """What hung at one moment, as far as a log and the notes beside it tell. What attempts said of
    their progress is not among that."""
    found = [
        *_attempts(past, state, now, patience_ms),
        *deadlocks(state, now, patience_ms),
        *_left_waiting(state, now, crew, patience_ms),
        *_stuck_sinks(past, state, now, patience_ms),
    ]
    return sorted(found, key=lambda stall: (stall.since, stall.id))


def _attempts(past: Past, state: State, now: Instant, patience_ms: int) -> Iterator[Stall]:
    for holder in state.holders.values():
        heads = first_in_slots(holder.leases.values())
        for task in holder.leases.values():
            is_head = task.lease_id in heads
            held = Held(
                task=task,
                spec=state.jobs[task.job_id].spec,
                now=now,
                patience_ms=patience_ms,
                leased_since=_recorded_at(past, task.granted) if is_head else NEVER,
                hears_progress=False,
            )
            stall = attempt_stall(held)
            if stall is not None:
                yield stall


def _left_waiting(
    state: State, now: Instant, crew: Crew | None, patience_ms: int
) -> Iterator[Stall]:
    """A job that nothing has happened to for so long though a plan would place a task of it."""
    if crew is None or not state.ready.queues:
        return
    for job_id, indices in Foresight(crew.outlook()).placed.items():
        job = state.jobs[job_id]
        since = max(job.updated_at, job.not_before)
        if now - since >= patience_ms:
            yield left_waiting(job, Index(min(indices)), since)


def _stuck_sinks(past: Past, state: State, now: Instant, patience_ms: int) -> Iterator[Stall]:
    """Places whose first entry could have been delivered ever since its commit."""
    stands = noted_standings(state, now)
    seen: dict[tuple[str, str], None] = {}
    for owing in sorted(state.debts, key=lambda owing: owing.order):
        where = (owing.debt.kind, owing.debt.place)
        if where in seen or where[0] == BLOCK or stands(owing).state != READY:
            continue
        seen[where] = None
        since = _recorded_at(past, owing.position)
        if since != NEVER and now - since >= patience_ms:
            name = owing.name
            yield stuck_sink(called(name), name.job_id, owing.debt.place, since, "")


def _recorded_at(past: Past, position: Position) -> Instant:
    """When a record was written; never, where that is no longer known."""
    try:
        return past.told(position).record.at
    except HistoryGone:
        return NEVER
