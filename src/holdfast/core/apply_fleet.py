"""Folds of the events about who may ask, who may work, how much, and where to reach it."""

from collections.abc import Iterable
from typing import Any

from holdfast.core import events as e
from holdfast.core.errors import BrokenInvariant, ImpossibleEvent
from holdfast.core.ids import Index, Instant, JobId, LeaseId, Position
from holdfast.core.state import Limit, Request, State, Token
from holdfast.core.task import Endpoint, Task


def request_noted(state: State, event: e.RequestNoted, position: Position, at: Instant) -> None:
    if event.key in state.requests:
        raise BrokenInvariant(f"request {event.key!r} was answered twice")
    state.requests[event.key] = Request(event.digest, position, at)


def requests_forgotten(
    state: State, event: e.RequestsForgotten, position: Position, at: Instant
) -> None:
    _drop_all(state.requests, event.keys, "request")


def worker_cordoned(
    state: State, event: e.WorkerCordoned, position: Position, at: Instant
) -> None:
    state.cordoned[event.worker] = event.reason


def worker_uncordoned(
    state: State, event: e.WorkerUncordoned, position: Position, at: Instant
) -> None:
    _drop_all(state.cordoned, (event.worker,), "cordon of")


def queue_paused(state: State, event: e.QueuePaused, position: Position, at: Instant) -> None:
    state.paused[event.queue] = event.reason


def queue_resumed(state: State, event: e.QueueResumed, position: Position, at: Instant) -> None:
    _drop_all(state.paused, (event.queue,), "pause of")


def limit_set(state: State, event: e.LimitSet, position: Position, at: Instant) -> None:
    limit = Limit(event.running, event.starts, event.per_ms, event.weight, event.amounts)
    state.limits[(event.scope, event.name)] = limit


def limit_cleared(state: State, event: e.LimitCleared, position: Position, at: Instant) -> None:
    _drop_all(state.limits, ((event.scope, event.name),), "limit of")


def endpoint_registered(
    state: State, event: e.EndpointRegistered, position: Position, at: Instant
) -> None:
    task = _tenured(state, event.job_id, event.index, event.lease_id, event)
    kept = tuple(known for known in task.endpoints if known.name != event.name)
    task.endpoints = (*kept, Endpoint(event.name, event.address, event.metadata))
    state.endpoints.setdefault(event.name, {})[task.lease_id] = task


def endpoint_removed(
    state: State, event: e.EndpointRemoved, position: Position, at: Instant
) -> None:
    task = _tenured(state, event.job_id, event.index, event.lease_id, event)
    kept = tuple(known for known in task.endpoints if known.name != event.name)
    if len(kept) == len(task.endpoints):
        raise ImpossibleEvent(f"endpoint {event.name}", "unknown", event)
    task.endpoints = kept
    state.drop_endpoint(event.name, task.lease_id)


def token_issued(state: State, event: e.TokenIssued, position: Position, at: Instant) -> None:
    if event.token_id in state.tokens:
        raise BrokenInvariant(f"token {event.token_id} was issued twice")
    state.tokens[event.token_id] = Token(
        token_id=event.token_id,
        name=event.name,
        digest=event.digest,
        scopes=event.scopes,
        worker=event.worker,
        issued_at=at,
        expires_wall=event.expires_wall,
    )


def token_revoked(state: State, event: e.TokenRevoked, position: Position, at: Instant) -> None:
    _drop_all(state.tokens, (event.token_id,), "token")


def tokens_expired(state: State, event: e.TokensExpired, position: Position, at: Instant) -> None:
    _drop_all(state.tokens, event.token_ids, "token")


def _drop_all(known: dict[Any, Any], names: Iterable[object], what: str) -> None:
    for name in names:
        if name not in known:
            raise BrokenInvariant(f"the {what} {name!r} was dropped twice")
    for name in names:
        del known[name]


def _tenured(
    state: State, job_id: JobId, index: Index, lease_id: LeaseId, event: e.Event
) -> Task:
    task = (state.job_of(job_id).tasks or {}).get(index)
    if task is None or not lease_id or task.lease_id != lease_id:
        raise ImpossibleEvent(f"task {job_id}/{index}", "under another lease", event)
    return task
