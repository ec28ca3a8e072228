"""Everything that can be asked: method, path, who may, what it takes and what it is for.

The table is the one place where a route is declared. Whatever is not in it is not there.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct

from holdfast.api import exchange, health, jobs, watch
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
    _get("/watch", "read", watch.listen),
    _post("/watch/{stream}", "read", watch.add, bodies.Watch),
)  # fmt: skip
