"""Everything that can be asked: method, path, who may, what it takes and what it is for.

The table is the one place where a route is declared. Whatever is not in it is not there.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct

from holdfast.api import (
    endpoints,
    events,
    exchange,
    health,
    jobs,
    queues,
    tasks,
    tokens,
    transactions,
    watch,
    workers,
)
from holdfast.api.call import Answered, Call
from holdfast.api.identity import PUBLIC
from holdfast.wire import bodies
from holdfast.wire.exchange import Exchange

PREFIX: Final = "/api/v1"
BODY_BYTES: Final = 2 * 1024 * 1024
EXCHANGE_BYTES: Final = 8 * 1024 * 1024

Answerer = Callable[[Call], Awaitable[Answered]]


class Route(Struct, frozen=True):
    """One thing that can be asked. `keyed`: a repeat is known by its Idempotency-Key."""

    method: str
    path: str
    scope: str
    answer: Answerer
    body: type[Struct] | None = None
    most_bytes: int = BODY_BYTES
    keyed: bool = True

    @property
    def summary(self) -> str:
        return (self.answer.__doc__ or "").strip().partition("\n")[0]


def _get(path: str, scope: str, answer: Answerer) -> Route:
    return Route("GET", path, scope, answer)


def _post(path: str, scope: str, answer: Answerer, body: type[Struct] | None = None) -> Route:
    return Route("POST", path, scope, answer, body)


TABLE: Final[tuple[Route, ...]] = (
    Route(
        "POST", "/exchange", "worker", exchange.exchange, Exchange,
        most_bytes=EXCHANGE_BYTES, keyed=False,
    ),
    _get("/livez", PUBLIC, health.livez),
    _get("/readyz", PUBLIC, health.readyz),
    _get("/healthz", PUBLIC, health.readyz),
    _get("/version", "read", health.version),
    _post("/jobs", "submit", jobs.submit, bodies.Submit),
    _get("/jobs", "read", jobs.list_jobs),
    _get("/jobs/{id}", "read", jobs.show),
    _post("/jobs/{id}/items", "submit", jobs.add_items, bodies.Items),
    _post("/jobs/{id}/seal", "submit", jobs.seal, bodies.Seal),
    _post("/jobs/{id}/alive", "submit", jobs.alive),
    _post("/jobs/{id}/cancel", "cancel", jobs.cancel, bodies.Reason),
    _post("/jobs/{id}/retry", "operator", jobs.retry, bodies.Retries),
    _get("/jobs/{id}/tasks", "read", tasks.list_tasks),
    _get("/jobs/{id}/outcomes", "read", tasks.outcomes),
    _get("/tasks/{job}/{index}", "read", tasks.show),
    _post("/tasks/{job}/{index}/cancel", "cancel", tasks.cancel, bodies.Reason),
    _post("/tasks/{job}/{index}/reschedule", "operator", tasks.reschedule, bodies.Reschedule),
    _get("/workers", "read", workers.list_workers),
    _get("/workers/{name}", "read", workers.show),
    _post("/workers/{name}/cordon", "operator", workers.cordon, bodies.Reason),
    _post("/workers/{name}/uncordon", "operator", workers.uncordon, bodies.Reason),
    _post("/workers/{name}/drain", "operator", workers.drain, bodies.Reason),
    _get("/leases", "read", workers.leases),
    _get("/transactions", "read", transactions.list_transactions),
    _get("/events", "read", events.follow),
    _get("/queues", "read", queues.list_queues),
    _post("/queues/{name}/pause", "operator", queues.pause, bodies.Reason),
    _post("/queues/{name}/resume", "operator", queues.resume, bodies.Reason),
    _get("/endpoints", "read", endpoints.list_endpoints),
    Route("PUT", "/endpoints/{name}", "worker", endpoints.register, bodies.NewEndpoint),
    Route("DELETE", "/endpoints/{name}", "worker", endpoints.remove),
    _get("/tokens", "admin", tokens.list_tokens),
    _post("/tokens", "admin", tokens.issue, bodies.NewToken),
    Route("DELETE", "/tokens/{id}", "admin", tokens.revoke),
    _get("/watch", "read", watch.listen),
    _post("/watch/{stream}", "read", watch.add, bodies.Watch),
)  # fmt: skip
