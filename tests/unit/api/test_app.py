"""Limits, doors and troubles: what is told when a request cannot be answered."""

import asyncio
import logging

import pytest

from holdfast.api.asked import Asked
from holdfast.api.call import Answer, Call
from holdfast.api.limits import Door
from holdfast.api.problems import CODES, Declined
from holdfast.api.route import Route
from holdfast.api.routes import TABLE
from holdfast.api.turns import Turns
from holdfast.core import commands as c
from holdfast.core.errors import LogFailed

SPELLED = {
    "not_found": 404, "gone": 410, "conflict": 409, "invalid_transition": 409, "lease_lost": 409,
    "job_sealed": 409, "offset_gap": 409, "key_reused": 422, "invalid": 422, "malformed": 400,
    "too_large": 413, "unauthenticated": 401, "forbidden": 403, "method_not_allowed": 405,
    "precondition_failed": 412, "unschedulable": 409, "not_stored": 409, "damaged": 500,
    "unsupported_media_type": 415, "rate_limited": 429, "not_ready": 503, "queue_full": 503,
    "disk_low": 503, "disk_full": 503, "disk_slow": 503,
    "repeated": 409,
}  # fmt: skip


def test_codes_have_the_statuses_that_clients_rely_on():
    assert {code: status for code, (status, _) in CODES.items() if code != "internal"} == SPELLED


async def breaks(call: Call) -> Answer:
    """Breaks."""
    raise ZeroDivisionError("a secret of ours")


async def fails(call: Call) -> Answer:
    """Fails as a log does."""
    raise LogFailed("the disk is gone")


def test_a_bug_is_told_by_its_trace_alone(inside, caplog):
    async def story(house):
        told = await house.get("/breaks", token="")
        assert (told.status, told.code) == (500, "internal")
        assert b"secret" not in told.content
        assert b"Traceback" not in told.content
        trace = told.value["trace_id"]
        assert trace in told.value["detail"]
        with caplog.at_level(logging.ERROR):
            again = await house.get("/breaks", token="")
        assert again.value["trace_id"] in caplog.text
        assert "ZeroDivisionError" in caplog.text

    inside(story, table=(*TABLE, Route("GET", "/breaks", "", breaks)))


def test_a_log_that_failed_is_a_reason_to_come_again(inside):
    async def story(house):
        told = await house.get("/fails", token="")
        assert (told.status, told.code) == (503, "not_ready")
        assert told.headers["retry-after"] == "1"

    inside(story, table=(*TABLE, Route("GET", "/fails", "", fails)))


def test_a_body_that_is_too_large_is_not_read(inside):
    async def story(house):
        told = await house.post("/jobs", b" " * (2 * 1024 * 1024 + 1))
        assert (told.status, told.code) == (413, "too_large")
        announced = await house.post("/jobs", b"{}", content_length=str(10**15))
        assert announced.code == "too_large"
        large = await house.post("/exchange", b" " * (2 * 1024 * 1024 + 1))
        assert large.code == "malformed"
        larger = await house.post("/exchange", b" " * (8 * 1024 * 1024 + 1))
        assert larger.code == "too_large"

    inside(story)


def test_a_query_has_a_bounded_number_of_values(inside):
    async def story(house):
        told = await house.get("/jobs?" + "&".join(f"label=k{n}=v" for n in range(101)))
        assert (told.status, told.code) == (400, "malformed")

    inside(story)


def test_who_asks_too_often_is_told_when_to_come_again(inside):
    async def story(house):
        told = [await house.get("/version") for _ in range(10)]
        refused = [each for each in told if each.status == 429]
        assert refused
        assert refused[0].code == "rate_limited"
        assert int(refused[0].headers["retry-after"]) >= 1
        assert (await house.get("/version", token=await house.token("read"))).status == 200
        assert (await house.get("/livez")).status == 200

    inside(story, per_second=1.0)


def test_a_page_elsewhere_cannot_call_us_by_another_name(inside):
    async def story(house):
        for host in ("evil.example", "evil.example:7700", "x@localhost", "", "localhost.evil"):
            told = await house.get("/livez", host=host)
            assert (told.status, told.code) == (403, "forbidden"), host
        for host in ("localhost:7700", "127.0.0.1", "[::1]:7700", "LOCALHOST"):
            assert (await house.get("/livez", host=host)).status == 200
        told = await house.get("/livez", host="localhost:7700", origin="http://evil.example")
        assert told.code == "forbidden"
        same = await house.get("/livez", host="localhost:7700", origin="http://localhost:7700")
        assert same.status == 200

    inside(story)


def test_a_name_that_was_allowed_is_answered_to():
    Door(["jobs.example"], any_host=False).check("Jobs.Example:443", "")
    Door([], any_host=True).check("anything", "")
    with pytest.raises(Declined):
        Door(["jobs.example"], any_host=False).check("other.example", "")


def test_a_server_that_leaves_is_not_ready(inside):
    async def story(house):
        assert (await house.get("/readyz?verbose")).value["checks"]["log"] == "ok"
        house.service.leave()
        told = await house.get("/readyz", token="")
        assert (told.status, told.code) == (503, "not_ready")
        assert (await house.get("/livez", token="")).status == 200

    inside(story)


def test_the_interface_documents_every_route_and_every_body(inside):
    async def story(house):
        document = (await house.get("/openapi.json")).value
        assert document["openapi"] == "3.1.0"
        for route in TABLE:
            told = document["paths"]["/api/v1" + route.path][route.method.lower()]
            assert told["summary"] == route.summary
            if route.body is not None:
                assert route.body.__name__ in document["components"]["schemas"]
        names = [
            operation["operationId"]
            for path in document["paths"].values()
            for operation in path.values()
        ]
        assert len(names) == len(set(names))
        page = await house.get("/docs")
        assert page.headers["content-type"].startswith("text/html")
        assert all(f'id="{code}"'.encode() in page.content for code in CODES)

    inside(story)


def test_numbers_are_told_to_prometheus(inside):
    async def story(house):
        await house.submit()
        await house.get("/jobs/9")
        told = await house.get("/metrics")
        lines = told.content.decode().splitlines()
        assert "holdfast_jobs 1" in lines
        assert "holdfast_jobs_waiting 1" in lines
        assert 'holdfast_requests_total{status="404"} 1' in lines
        assert all(line.startswith(("#", "holdfast_", "crm_nfr_")) for line in lines)

    inside(story)


def test_transactions_are_the_newest_with_the_newest_last(inside):
    async def story(house):
        for _ in range(3):
            await house.submit()
        told = (await house.get("/transactions?limit=2")).value["transactions"]
        last = house.served.coordinator.state.position
        assert [each["position"] for each in told] == [last - 1, last]
        assert told[-1]["time"].endswith("Z")

    inside(story)


def test_a_name_that_nobody_knows_may_not_follow_a_path(inside):
    async def story(house):
        told = await house.get("/jobs?stat=RUNNING")
        assert (told.status, told.code) == (422, "invalid")
        assert "'stat' may not follow this path; known: state, name" in told.value["detail"]
        assert (await house.post("/jobs/1/cancel?reason=no")).code == "invalid"
        # Whoever watches over processes may add what they like.
        assert (await house.get("/livez?at=1", token="")).status == 200

    inside(story)


def test_a_token_that_was_shown_before_opens_nothing_once_it_is_revoked(inside):
    async def story(house):
        token = await house.token("read")
        assert [(await house.get("/jobs", token=token)).status for _ in range(2)] == [200, 200]
        token_id = token.split("_")[1]
        await house.served.ask(
            lambda k: k.execute(c.RevokeToken(token_id=token_id), actor="test")
        )
        assert (await house.get("/jobs", token=token)).code == "unauthenticated"

    inside(story)


def test_a_token_that_was_shown_before_expires_all_the_same(inside, monkeypatch):
    async def story(house):
        clock = house.served.coordinator.clock
        expires = clock.wall() + 60_000
        token = await house.token("read", expires_wall=expires)
        assert (await house.get("/jobs", token=token)).status == 200
        monkeypatch.setattr(clock, "wall", lambda: expires)
        assert (await house.get("/jobs", token=token)).code == "unauthenticated"

    inside(story)


def test_a_body_that_comes_in_parts_waits_for_its_turn_as_one_that_comes_whole(inside, monkeypatch):
    waited = []

    async def wait(turns, who):
        waited.append(who)

    monkeypatch.setattr(Turns, "is_up", lambda turns, who: False)
    monkeypatch.setattr(Turns, "wait", wait)

    async def story(house):
        named = {"host": "localhost", "authorization": f"Bearer {house.admin}"}
        asked = Asked("POST", "/api/v1/jobs", b"", {**named, "content-type": "application/json"})
        answering = asyncio.ensure_future(house.api.respond(asked))
        await asyncio.sleep(0)
        asked.add(b'{"command": {"argv": ')
        asked.add(b'["true"]}}')
        asked.end()
        assert (await answering).status == 201
        assert len(waited) == 1

    inside(story)
