"""The table of routes, and who may ask what of it. Requests come from whoever reads the wire.

Nothing that goes wrong here ends in a traceback for the asker: what they can mend has a code, what
only we can mend has a `trace_id` that the server's own log has too.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterable, Mapping
from hashlib import blake2b
from logging import getLogger
from typing import Any, Final
from urllib.parse import parse_qs

from holdfast.api.asked import Asked, Left
from holdfast.api.call import Answer, Answered, Call, Raw, Stream, Text
from holdfast.api.identity import NOBODY, PUBLIC, Identities, Identity
from holdfast.api.limits import Door, Limits, Rates
from holdfast.api.matching import Paths
from holdfast.api.negotiation import PROBLEM, read_body, wants_msgpack, written
from holdfast.api.problems import Declined
from holdfast.api.repeats import Repeats, checked, digest_of
from holdfast.api.response import Response, Streamed, streamed, whole
from holdfast.api.routes import TABLE, Route
from holdfast.api.service import Service
from holdfast.api.turns import Turns
from holdfast.coordinator.promise import Promise
from holdfast.core.errors import OperatingError

log = getLogger("holdfast")

MOST_QUERY: Final = 100
BODY_S: Final = 60.0
NOT_STORED: Final = ("cache-control", "no-store")
CACHED: Final = ("cache-control", "no-cache")

Promised = Promise[Response]


class Api:
    """One service as it answers requests."""

    def __init__(
        self,
        service: Service,
        *,
        door: Door,
        table: Iterable[Route] = TABLE,
        per_second: float = Limits().per_second,
    ) -> None:
        self.service = service
        self._door = door
        self._paths = Paths(table)
        self._identities = Identities()
        self._repeats = Repeats(time.monotonic)
        self._rates = Rates(per_second, time.monotonic)
        self._turns = Turns(time.perf_counter)

    def limit(self, door: Door, per_second: float) -> None:
        """Other names and another rate, for requests that come from now on."""
        self._door = door
        self._rates.limit(per_second)

    def respond(self, asked: Asked) -> Promised | Coroutine[Any, Any, Response | Streamed]:
        """The answer to a request, whatever comes of it: promised, or to be awaited."""
        try:
            route, values, identity = self._enter(asked)
            if route.raw or not asked.is_whole:
                return self._responded(asked, self._read(asked, route, values, identity))
            content = _taken(asked, route.most_bytes)
            if not self._turns.is_up(identity.token_id):
                return self._responded(
                    asked, self._in_turn(asked, route, values, identity, content)
                )
            answering = self._at_once(asked, route, values, identity, content)
        except Exception as error:  # noqa: BLE001 - whoever asked is told, whatever it was
            refused: Promised = Promise()
            refused.keep(self._refusal(asked, error))
            return refused
        if not isinstance(answering, Promise):
            return self._responded(asked, answering)
        promised: Promised = Promise()
        answering.then(lambda answered: promised.keep(self._response(asked, answered)))
        return promised

    def _at_once(
        self, asked: Asked, route: Route, values: dict[str, str], identity: Identity, content: bytes
    ) -> Awaitable[Answered]:
        """The answer to a request whose body is there."""
        began = self._turns.begin()
        try:
            return self._ask(asked, route, self._call(asked, route, values, identity, content))
        finally:
            self._turns.end(identity.token_id, began)

    async def _in_turn(
        self, asked: Asked, route: Route, values: dict[str, str], identity: Identity, content: bytes
    ) -> Answered:
        if not self._turns.is_up(identity.token_id):
            await self._turns.wait(identity.token_id)
        if asked.has_left:
            raise Left
        return await self._at_once(asked, route, values, identity, content)

    async def _responded(
        self, asked: Asked, answering: Awaitable[Answered]
    ) -> Response | Streamed:
        try:
            answered = await answering
            if isinstance(answered, Stream):
                self.service.answered[200] += 1
                return streamed(answered.content_type, answered.chunks, answered.headers)
        except Exception as error:  # noqa: BLE001 - as above
            return self._refusal(asked, error)
        return self._response(asked, answered)

    def _response(self, asked: Asked, answered: Answer | Text | Raw | Exception) -> Response:
        if isinstance(answered, Exception):
            return self._refusal(asked, answered)
        try:
            response = _response(asked, answered)
        except Exception as error:  # noqa: BLE001 - as above
            return self._refusal(asked, error)
        self.service.answered[response.status] += 1
        return response

    def _refusal(self, asked: Asked, error: Exception) -> Response:
        """What is told of a trouble; one that nobody has foreseen is a bug."""
        if isinstance(error, Declined):
            response = _problem(asked, error)
        elif isinstance(error, Left):
            # Nobody is there to read this; asking again is up to them.
            response = Response(499, b"")
        elif isinstance(error, OperatingError):
            told = Declined("not_ready", str(error), headers={"retry-after": "1"})
            response = _problem(asked, told)
        else:
            trace_id = secrets.token_hex(8)
            log.error(
                "a request failed, and that is a bug of ours (trace %s)",
                trace_id,
                exc_info=error,
                extra={"trace_id": trace_id, "path": asked.path},
            )
            told = Declined("internal", f"the server's log tells more under trace {trace_id}")
            response = _problem(asked, told, trace_id)
        self.service.answered[response.status] += 1
        return response

    async def _read(
        self, asked: Asked, route: Route, values: dict[str, str], identity: Identity
    ) -> Answered:
        """The answer to a request whose body is not there yet."""
        if not route.raw:
            content = await _whole(asked, route.most_bytes)
            return await self._in_turn(asked, route, values, identity, content)
        call = self._call(asked, route, values, identity, b"")
        call.chunks = _pieces(asked, route.most_bytes)
        return await self._ask(asked, route, call)

    def _call(
        self, asked: Asked, route: Route, values: dict[str, str], identity: Identity, content: bytes
    ) -> Call:
        headers = asked.headers
        call = Call(
            service=self.service,
            identity=identity,
            path=values,
            query=_query(asked.query, route) if asked.query else {},
            headers=headers,
            content=content,
            gone=asked.gone,
            when_left=asked.when_left,
        )
        if route.body is not None:
            call.body = read_body(route.body, content, headers.get("content-type", ""))
        return call

    def _ask(self, asked: Asked, route: Route, call: Call) -> Awaitable[Answered]:
        key = call.headers.get("idempotency-key", "")
        if not key or route.method != "POST" or not route.keyed:
            return route.answer(call)
        call.key = f"{call.identity.token_id}:{checked(key)}"
        call.digest = digest_of(route.method, _target(asked), call.content)
        return self._repeats.answer(call.key, call.digest, lambda: route.answer(call))

    def _enter(self, asked: Asked) -> tuple[Route, dict[str, str], Identity]:
        """The route and who asks. What is not there is told only to those who may ask at all."""
        headers = asked.headers
        self._door.check(headers.get("host", ""), headers.get("origin", ""))
        route, values, identity = self._admit(asked)
        _check_length(headers, route.most_bytes)
        return route, values, identity

    def _admit(self, asked: Asked) -> tuple[Route, dict[str, str], Identity]:
        found = self._paths.find(asked.path)
        route = found[0].get(asked.method) if found is not None else None
        if route is not None and route.scope == PUBLIC and found is not None:
            return route, found[1], NOBODY
        coordinator = self.service.served.coordinator
        identity = self._identities.identify(
            coordinator.state, asked.headers.get("authorization", ""), coordinator.clock.wall()
        )
        if found is None:
            raise Declined("not_found", f"there is nothing at {asked.path[:200]}")
        routes, values = found
        if route is None:
            allowed = ", ".join(sorted(routes))
            raise Declined(
                "method_not_allowed",
                f"{asked.method[:20]} is not for this path; it takes {allowed}",
                headers={"allow": allowed},
            )
        if not identity.may(route.scope) and not (route.also and identity.may(route.also)):
            raise Declined("forbidden", f"this needs a token with the scope {route.scope!r}")
        if route.keyed:
            self._rates.spend(identity.token_id)
        return route, values, identity


def _query(raw: bytes, route: Route) -> dict[str, list[str]]:
    """What follows the path. A name nobody knows is a mistake, and is told: whoever mistypes a
    filter would be shown everything. Those who only ask whether we live may add what they like."""
    try:
        query = parse_qs(raw.decode("latin-1"), keep_blank_values=True, max_num_fields=MOST_QUERY)
    except ValueError as error:
        raise Declined("malformed", f"more than {MOST_QUERY} values follow the path") from error
    unknown = next((name for name in query if name not in route.known), None)
    if unknown is not None and route.scope != PUBLIC:
        known = ", ".join(route.known) or "none"
        raise Declined("invalid", f"{unknown[:40]!r} may not follow this path; known: {known}")
    return query


def _target(asked: Asked) -> str:
    return f"{asked.path}?{asked.query.decode('latin-1')}"


def _check_length(headers: Mapping[str, str], most: int) -> None:
    told = headers.get("content-length", "0")
    if told.isdigit() and (len(told) > 12 or int(told) > most):
        raise _too_much(most)


def _taken(asked: Asked, most: int) -> bytes:
    """All of a body that is there."""
    content = asked.taken()
    if len(content) > most:
        raise _too_much(most)
    return content


async def _whole(asked: Asked, most: int) -> bytes:
    """All of a body that is short and comes soon."""
    try:
        async with asyncio.timeout(BODY_S):
            return b"".join([piece async for piece in _pieces(asked, most)])
    except TimeoutError as error:
        late = f"the body did not arrive within {BODY_S:g} s"
        raise Declined("malformed", late, headers={"connection": "close"}) from error


async def _pieces(asked: Asked, most: int) -> AsyncIterator[bytes]:
    """The body as it comes, or the refusal to read more than is good for us."""
    size = 0
    async for piece in asked.pieces():
        size += len(piece)
        if size > most:
            raise _too_much(most)
        yield piece


def _too_much(most: int) -> Declined:
    return Declined(
        "too_large", f"a body here has at most {most} bytes", headers={"connection": "close"}
    )


def _response(asked: Asked, answered: Answer | Text | Raw) -> Response:
    if isinstance(answered, Raw):
        headers = (NOT_STORED, *answered.headers)
        return whole(200, answered.content, "application/octet-stream", headers)
    if isinstance(answered, Text):
        return whole(200, answered.text.encode(), answered.content_type)
    msgpack = wants_msgpack(asked.headers.get("accept", ""))
    content, media_type = written(answered.value, msgpack=msgpack)
    headers = (CACHED if answered.tagged else NOT_STORED, *answered.headers)
    if answered.tagged:
        tag = f'"{blake2b(content, digest_size=12).hexdigest()}"'
        headers = (*headers, ("etag", tag))
        known = asked.headers.get("if-none-match", "")
        if tag in [each.strip().removeprefix("W/") for each in known.split(",")]:
            return whole(304, headers=headers)
    return whole(answered.status, content, media_type, headers)


def _problem(asked: Asked, no: Declined, trace_id: str = "") -> Response:
    problem = no.problem(instance=asked.path[:200], trace_id=trace_id)
    msgpack = wants_msgpack(asked.headers.get("accept", ""))
    content, media_type = written(problem, msgpack=msgpack)
    return whole(no.status, content, media_type if msgpack else PROBLEM, no.headers.items())
