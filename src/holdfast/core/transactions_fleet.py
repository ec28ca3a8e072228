"""How facts about who may ask, who may work, how much, and where to reach it are told."""

from collections.abc import Iterator
from typing import Final

from holdfast.core import events as e
from holdfast.core.action import LOG, Action, Details, Renderer
from holdfast.core.ids import task_name
from holdfast.core.record import Record


def _request_noted(event: e.RequestNoted, record: Record) -> Iterator[Action]:
    """The envelope names the request already; that it may be repeated is no action."""
    yield from ()


def _requests_forgotten(event: e.RequestsForgotten, record: Record) -> Iterator[Action]:
    yield Action("requests_forgotten", LOG, {"count": len(event.keys)})


def _worker_cordoned(event: e.WorkerCordoned, record: Record) -> Iterator[Action]:
    yield Action("worker_cordoned", event.worker, {"reason": event.reason})


def _worker_uncordoned(event: e.WorkerUncordoned, record: Record) -> Iterator[Action]:
    yield Action("worker_uncordoned", event.worker, {})


def _queue_paused(event: e.QueuePaused, record: Record) -> Iterator[Action]:
    yield Action("queue_paused", event.queue, {"reason": event.reason})


def _queue_resumed(event: e.QueueResumed, record: Record) -> Iterator[Action]:
    yield Action("queue_resumed", event.queue, {})


def _limit_set(event: e.LimitSet, record: Record) -> Iterator[Action]:
    bounds: Details = {"running": event.running, "starts": event.starts, "per_ms": event.per_ms}
    bounds |= {"weight": event.weight, **dict(event.amounts)}
    yield Action("limit_set", f"{event.scope}:{event.name}", bounds)


def _limit_cleared(event: e.LimitCleared, record: Record) -> Iterator[Action]:
    yield Action("limit_cleared", f"{event.scope}:{event.name}", {})


def _endpoint_registered(event: e.EndpointRegistered, record: Record) -> Iterator[Action]:
    details: Details = {"name": event.name, "address": event.address}
    yield Action("endpoint_registered", task_name(event.job_id, event.index), details)


def _endpoint_removed(event: e.EndpointRemoved, record: Record) -> Iterator[Action]:
    yield Action("endpoint_removed", task_name(event.job_id, event.index), {"name": event.name})


def _token_issued(event: e.TokenIssued, record: Record) -> Iterator[Action]:
    details: Details = {"name": event.name, "scopes": ",".join(event.scopes)}
    yield Action("token_issued", event.token_id, details)


def _token_revoked(event: e.TokenRevoked, record: Record) -> Iterator[Action]:
    yield Action("token_revoked", event.token_id, {})


def _tokens_expired(event: e.TokensExpired, record: Record) -> Iterator[Action]:
    for token_id in event.token_ids:
        yield Action("token_expired", token_id, {})


FLEET: Final[dict[type[e.Event], Renderer]] = {
    e.RequestNoted: _request_noted,
    e.RequestsForgotten: _requests_forgotten,
    e.WorkerCordoned: _worker_cordoned,
    e.WorkerUncordoned: _worker_uncordoned,
    e.QueuePaused: _queue_paused,
    e.QueueResumed: _queue_resumed,
    e.LimitSet: _limit_set,
    e.LimitCleared: _limit_cleared,
    e.EndpointRegistered: _endpoint_registered,
    e.EndpointRemoved: _endpoint_removed,
    e.TokenIssued: _token_issued,
    e.TokenRevoked: _token_revoked,
    e.TokensExpired: _tokens_expired,
}
