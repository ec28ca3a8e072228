"""Bytes in, bytes out: what a connection owes, asked over a real socket."""

import asyncio
import json
from hashlib import sha256

import msgspec
import pytest

from holdfast.api import app as app_module
from holdfast.api import exchange as exchange_module
from holdfast.api import protocol as protocol_module
from holdfast.api.response import whole
from holdfast.wire.exchange import Capacity, Exchange

PACKED = "application/msgpack"
PATIENCE_S = 30.0


def exchange(place, body: bytes | None = None, **rest) -> bytes:
    """An exchange of a worker that has nothing to say, or this one."""
    told = {"content_type": PACKED, **rest}
    body = packed(1) if body is None else body
    return place.request("POST /api/v1/exchange", body, **told)


def packed(number: int, hello: list | None = None) -> bytes:
    told = Exchange("w1", 1, number, 0, Capacity(2, 2_000, 0, 0), (), (), (), (), (), 0, False)
    return msgspec.msgpack.encode([*msgspec.to_builtins(told)[:12], hello])


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
        visitor.say(exchange(place), place.request("GET /api/v1/livez"))
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
        visitor.say(exchange(place, **change))
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
            visitor.say(exchange(place, token=token, accept=PACKED))
            answer = await visitor.hear()
            assert (answer.status, answer.headers["content-type"]) == (status, PACKED)

    told(story)


def test_a_body_that_grows_too_large_is_not_read_to_its_end(told):
    async def story(place):
        visitor = await place.visit()
        visitor.say(exchange(place, b"", content_length="", transfer_encoding="chunked"))
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
        visitor.say(exchange(place, b"\x9d", length=100))
        answer = await visitor.hear()
        assert (answer.status, answer.code) == (400, "malformed")
        assert "did not arrive" in json.loads(answer.content)["detail"]
        assert await visitor.is_let_go()

    told(story)


def test_the_rest_of_a_refused_body_is_not_taken_for_a_request(told):
    async def story(place):
        visitor = await place.visit()
        inside = place.request("GET /api/v1/livez")
        visitor.say(exchange(place, b"", length=len(inside), token=""))
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
        stranger.say(exchange(place, b"", length=5, token="", expect="100-continue"))
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


def test_who_leaves_while_it_is_parked_is_forsaken(told, monkeypatch):
    # Nobody is let go before the test has given up.
    monkeypatch.setattr(exchange_module, "PARK_S", 10 * PATIENCE_S)

    async def story(place):
        visitor = await place.visit()
        visitor.say(exchange(place, packed(1, ["h", 1, "1"])))
        workers = place.house.served.exchanges.workers
        while "w1" not in workers or workers["w1"].send is None:
            await asyncio.sleep(0)
        visitor.writer.transport.abort()
        async with asyncio.timeout(PATIENCE_S):
            while workers["w1"].send is not None or place.state.tasks:
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
        busy.say(exchange(place, packed(1, ["h", 1, "1"])))
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


def test_many_that_are_refused_at_once_are_all_answered_in_their_order(told):
    async def story(place):
        visitor = await place.visit()
        # More than a stack of calls would hold, had each begun the next.
        count = 1_200
        visitor.say(place.request("GET /api/v1/nowhere", token="") * count)
        visitor.say(place.request("GET /api/v1/livez"))
        heard = b""
        while heard.count(b"HTTP/1.1 ") <= count:
            heard += await asyncio.wait_for(visitor.reader.read(1 << 16), PATIENCE_S)
        statuses = [each.partition(b" ")[0] for each in heard.split(b"HTTP/1.1 ")[1:]]
        assert statuses == [b"401"] * count + [b"200"]

    told(story)


def test_what_came_whole_before_the_nonsense_is_answered(told):
    async def story(place):
        visitor = await place.visit()
        visitor.say(place.request("GET /api/v1/nowhere", token=""), b"\x00\x01 nonsense\r\n\r\n")
        assert [(await visitor.hear()).status for _ in range(2)] == [401, 400]
        assert await visitor.is_let_go()

    told(story)
