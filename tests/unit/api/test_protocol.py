"""Bytes in, bytes out: what a connection owes, asked over a real socket."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from hashlib import sha256

import httptools
import msgspec
import pytest
import uvicorn
from uvicorn.server import ServerState

from holdfast.api import app as app_module
from holdfast.api import protocol as protocol_module
from holdfast.api.protocol import Talk
from holdfast.api.response import whole
from holdfast.wire.exchange import Capacity, Exchange

PACKED = "application/msgpack"
PATIENCE_S = 30.0
EMPTY = msgspec.msgpack.encode(
    Exchange("w1", 1, 1, 0, Capacity(2, 2_000, 0, 0), (), (), (), (), (), 0, False)
)


class Answer:
    """One answer as the parser finds it."""

    def __init__(self) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.headers: dict[str, str] = {}
        self.content = b""
        self.is_over = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode()] = value.decode()

    def on_body(self, body: bytes) -> None:
        self.content += body

    def on_message_complete(self) -> None:
        self.is_over = True

    @property
    def status(self) -> int:
        return self.parser.get_status_code()

    @property
    def code(self) -> str:
        return json.loads(self.content)["code"]


class Visitor:
    """One connection. `say` and `hear` are all it can do."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def say(self, *parts: bytes) -> None:
        for part in parts:
            self.writer.write(part)

    async def hear(self) -> Answer:
        answer = Answer()
        while not answer.is_over:
            # A byte at a time, so that nothing of the next answer is lost.
            byte = await asyncio.wait_for(self.reader.read(1), PATIENCE_S)
            assert byte, "the connection was closed"
            answer.parser.feed_data(byte)
        return answer

    async def is_let_go(self) -> bool:
        try:
            return await asyncio.wait_for(self.reader.read(), PATIENCE_S) == b""
        except ConnectionResetError:
            return True


class Place:
    """A server of connections, and what they are counted in."""

    def __init__(self, host: str, port: int, state: ServerState, house) -> None:
        self.state = state
        self.house = house
        self._where = (host, port)
        self._visitors: list[Visitor] = []

    async def visit(self) -> Visitor:
        visitor = Visitor(*await asyncio.open_connection(*self._where))
        self._visitors.append(visitor)
        return visitor

    def request(
        self,
        what: str,
        body: bytes = b"",
        *,
        token: str | None = None,
        length: int | None = None,
        version: str = "1.1",
        **headers: str,
    ) -> bytes:
        told = {"host": "localhost", "content_length": str(len(body) if length is None else length)}
        token = self.house.admin if token is None else token
        if token:
            told["authorization"] = f"Bearer {token}"
        told |= headers
        lines = [f"{name.replace('_', '-')}: {value}\r\n" for name, value in told.items() if value]
        return f"{what} HTTP/{version}\r\n{''.join(lines)}\r\n".encode() + body

    def exchange(self, body: bytes = EMPTY, **rest) -> bytes:
        told = {"content_type": PACKED, **rest}
        return self.request("POST /api/v1/exchange", body, **told)

    async def leave(self) -> None:
        for visitor in self._visitors:
            visitor.writer.close()
        for connection in list(self.state.connections):
            connection.shutdown()
        while self.state.tasks:
            await asyncio.gather(*self.state.tasks, return_exceptions=True)


@asynccontextmanager
async def standing(house, respond=None) -> AsyncIterator[Place]:
    state = ServerState()
    config = uvicorn.Config(
        respond or house.api.respond, interface="asgi3", log_config=None, access_log=False
    )
    config.load()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Talk(config, state, {}), "127.0.0.1", 0)
    place = Place("127.0.0.1", server.sockets[0].getsockname()[1], state, house)
    try:
        yield place
    finally:
        house.service.leave()
        await place.leave()
        server.close()
        await server.wait_closed()


Story = Callable[[Place], Awaitable[None]]


@pytest.fixture
def told(inside) -> Callable[..., None]:
    def tell(story: Story, respond=None) -> None:
        async def at_home(house) -> None:
            async with standing(house, respond) as place:
                await story(place)

        inside(at_home)

    return tell


def test_a_request_may_come_byte_by_byte(told):
    async def story(place):
        visitor = await place.visit()
        body = b'{"command": {"argv": ["true"]}}'
        for byte in place.request("POST /api/v1/jobs", body, content_type="application/json"):
            visitor.say(bytes([byte]))
            await visitor.writer.drain()
            await asyncio.sleep(0)
        answer = await visitor.hear()
        assert (answer.status, json.loads(answer.content)["tasks"]) == (201, 1)
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["location"].startswith("/api/v1/jobs/")

    told(story)


def test_one_connection_serves_request_after_request(told):
    async def story(place):
        visitor = await place.visit()
        for _ in range(3):
            visitor.say(place.request("GET /api/v1/livez"))
            assert (await visitor.hear()).status == 200
        assert len(place.state.connections) == 1

    told(story)


def test_requests_that_come_together_are_answered_in_their_order(told):
    async def story(place):
        visitor = await place.visit()
        # The first waits for work; what is behind it waits for the first.
        visitor.say(place.exchange(), place.request("GET /api/v1/livez"))
        visitor.say(place.request("GET /api/v1/nowhere"))
        workers = place.house.served.exchanges.workers
        while "w1" not in workers or workers["w1"].send is None:
            await asyncio.sleep(0)
        # A worker that is not known is answered once at least, by whoever unparks it.
        place.house.served.exchanges.unpark_all()
        place.house.served.engine.soon()
        first, second, third = [await visitor.hear() for _ in range(3)]
        assert first.headers["content-type"] == "application/json"
        assert json.loads(first.content)["number"] == 1
        assert (second.status, third.status) == (200, 404)

    told(story)


@pytest.mark.parametrize(
    ("headers", "version"), [({"connection": "close"}, "1.1"), ({}, "1.0")]
)
def test_who_wants_one_answer_only_is_let_go_with_it(told, headers, version):
    async def story(place):
        visitor = await place.visit()
        visitor.say(place.request("GET /api/v1/livez", version=version, **headers))
        answer = await visitor.hear()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert await visitor.is_let_go()

    told(story)


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"token": ""}, 401, "unauthenticated"),
        ({"token": "hf_abc_def"}, 401, "unauthenticated"),
        ({"authorization": "Basic YTpi"}, 401, "unauthenticated"),
        ({"host": "evil.example"}, 403, "forbidden"),
        ({"origin": "http://evil.example"}, 403, "forbidden"),
        ({"content_type": "text/plain"}, 415, "unsupported_media_type"),
        ({"body": b"\xc1"}, 400, "malformed"),
        ({"body": msgspec.msgpack.encode(["w1", "no number"])}, 422, "invalid"),
        ({"length": 9 * 1024 * 1024}, 413, "too_large"),
    ],
)
def test_the_hottest_route_says_no_as_every_other_does(told, change, status, code):
    async def story(place):
        visitor = await place.visit()
        visitor.say(place.exchange(**change))
        answer = await visitor.hear()
        assert (answer.status, answer.code) == (status, code)
        assert answer.headers["content-type"] == "application/problem+json"
        assert ("www-authenticate" in answer.headers) == (status == 401)
        assert place.house.service.answered[status] == 1

    told(story)


def test_a_token_of_another_scope_or_past_its_time_opens_nothing(told):
    async def story(place):
        visitor = await place.visit()
        for scope, wall, status in (("read", 0, 403), ("worker", 1, 401)):
            token = await place.house.token(scope, expires_wall=wall)
            visitor.say(place.exchange(token=token, accept=PACKED))
            answer = await visitor.hear()
            assert (answer.status, answer.headers["content-type"]) == (status, PACKED)

    told(story)


def test_a_body_that_grows_too_large_is_not_read_to_its_end(told):
    async def story(place):
        visitor = await place.visit()
        visitor.say(place.exchange(b"", content_length="", transfer_encoding="chunked"))
        chunk = b"%x\r\n%b\r\n" % (1 << 16, bytes(1 << 16))
        heard = asyncio.ensure_future(visitor.hear())
        sent = 0
        while not heard.done() and sent < 64 << 20:
            visitor.say(chunk)
            sent += 1 << 16
            try:
                await visitor.writer.drain()
            except ConnectionError:
                break
        try:
            answer = await heard
            assert (answer.status, answer.code) == (413, "too_large")
            assert answer.headers["connection"] == "close"
        except (AssertionError, ConnectionError):
            # Who goes on sending may be cut off before it has read why.
            assert place.house.service.answered[413] == 1
        assert sent < 32 << 20

    told(story)


def test_a_body_that_does_not_come_is_waited_for_only_so_long(told, monkeypatch):
    monkeypatch.setattr(app_module, "BODY_S", 0.05)

    async def story(place):
        visitor = await place.visit()
        visitor.say(place.exchange(b"\x9d", length=100))
        answer = await visitor.hear()
        assert (answer.status, answer.code) == (400, "malformed")
        assert "did not arrive" in json.loads(answer.content)["detail"]
        assert await visitor.is_let_go()

    told(story)


def test_the_rest_of_a_refused_body_is_not_taken_for_a_request(told):
    async def story(place):
        visitor = await place.visit()
        inside = place.request("GET /api/v1/livez")
        visitor.say(place.exchange(b"", length=len(inside), token=""))
        assert (await visitor.hear()).status == 401
        visitor.say(inside, place.request("GET /api/v1/nowhere"))
        assert (await visitor.hear()).status == 404

    told(story)


def test_who_asks_before_sending_is_told_to_go_on_only_where_it_may(told):
    async def story(place):
        visitor = await place.visit()
        body = b'{"command": {"argv": ["true"]}}'
        head = place.request(
            "POST /api/v1/jobs", length=len(body), expect="100-continue",
            content_type="application/json",
        )  # fmt: skip
        visitor.say(head)
        told = await asyncio.wait_for(visitor.reader.readuntil(b"\r\n\r\n"), PATIENCE_S)
        assert told == b"HTTP/1.1 100 Continue\r\n\r\n"
        visitor.say(body)
        assert (await visitor.hear()).status == 201
        stranger = await place.visit()
        stranger.say(place.exchange(b"", length=5, token="", expect="100-continue"))
        assert (await stranger.hear()).status == 401

    told(story)


def test_a_large_body_flows_though_it_is_held_back_on_the_way(told):
    content = bytes(range(256)) * 40_000
    digest = sha256(content).hexdigest()

    async def story(place):
        visitor = await place.visit()
        visitor.say(place.request(f"PUT /api/v1/bundles/{digest}", content))
        answer = await visitor.hear()
        # It came whole; that it is no bundle is another matter.
        assert answer.status in (200, 201, 422), answer.content

    told(story)


def test_the_head_of_an_answer_alone_is_sent_where_only_that_was_asked_for(told):
    async def story(place):
        visitor = await place.visit()
        visitor.say(place.request("HEAD /api/v1/bundles/" + "0" * 64))
        head = await asyncio.wait_for(visitor.reader.readuntil(b"\r\n\r\n"), PATIENCE_S)
        assert head.startswith(b"HTTP/1.1 404")
        assert b"content-length: " in head
        # No body follows: the next thing is the next answer.
        visitor.say(place.request("GET /api/v1/livez"))
        assert (await visitor.hear()).status == 200

    told(story)


def test_who_leaves_while_it_is_parked_is_forsaken(told):
    async def story(place):
        visitor = await place.visit()
        known = {"hello": ["h", 1, "1"]}
        visitor.say(place.exchange(_packed(1, **known)))
        workers = place.house.served.exchanges.workers
        while "w1" not in workers or workers["w1"].send is None:
            await asyncio.sleep(0)
        visitor.writer.transport.abort()
        while workers["w1"].send is not None:
            await asyncio.sleep(0)
        while place.state.tasks:
            await asyncio.sleep(0)
        assert not place.state.connections

    told(story)


def test_a_stream_comes_in_chunks_and_ends_with_its_reader(told):
    async def story(place):
        visitor = await place.visit()
        visitor.say(place.request("GET /api/v1/watch"))
        head = await asyncio.wait_for(visitor.reader.readuntil(b"\r\n\r\n"), PATIENCE_S)
        assert b"transfer-encoding: chunked\r\n" in head
        assert b"content-type: application/x-holdfast-watch\r\n" in head
        size = int(await asyncio.wait_for(visitor.reader.readline(), PATIENCE_S), 16)
        assert len(await visitor.reader.readexactly(size + 2)) == size + 2
        visitor.writer.transport.abort()
        while place.state.tasks:
            await asyncio.sleep(0)
        assert not place.house.service.streams._open

    told(story)


@pytest.mark.parametrize("said", [b"\x16\x03\x01\x00\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9\r\n"])
def test_what_is_no_request_is_said_so_and_let_go(told, said):
    async def story(place):
        visitor = await place.visit()
        visitor.say(said)
        answer = await visitor.hear()
        assert (answer.status, answer.headers["connection"]) == (400, "close")
        assert await visitor.is_let_go()

    told(story)


def test_a_head_that_trickles_is_not_waited_for_longer_each_time(told, monkeypatch):
    monkeypatch.setattr(protocol_module, "HEAD_S", 0.05)

    async def story(place):
        visitor = await place.visit()
        visitor.say(place.request("GET /api/v1/livez"))
        assert (await visitor.hear()).status == 200
        gone = asyncio.ensure_future(visitor.is_let_go())
        trickle = iter(place.request("GET /api/v1/livez", x="y" * 10_000))
        while not gone.done():
            visitor.say(bytes([next(trickle)]))
            await asyncio.sleep(0.01)
        assert await gone

    told(story)


def test_a_server_that_leaves_answers_what_is_asked_and_closes(told):
    async def story(place):
        idle, busy = await place.visit(), await place.visit()
        idle.say(place.request("GET /api/v1/livez"))
        await idle.hear()
        busy.say(place.exchange(_packed(1, hello=["h", 1, "1"])))
        workers = place.house.served.exchanges.workers
        while "w1" not in workers or workers["w1"].send is None:
            await asyncio.sleep(0)
        for connection in list(place.state.connections):
            connection.shutdown()
        assert await idle.is_let_go()
        place.house.service.leave()
        answer = await busy.hear()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert await busy.is_let_go()

    told(story)


def test_an_answer_that_breaks_off_is_not_taken_for_a_whole_one(told):
    async def respond(asked):
        raise RuntimeError("broken")

    async def story(place):
        visitor = await place.visit()
        visitor.say(place.request("GET /x"))
        assert await visitor.is_let_go()

    told(story, respond)


def test_no_value_can_add_a_line_to_the_head_of_an_answer():
    for value in ("a\r\nevil: 1", "a\nb", "a\0b"):
        with pytest.raises(ValueError, match="cannot be told"):
            whole(200, headers=[("location", value)])


def _packed(number: int, **rest) -> bytes:
    told = Exchange("w1", 1, number, 0, Capacity(2, 2_000, 0, 0), (), (), (), (), (), 0, False)
    fields = msgspec.to_builtins(told)
    return msgspec.msgpack.encode([*fields[:12], rest.get("hello")])
