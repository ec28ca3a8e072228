"""One thing that can be asked."""

from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct

from holdfast.api.call import Answered, Call

PREFIX: Final = "/api/v1"
BODY_BYTES: Final = 2 * 1024 * 1024

Answerer = Callable[[Call], Awaitable[Answered]]
"""Where it gives a `Promise`, no task waits for it."""


class Route(Struct, frozen=True):
    """Method, path, who may, what it takes. `keyed`: a repeat is known by its Idempotency-Key;
    `query` names what may follow the path; `status`, `answers` and, for a body that is only
    bytes, `takes` are for the documents, as is `schema`, the name of what it takes there. `also`
    is another scope that is enough. `raw`: the body is any bytes, given on as they come."""

    method: str
    path: str
    scope: str
    answer: Answerer
    body: type[Struct] | None = None
    query: tuple[str, ...] = ()
    most_bytes: int = BODY_BYTES
    keyed: bool = True
    status: int = 200
    answers: str = "application/json"
    takes: str = ""
    also: str = ""
    raw: bool = False
    schema: str = ""

    @property
    def known(self) -> tuple[str, ...]:
        """What may follow the path. Who asks for a change may ask to be told of a repeat."""
        changes = self.method not in ("GET", "HEAD") and self.keyed and not self.raw
        return (*self.query, "strict") if changes else self.query

    @property
    def summary(self) -> str:
        return (self.answer.__doc__ or "").strip().partition("\n")[0]
