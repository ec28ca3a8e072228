"""The table of routes as an application that a web server runs. Only this module knows HTTP.

Nothing that goes wrong here ends in a traceback for the asker: what they can mend has a code, what
only we can mend has a `trace_id` that the server's own log has too.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from hashlib import blake2b
from logging import getLogger
from typing import Final
from urllib.parse import parse_qs

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from holdfast.api.call import Answer, Answered, Call, Raw, Stream, Text
from holdfast.api.identity import NOBODY, PUBLIC, Identity, identify
from holdfast.api.limits import Door, Limits, Rates
from holdfast.api.matching import Paths
from holdfast.api.negotiation import PROBLEM, read_body, wants_msgpack, written
from holdfast.api.problems import Declined
from holdfast.api.repeats import Repeats, checked, digest_of
from holdfast.api.routes import TABLE, Route
from holdfast.api.service import Service
from holdfast.core.errors import OperatingError

log = getLogger("holdfast")

MOST_QUERY: Final = 100
BODY_S: Final = 60.0


class Api:
    """An ASGI application over one service."""

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
        self._repeats = Repeats(time.monotonic)
        self._rates = Rates(per_second, time.monotonic)

    def limit(self, door: Door, per_second: float) -> None:
        """Other names and another rate, for requests that come from now on."""
        self._door = door
        self._rates.limit(per_second)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"{scope['type']} is not spoken here")
        request = Request(scope, receive)
        answered = await self._respond(request)
        if isinstance(answered, Stream):
            self.service.answered[200] += 1
            await _send_stream(answered, send)
        else:
            self.service.answered[answered.status_code] += 1
            await answered(scope, receive, send)

    async def _respond(self, request: Request) -> Response | Stream:
        try:
            answered = await self._answer(request)
            return answered if isinstance(answered, Stream) else _response(request, answered)
        except Declined as no:
            return _problem(request, no)
        except ClientDisconnect:
            # Nobody is there to read this; asking again is up to them.
            return Response(status_code=499)
        except OperatingError as error:
            told = Declined("not_ready", str(error), headers={"retry-after": "1"})
            return _problem(request, told)
        except Exception:
            trace_id = secrets.token_hex(8)
            log.exception(
                "a request failed, and that is a bug of ours (trace %s)",
                trace_id,
                extra={"trace_id": trace_id, "path": request.url.path},
            )
            told = Declined("internal", f"the server's log tells more under trace {trace_id}")
            return _problem(request, told, trace_id)

    async def _answer(self, request: Request) -> Answered:
        headers = request.headers
        self._door.check(headers.get("host", ""), headers.get("origin", ""))
        route, values, identity = self._enter(request)
        chunks = _chunks(request, route.most_bytes)
        content = b"" if route.raw else await _whole(chunks)
        call = Call(
            service=self.service,
            identity=identity,
            path=values,
            query=_query(request.scope["query_string"], route),
            headers=headers,
            content=content,
            gone=_leaving(request),
            chunks=chunks,
        )
        if route.body is not None:
            call.body = read_body(route.body, content, headers.get("content-type", ""))
        key = headers.get("idempotency-key", "")
        if not key or route.method != "POST" or not route.keyed:
            return await route.answer(call)
        call.key = f"{identity.token_id}:{checked(key)}"
        call.digest = digest_of(route.method, _target(request), content)
        return await self._repeats.answer(call.key, call.digest, lambda: route.answer(call))

    def _enter(self, request: Request) -> tuple[Route, dict[str, str], Identity]:
        """The route and who asks. What is not there is told only to those who may ask at all."""
        found = self._paths.find(_raw_path(request.scope))
        route = found[0].get(request.method) if found is not None else None
        if route is not None and route.scope == PUBLIC and found is not None:
            return route, found[1], NOBODY
        coordinator = self.service.served.coordinator
        identity = identify(
            coordinator.state, request.headers.get("authorization"), coordinator.clock.wall()
        )
        if found is None:
            raise Declined("not_found", f"there is nothing at {request.url.path[:200]}")
        routes, values = found
        if route is None:
            allowed = ", ".join(sorted(routes))
            raise Declined(
                "method_not_allowed",
                f"{request.method[:20]} is not for this path; it takes {allowed}",
                headers={"allow": allowed},
            )
        if not identity.may(route.scope) and not (route.also and identity.may(route.also)):
            raise Declined("forbidden", f"this needs a token with the scope {route.scope!r}")
        if route.keyed:
            self._rates.spend(identity.token_id)
        return route, values, identity


def _raw_path(scope: Scope) -> str:
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.partition(b"?")[0].decode("latin-1")


def _query(raw: bytes, route: Route) -> dict[str, list[str]]:
    """What follows the path. A name nobody knows is a mistake, and is told: whoever mistypes a
    filter would be shown everything. Those who only ask whether we live may add what they like."""
    if not raw:
        return {}
    try:
        query = parse_qs(raw.decode("latin-1"), keep_blank_values=True, max_num_fields=MOST_QUERY)
    except ValueError as error:
        raise Declined("malformed", f"more than {MOST_QUERY} values follow the path") from error
    unknown = next((name for name in query if name not in route.query), None)
    if unknown is not None and route.scope != PUBLIC:
        known = ", ".join(route.query) or "none"
        raise Declined("invalid", f"{unknown[:40]!r} may not follow this path; known: {known}")
    return query


def _target(request: Request) -> str:
    return f"{_raw_path(request.scope)}?{request.scope['query_string'].decode('latin-1')}"


async def _chunks(request: Request, most: int) -> AsyncIterator[bytes]:
    """The body as it comes, or the refusal to read more than is good for us."""
    told = request.headers.get("content-length", "0")
    if told.isdigit() and (len(told) > 12 or int(told) > most):
        raise _too_much(most)
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > most:
                raise _too_much(most)
            yield chunk
    except ClientDisconnect:
        raise Declined("not_ready", "the asker has left") from None


async def _whole(chunks: AsyncIterator[bytes]) -> bytes:
    """All of a body that is short and comes soon."""
    try:
        async with asyncio.timeout(BODY_S):
            parts = [chunk async for chunk in chunks]
    except TimeoutError as error:
        late = f"the body did not arrive within {BODY_S:g} s"
        raise Declined("malformed", late, headers={"connection": "close"}) from error
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_much(most: int) -> Declined:
    return Declined(
        "too_large", f"a body here has at most {most} bytes", headers={"connection": "close"}
    )


def _leaving(request: Request) -> Callable[[], Awaitable[None]]:
    async def gone() -> None:
        message: Message = {"type": ""}
        while message["type"] != "http.disconnect":
            message = await request.receive()

    return gone


def _response(request: Request, answered: Answer | Text | Raw) -> Response:
    if isinstance(answered, Raw):
        headers = {"cache-control": "no-store", **dict(answered.headers)}
        return Response(answered.content, 200, headers, "application/octet-stream")
    if isinstance(answered, Text):
        return Response(answered.text, media_type=answered.content_type)
    msgpack = wants_msgpack(request.headers.get("accept", ""))
    content, media_type = written(answered.value, msgpack=msgpack)
    headers = {"cache-control": "no-cache" if answered.tagged else "no-store"}
    headers.update(answered.headers)
    if answered.tagged:
        tag = f'"{blake2b(content, digest_size=12).hexdigest()}"'
        headers["etag"] = tag
        known = request.headers.get("if-none-match", "")
        if tag in [each.strip().removeprefix("W/") for each in known.split(",")]:
            return Response(status_code=304, headers=headers)
    return Response(content, answered.status, headers, media_type)


def _problem(request: Request, no: Declined, trace_id: str = "") -> Response:
    problem = no.problem(instance=request.url.path[:200], trace_id=trace_id)
    msgpack = wants_msgpack(request.headers.get("accept", ""))
    content, media_type = written(problem, msgpack=msgpack)
    return Response(content, no.status, no.headers, media_type if msgpack else PROBLEM)


async def _send_stream(stream: Stream, send: Send) -> None:
    headers = [
        (b"content-type", stream.content_type.encode()),
        (b"cache-control", b"no-store"),
        (b"x-accel-buffering", b"no"),
    ]
    headers += [(name.encode(), value.encode()) for name, value in stream.headers]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    async for chunk in stream.chunks:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
